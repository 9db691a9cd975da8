"""The figures of the notebooks, in one style (`rndlib.figures.style`)."""

from rndlib.figures.distributions import covariances_of_squares as covariances_of_squares
from rndlib.figures.distributions import distances_from_law as distances_from_law
from rndlib.figures.distributions import histograms as histograms
from rndlib.figures.distributions import pairs as pairs
from rndlib.figures.functions import Sampled as Sampled
from rndlib.figures.functions import functions_on_walk as functions_on_walk
from rndlib.figures.matrices import covariances as covariances
from rndlib.figures.matrices import matrices as matrices
from rndlib.figures.novelty import Rooms as Rooms
from rndlib.figures.novelty import novelty as novelty
from rndlib.figures.practice import images as images
from rndlib.figures.practice import intervals as intervals
from rndlib.figures.practice import predictions as predictions
from rndlib.figures.practice import regret_against_queries as regret_against_queries
from rndlib.figures.ratios import Ratios as Ratios
from rndlib.figures.ratios import ratios as ratios
from rndlib.figures.sizes import against_size as against_size
from rndlib.figures.sizes import discrepancy_against_width as discrepancy_against_width
from rndlib.figures.sizes import scatter_by_width as scatter_by_width
from rndlib.figures.style import Figure as Figure
from rndlib.figures.style import Picture as Picture
from rndlib.figures.style import blank as blank
from rndlib.figures.style import save as save
from rndlib.figures.style import style as style
from rndlib.figures.training import trajectories as trajectories
from rndlib.figures.training import variance_against as variance_against
