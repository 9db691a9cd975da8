"""The statistics behind the claims: each takes what estimators and laws return, and gives a `claims.Finding`.

The unit of replication is a network with its own seed. Heads of one body and test points of one network are
dependent, and nothing here counts them as if they were not.
"""

from rndlib.statistics.agreement import agreement as agreement
from rndlib.statistics.agreement import calibration as calibration
from rndlib.statistics.bodies import over_bodies as over_bodies
from rndlib.statistics.dependence import dependence as dependence
from rndlib.statistics.dependence import mixed as mixed
from rndlib.statistics.draws import dependence_of_samples as dependence_of_samples
from rndlib.statistics.draws import exact_draws as exact_draws
from rndlib.statistics.draws import expected_repeats as expected_repeats
from rndlib.statistics.draws import repeats as repeats
from rndlib.statistics.draws import with_replacement as with_replacement
from rndlib.statistics.energy import energy as energy
from rndlib.statistics.energy import energy_test as energy_test
from rndlib.statistics.energy import gaussian_energy as gaussian_energy
from rndlib.statistics.field import covariance_pairs as covariance_pairs
from rndlib.statistics.field import field_covariance as field_covariance
from rndlib.statistics.joint_law import joint_law as joint_law
from rndlib.statistics.kurtosis import excess_kurtosis as excess_kurtosis
from rndlib.statistics.kurtosis import squared_lengths as squared_lengths
from rndlib.statistics.mean_square import distance_between as distance_between
from rndlib.statistics.mean_square import distance_to_law as distance_to_law
from rndlib.statistics.monte_carlo import above_floor as above_floor
from rndlib.statistics.monte_carlo import floor as floor
from rndlib.statistics.monte_carlo import floor_draws as floor_draws
from rndlib.statistics.monte_carlo import mean_squared_difference as mean_squared_difference
from rndlib.statistics.ratio import LogRatio as LogRatio
from rndlib.statistics.ratio import over_points as over_points
from rndlib.statistics.ratio import over_times as over_times
from rndlib.statistics.relative import relative_error as relative_error
from rndlib.statistics.relative import typical as typical
from rndlib.statistics.seeds import over_seeds as over_seeds
from rndlib.statistics.spread import level as level
from rndlib.statistics.spread import spread as spread
from rndlib.statistics.trend import rate as rate
from rndlib.statistics.trend import slope as slope
from rndlib.statistics.whitening import whitened as whitened
