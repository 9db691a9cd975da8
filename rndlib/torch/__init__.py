"""RND in PyTorch: an exploration bonus in units of an ensemble's variance, and an explanation of your own RND's error.

`RNDBonus` is random network distillation for the loop of an agent, with an MLP, `nature_cnn` for frames, or a network
of your own; `ModuleBonus` takes a predictor and a target that differ. `explain` says whether half the mean squared
error of two modules is an ensemble's variance, and why. `wrappers` has vector environments. In a loop:

    bonus = RNDBonus(envs.single_observation_space.shape)
    bonus.observe(random_obs)                  # statistics for normalisation, first from a random agent
    rewards += coef * bonus.step(next_obs)     # novelty, then training on these observations, which lowers it
"""

from rndlib.theory.mismatch import MismatchWarning as MismatchWarning
from rndlib.torch.bonus import RNDBonus as RNDBonus
from rndlib.torch.distillation import ModuleBonus as ModuleBonus
from rndlib.torch.meaning import Meaning as Meaning
from rndlib.torch.meaning import explain as explain
from rndlib.torch.module import Module as Module
from rndlib.torch.networks import nature_cnn as nature_cnn
from rndlib.torch.normalise import RunningNormaliser as RunningNormaliser

__all__ = [
    "RNDBonus",
    "ModuleBonus",
    "nature_cnn",
    "explain",
    "Meaning",
    "MismatchWarning",
    "Module",
    "RunningNormaliser",
]
