"""Statistics and tolerances that several claims share."""

JOINT = "whitened distance to the law per square root of a test point, upper 95 % end"
JOINT_WHY = (
    "0.25 is a mean off by a quarter of a standard deviation in every whitened direction, or variances off by 35 %; "
    "about 0.03 nats of Kullback-Leibler divergence a test point"
)
