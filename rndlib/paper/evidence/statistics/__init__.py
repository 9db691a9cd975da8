"""The statistics behind the claims: they take a sample of networks and a law, and most give a `claims.Finding`.

A sample is an array (networks, points), or a `control_variates.Sample`, whose control variates reduce the Monte-Carlo
error. The unit of replication is a network with its own seed. Heads of one network and test points of one network are
dependent, and nothing here counts them as independent. Each end of an interval has a confidence of 95 %,
one-sided, unless a docstring says two-sided. All raise a ValueError for malformed input, too few networks for an
interval, or a `cov` that is not positive definite.
"""

from rndlib.paper.evidence.statistics.dependence import dependence as dependence
from rndlib.paper.evidence.statistics.dependence import dependence_of_samples as dependence_of_samples
from rndlib.paper.evidence.statistics.dependence import exact_draws as exact_draws
from rndlib.paper.evidence.statistics.dependence import mixed as mixed
from rndlib.paper.evidence.statistics.dependence import repeats as repeats
from rndlib.paper.evidence.statistics.dependence import with_replacement as with_replacement
from rndlib.paper.evidence.statistics.energy import energy as energy
from rndlib.paper.evidence.statistics.energy import gaussian_energy as gaussian_energy
from rndlib.paper.evidence.statistics.floor import agreement as agreement
from rndlib.paper.evidence.statistics.floor import calibration as calibration
from rndlib.paper.evidence.statistics.floor import floor as floor
from rndlib.paper.evidence.statistics.floor import floor_draws as floor_draws
from rndlib.paper.evidence.statistics.floor import sharp_variance as sharp_variance
from rndlib.paper.evidence.statistics.gaussian import centred as centred
from rndlib.paper.evidence.statistics.gaussian import excess_kurtosis as excess_kurtosis
from rndlib.paper.evidence.statistics.gaussian import joint_law as joint_law
from rndlib.paper.evidence.statistics.gaussian import whitened as whitened
from rndlib.paper.evidence.statistics.intervals import level as level
from rndlib.paper.evidence.statistics.intervals import over_seeds as over_seeds
from rndlib.paper.evidence.statistics.intervals import spread as spread
from rndlib.paper.evidence.statistics.intervals import t_interval as t_interval
from rndlib.paper.evidence.statistics.limit import Limit as Limit
from rndlib.paper.evidence.statistics.limit import excess_spread as excess_spread
from rndlib.paper.evidence.statistics.limit import limit as limit
from rndlib.paper.evidence.statistics.limit import limit_of_variance as limit_of_variance
from rndlib.paper.evidence.statistics.limit import relative_variance as relative_variance
from rndlib.paper.evidence.statistics.mean_square import covariance_pairs as covariance_pairs
from rndlib.paper.evidence.statistics.mean_square import distance_between as distance_between
from rndlib.paper.evidence.statistics.mean_square import distance_to_law as distance_to_law
from rndlib.paper.evidence.statistics.mean_square import field_covariance as field_covariance
from rndlib.paper.evidence.statistics.ratio import LogRatio as LogRatio
from rndlib.paper.evidence.statistics.ratio import over_points as over_points
from rndlib.paper.evidence.statistics.ratio import over_times as over_times
from rndlib.paper.evidence.statistics.ratio import to_law as to_law
from rndlib.paper.evidence.statistics.trend import rate as rate
from rndlib.paper.evidence.statistics.trend import relative_error as relative_error
from rndlib.paper.evidence.statistics.trend import slope as slope
from rndlib.paper.evidence.statistics.trend import typical as typical
