"""How a network is trained: settings that any backend can carry out, checked when they are made."""

from rndlib.training.report import DivergenceError as DivergenceError
from rndlib.training.report import Report as Report
from rndlib.training.solvers.gradient_descent import GradientDescent as GradientDescent
from rndlib.training.solvers.gradient_flow import GradientFlow as GradientFlow
from rndlib.training.solvers.solver import Solver as Solver
from rndlib.training.solvers.stochastic_gradient import StochasticGradient as StochasticGradient
