"""The figures of the notebooks, in one style (`rndlib.figures.style`)."""

from rndlib.figures.experiment import Widths as Widths
from rndlib.figures.experiment import discrepancy_against_width as discrepancy_against_width
from rndlib.figures.experiment import scatter_by_width as scatter_by_width
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
