"""How a network is trained: descriptions that are checked when they are made and carried out by any backend."""

from rndlib.training.report import DivergenceError as DivergenceError
from rndlib.training.report import Report as Report
from rndlib.training.solvers.gradient_descent import GradientDescent as GradientDescent
from rndlib.training.solvers.gradient_flow import GradientFlow as GradientFlow
from rndlib.training.solvers.solver import Solver as Solver
from rndlib.training.solvers.stochastic_gradient import StochasticGradient as StochasticGradient
