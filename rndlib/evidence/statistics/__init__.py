"""The statistics behind the claims: each takes what estimators and laws return, and gives a `claims.Finding`.

The unit of replication is a network with its own seed. Heads of one body and test points of one network are
dependent, and nothing here counts them as if they were not.
"""

from rndlib.evidence.statistics.agreement import agreement as agreement
from rndlib.evidence.statistics.agreement import calibration as calibration
from rndlib.evidence.statistics.bodies import over_bodies as over_bodies
from rndlib.evidence.statistics.dependence import dependence as dependence
from rndlib.evidence.statistics.dependence import mixed as mixed
from rndlib.evidence.statistics.draws import dependence_of_samples as dependence_of_samples
from rndlib.evidence.statistics.draws import exact_draws as exact_draws
from rndlib.evidence.statistics.draws import expected_repeats as expected_repeats
from rndlib.evidence.statistics.draws import repeats as repeats
from rndlib.evidence.statistics.draws import with_replacement as with_replacement
from rndlib.evidence.statistics.energy import energy as energy
from rndlib.evidence.statistics.energy import energy_test as energy_test
from rndlib.evidence.statistics.energy import gaussian_energy as gaussian_energy
from rndlib.evidence.statistics.field import covariance_pairs as covariance_pairs
from rndlib.evidence.statistics.field import field_covariance as field_covariance
from rndlib.evidence.statistics.joint_law import joint_law as joint_law
from rndlib.evidence.statistics.kurtosis import excess_kurtosis as excess_kurtosis
from rndlib.evidence.statistics.kurtosis import squared_lengths as squared_lengths
from rndlib.evidence.statistics.mean_square import distance_between as distance_between
from rndlib.evidence.statistics.mean_square import distance_to_law as distance_to_law
from rndlib.evidence.statistics.monte_carlo import above_floor as above_floor
from rndlib.evidence.statistics.monte_carlo import floor as floor
from rndlib.evidence.statistics.monte_carlo import floor_draws as floor_draws
from rndlib.evidence.statistics.monte_carlo import mean_squared_difference as mean_squared_difference
from rndlib.evidence.statistics.ratio import LogRatio as LogRatio
from rndlib.evidence.statistics.ratio import over_points as over_points
from rndlib.evidence.statistics.ratio import over_times as over_times
from rndlib.evidence.statistics.relative import relative_error as relative_error
from rndlib.evidence.statistics.relative import typical as typical
from rndlib.evidence.statistics.seeds import over_seeds as over_seeds
from rndlib.evidence.statistics.spread import level as level
from rndlib.evidence.statistics.spread import spread as spread
from rndlib.evidence.statistics.trend import rate as rate
from rndlib.evidence.statistics.trend import slope as slope
from rndlib.evidence.statistics.whitening import whitened as whitened
