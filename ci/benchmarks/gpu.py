"""A GPU against the CPU beside it: training, linearised fits and the exploration bonus. Runs only where it is named."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import torch

from benchmarks import bonus, trained
from benchmarks.case import Case, Row, Way
from rndlib import MLP, RND, BayesianRND, DeepEnsemble, datasets
from rndlib.torch import RNDBonus, nature_cnn

TITLE = "On a GPU"
NOTE = (
    "The same calls on a {device} and on the CPU of its machine. rndlib is `backend='torch:cuda'`; JAX takes its own "
    "default device. *Difference* is the largest from JAX on the CPU, relative to the largest number. The bonus is "
    "that of the section above, with both on the GPU."
).format(device=torch.cuda.get_device_name() if torch.cuda.is_available() else "GPU")


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run. Raises SystemExit without a GPU for both libraries."""
    if not torch.cuda.is_available() or jax.default_backend() != "gpu":
        raise SystemExit("bench: section gpu needs PyTorch and JAX with a GPU each")
    toy, images = datasets.toy(0, n_test=500), trained.digits(200, 500)
    few, width = 8, 512
    net = partial(MLP, width=width)
    yield _fits(f"{few} members of width {width}, toy", partial(DeepEnsemble, net(3), few), toy)
    yield _fits(f"{few} members of width {width}, digits", partial(DeepEnsemble, net(64), few), images)
    yield _fits(f"RND, {few} heads on one network of width {width}, toy", partial(RND, net(3), few), toy)
    many = trained.digits(500 if quick else 1500, 200)
    linearised = partial(BayesianRND, net(64), 32, noise_std=0.1, linearised=True)
    yield _fits(f"linearised, 32 heads of width {width}, {len(many.X)} images", linearised, many)
    yield from bonus.both("1024 vectors of 32", RNDBonus(32, network=MLP(32)).cuda(), torch.randn(1024, 32).cuda(), 20)
    frames = (4, 84, 84)
    obs = torch.randint(0, 256, (128, *frames), dtype=torch.uint8).cuda()
    yield from bonus.both("128 stacks of frames", RNDBonus(frames, network=nature_cnn(frames)).cuda(), obs, 20)


def _fits(name: str, model: Callable[..., Any], data: datasets.Regression) -> Case:
    """A fit and its functions at the test points, by each backend on each device."""

    def functions(backend: str, device: str | None = None) -> np.ndarray:
        # Of all threads: those that train ensembles do not see `jax.default_device` of this one.
        jax.config.update("jax_default_device", jax.devices(device)[0] if device else None)
        fitted = trained.fit(model(backend=backend), data.X, data.y)
        return (fitted.functions if isinstance(fitted, DeepEnsemble) else fitted.errors)(data.X_test)

    expected = cache(partial(functions, "jax", "cpu"))

    def difference(found: np.ndarray) -> Row:
        return {"difference": float(np.abs(found - expected()).max() / np.abs(expected()).max())}

    peers = {
        "JAX, GPU": Way(partial(functions, "jax")),
        "JAX, CPU": Way(partial(functions, "jax", "cpu")),
    }
    return Case(name, Way(partial(functions, "torch:cuda")), peers, difference)
