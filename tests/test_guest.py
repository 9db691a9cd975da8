"""A guest minds no setting of its host: JAX's and PyTorch's settings neither change fits nor are changed by them."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import nn

from rndlib import MLP, RND, BayesianRND, GradientDescent, GradientFlow, StochasticGradient
from rndlib.jax import Function
from rndlib.torch import Module, RNDBonus

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::rndlib.HeadsWarning")]

X = np.random.default_rng(0).normal(size=(5, 3))


def init(key, outputs):
    first, last = jax.random.split(key)
    w, v = jax.random.normal(first, (3, 16)), jax.random.normal(last, (16, outputs))
    return {"w": w / 3**0.5, "b": jax.numpy.zeros(16), "v": v / 4}


def function() -> Function:
    return Function(init, lambda params, x: jax.nn.silu(x @ params["w"] + params["b"]) @ params["v"])


def module() -> Module:
    return Module(lambda k: nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, k)))


def fits(net: Any, backend: str) -> np.ndarray:
    flow, batches = GradientFlow(time=1.0, rtol=1e-2), StochasticGradient(batch_size=3, epochs=2)
    models = (
        RND(net, heads=2, solver=flow, backend=backend),
        BayesianRND(net, heads=2, linearised=True, backend=backend),
        RND(net, heads=2, solver=batches, backend=backend),
        RND(net, heads=2, solver=GradientDescent(1e-4, 2), backend=backend),
    )
    return np.concatenate([model.fit(X).variance(-X) for model in models])


IN_JAX = {
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
    "jax_check_tracer_leaks": True,
    "jax_debug_nans": True,
    "jax_debug_infs": True,
    "jax_disable_jit": True,
    "jax_enable_x64": True,
    "jax_default_matmul_precision": "bfloat16",
    "jax_threefry_partitionable": False,
    "jax_default_prng_impl": "rbg",
    "jax_transfer_guard": "disallow",
}


@pytest.mark.parametrize(
    "make", [lambda: MLP(3, width=16), pytest.param(function, marks=pytest.mark.check)], ids=["mlp", "function"]
)
def test_fits_do_not_depend_on_the_settings_of_jax(make):
    before = {name: getattr(jax.config, name) for name in IN_JAX}
    expected = fits(make(), "jax")
    assert {name: getattr(jax.config, name) for name in IN_JAX} == before
    assert not before["jax_enable_x64"]
    try:
        for name, value in IN_JAX.items():
            jax.config.update(name, value)
        found = fits(make(), "jax")
        assert {name: getattr(jax.config, name) for name in IN_JAX} == IN_JAX
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    assert np.array_equal(found, expected)


CACHED = """
from rndlib import RND, MLP
model = RND(MLP(3, width=32), heads=2, bodies=2).fit([[0.1, 0.2, 0.3], [1.0, 0.5, -1.0]])
print(model.errors([[0.5, 0.5, 0.5]]).tolist())
"""


@pytest.mark.check
def test_fits_are_the_same_with_a_cache_of_compiled_programs(tmp_path):
    """With jaxlib 0.5.3, the second process read programs back that did not train."""
    always = {"MIN_COMPILE_TIME_SECS": "0", "MIN_ENTRY_SIZE_BYTES": "-1"}
    cache = {f"JAX_PERSISTENT_CACHE_{name}": value for name, value in always.items()}
    cache["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path)
    run = partial(subprocess.run, [sys.executable, "-c", CACHED], capture_output=True, check=True, text=True)
    first, second = (run(env={**os.environ, **cache}).stdout for _ in range(2))
    assert first == second != ""


@contextmanager
def switched(switch: Callable[[Any], None], value: Any, back: Any) -> Iterator[None]:
    switch(value)
    try:
        yield
    finally:
        switch(back)


IN_TORCH: list[Callable[[], AbstractContextManager[Any]]] = [
    lambda: switched(lambda on: torch.set_grad_enabled(on) and None, False, True),
    torch.inference_mode,
    lambda: switched(torch.use_deterministic_algorithms, True, False),
    lambda: switched(torch.set_default_device, "meta", None),  # on which nothing can be computed
    lambda: torch.autocast("cpu", dtype=torch.bfloat16),
]


@pytest.mark.parametrize("make", [lambda: MLP(3, width=16), module], ids=["mlp", "module"])
def test_fits_do_not_depend_on_the_settings_of_pytorch(make):
    expected = fits(make(), "torch")
    with ExitStack() as settings:  # all at the same time: each by itself would take five times as long
        for setting in IN_TORCH:
            settings.enter_context(setting())
        found = fits(make(), "torch")
    assert np.array_equal(found, expected)
    with switched(torch.set_default_dtype, torch.float64, torch.float32):  # a module draws other numbers
        found = fits(make(), "torch")
        assert torch.get_default_dtype() == torch.float64
    assert np.isfinite(found).all()
    assert np.array_equal(found, expected) == isinstance(make(), MLP)


def test_no_generator_is_touched_on_any_device(monkeypatch):
    def refused(*_: Any) -> None:
        raise AssertionError("reseeds every device")

    monkeypatch.setattr(torch, "manual_seed", refused)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", refused)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    before = pickle.dumps(np.random.get_state()), torch.get_rng_state()  # noqa: NPY002
    net = module()
    net.examine(X)
    fits(net, "torch")
    RND(MLP(3, width=16), heads=2, solver=GradientFlow(time=1.0, rtol=1e-2)).fit(X)
    bonus = RNDBonus(3, heads=4, network=net)
    bonus.observe(X)
    bonus.update(X)
    assert pickle.dumps(np.random.get_state()) == before[0]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


def test_points_may_be_read_only_or_run_backwards():
    """Data frames, JAX arrays and memory maps are read-only, of which PyTorch warns."""
    read_only = X.copy()
    read_only.flags.writeable = False
    model = RND(module(), heads=2, solver=GradientFlow(time=1.0, rtol=1e-2))
    expected = model.fit(X).variance(X)
    for points in (read_only, X[::-1].copy()[::-1]):
        assert np.array_equal(model.fit(points).variance(points), expected)
    single = jax.numpy.asarray(X, np.float32)  # rounding of 6e-8, through a function that changes by of order one
    assert np.allclose(model.fit(single).variance(single), expected, rtol=1e-4)


def test_a_module_that_writes_into_its_input_does_not_write_into_the_user_s():
    points = X.copy()
    net = Module(lambda k: nn.Sequential(nn.SiLU(inplace=True), nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, k)))
    net.values(net.draw(1, 0), points)
    assert np.array_equal(points, X)
