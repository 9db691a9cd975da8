"""The solvers, and what they report."""

from rndlib.training.problem import Solver as Solver
from rndlib.training.report import DivergenceError as DivergenceError
from rndlib.training.report import Report as Report
from rndlib.training.solvers.descent import GradientDescent as GradientDescent
from rndlib.training.solvers.flow import GradientFlow as GradientFlow
from rndlib.training.solvers.stochastic import StochasticGradient as StochasticGradient
