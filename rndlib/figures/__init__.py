"""The figures of the notebooks, in one style (`rndlib.figures.style`)."""

from rndlib.figures.bayesian import Crowded as Crowded
from rndlib.figures.bayesian import towards_posterior as towards_posterior
from rndlib.figures.bayesian import variance_against_load as variance_against_load
from rndlib.figures.bayesian import variance_against_noise as variance_against_noise
from rndlib.figures.experiment import Widths as Widths
from rndlib.figures.experiment import discrepancy_against_width as discrepancy_against_width
from rndlib.figures.experiment import scatter_by_width as scatter_by_width
from rndlib.figures.heads import covariances_of_squares as covariances_of_squares
from rndlib.figures.heads import crowding as crowding
from rndlib.figures.heads import heads_against_each_other as heads_against_each_other
from rndlib.figures.heads import histograms as histograms
from rndlib.figures.kernels import errors_against as errors_against
from rndlib.figures.kernels import lengths as lengths
from rndlib.figures.kernels import matrices as matrices
from rndlib.figures.kernels import trajectories as trajectories
from rndlib.figures.laws import covariances as covariances
from rndlib.figures.laws import ratio_over_points as ratio_over_points
from rndlib.figures.laws import variance_against_time as variance_against_time
from rndlib.figures.sampling import Sampled as Sampled
from rndlib.figures.sampling import distances_from_law as distances_from_law
from rndlib.figures.sampling import functions_on_walk as functions_on_walk
from rndlib.figures.sampling import pairs as pairs
from rndlib.figures.style import Figure as Figure
from rndlib.figures.style import blank as blank
from rndlib.figures.style import save as save
from rndlib.figures.style import style as style
