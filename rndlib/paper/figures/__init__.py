"""The figures of the notebooks, in one style (`rndlib.paper.figures.style`)."""

from rndlib.paper.figures.comparisons import against_cost as against_cost
from rndlib.paper.figures.comparisons import departure_map as departure_map
from rndlib.paper.figures.comparisons import intervals as intervals
from rndlib.paper.figures.estimates import Ratios as Ratios
from rndlib.paper.figures.estimates import against_size as against_size
from rndlib.paper.figures.estimates import discrepancy_against_width as discrepancy_against_width
from rndlib.paper.figures.estimates import extrapolated as extrapolated
from rndlib.paper.figures.estimates import ordered as ordered
from rndlib.paper.figures.estimates import ratios as ratios
from rndlib.paper.figures.estimates import variance_against as variance_against
from rndlib.paper.figures.novelty import Rooms as Rooms
from rndlib.paper.figures.novelty import novelty as novelty
from rndlib.paper.figures.samples import covariances as covariances
from rndlib.paper.figures.samples import covariances_of_squares as covariances_of_squares
from rndlib.paper.figures.samples import functions_on_walk as functions_on_walk
from rndlib.paper.figures.samples import histograms as histograms
from rndlib.paper.figures.samples import pairs as pairs
from rndlib.paper.figures.samples import scatter_by_width as scatter_by_width
from rndlib.paper.figures.samples import trajectories as trajectories
from rndlib.paper.figures.samples import walk as walk
from rndlib.paper.figures.style import Figure as Figure
from rndlib.paper.figures.style import Picture as Picture
from rndlib.paper.figures.style import blank as blank
from rndlib.paper.figures.style import save as save
from rndlib.paper.figures.style import style as style
