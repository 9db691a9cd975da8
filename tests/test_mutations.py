"""Mistakes planted in the library, one at a time, each of which must turn a verdict to FAIL.

A mistake is a change of the source in a copy of the library, which a notebook at its `calibrate` size then runs on. It
counts as caught only where one of the named claims fails; an exception is no verdict. That the library as it is
passes at these sizes is the business of tests/test_repeats.py.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import ledgers
import pytest

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mistake:
    """What is wrong, where (a file of the library, a passage in it, what replaces it), and which claims must see it."""

    name: str
    file: str
    right: str
    wrong: str
    notebook: str
    claims: str


KERNELS, CHI2, ENSEMBLES, TARGET, SAMPLES = (
    "00_preliminaries",
    "02_multihead_chi_squared",
    "01_ensemble_equivalence",
    "03_bayesian_target",
    "04_posterior_sampling",
)
MISTAKES = [
    Mistake("the half of Eq. 2 is missing", "estimators/rnd.py", "_scale = 0.5", "_scale = 1.0", CHI2, "M2"),
    Mistake(
        "kappa-dot of the layer above",
        "theory/kernels.py",
        "        kappa, kdot = _next_layer(net, q1[layer], q2[layer], kappa, cheap[layer] if cheap else None)\n",
        "        kappa, _ = _next_layer(net, q1[layer], q2[layer], kappa, cheap[layer] if cheap else None)\n"
        "        _, kdot = _next_layer(net, q1[layer + 1], q2[layer + 1], kappa)\n",
        KERNELS,
        "P2 P2-slope",
    ),
    Mistake(
        "the bias is left out of the kernel of all layers but the first",
        "theory/kernels.py",
        "net.sigma_w**2 * value + net.sigma_b**2, ",
        "net.sigma_w**2 * value, ",
        KERNELS,
        "P1 P5",
    ),
    Mistake(
        "the last layer of psi is kept",
        "estimators/bayesian_rnd.py",
        "return self._tangents(bodies, start, X, dtype, by_head=",
        "last = draw(self.net, self.heads, self.seed, Role.TARGET, bodies)[-1]\n"
        "        kept = self._functions([*start[:-1], last], X, dtype)\n"
        "        return kept + self._tangents(bodies, start, X, dtype, by_head=",
        TARGET,
        "B1 B2 B3",
    ),
    Mistake(
        "the Bayesian target is taken at its own psi",
        "estimators/base.py",
        "return backend.tangents(net, start, draw_directions(net, self.seed, bodies, None), X, dtype)",
        "psi = draw_directions(net, self.seed, bodies, None)\n"
        "            return backend.tangents(net, [*psi, start[-1]], psi, X, dtype)",
        TARGET,
        "B1 B2 B3",
    ),
    Mistake(
        "psi is the predictor's own parameters",
        "estimators/base.py",
        "draw_directions(net, self.seed, bodies, None), X",
        "start[:-1], X",
        TARGET,
        "B1 B2 B3",
    ),
    Mistake("K for K + 1", "estimators/ensembles.py", ".var(axis=1, ddof=1)", ".var(axis=1)", CHI2, "M2"),
    Mistake(
        "noise without the pull to the start",
        "training/train.py",
        "X, targets(block, start), solver, spectrum, noise_std, offsets, pilot)",
        "X, targets(block, start) - (0 if offsets is None else noise_std * np.swapaxes(offsets, 1, 2)), solver, "
        "spectrum, pilot=pilot)",
        TARGET,
        "B5",
    ),
    Mistake(
        "the pull to the start without noise", "training/train.py", "if noise_std and jitter", "if False", TARGET, "B5"
    ),
    Mistake(
        "predictor and target share their seed",
        "training/weights.py",
        "    TARGET = 2",
        "    TARGET = 1",
        ENSEMBLES,
        "E2 E3",
    ),
    Mistake("the target is added", "estimators/rnd.py", "- self._target(", "+ self._target(", ENSEMBLES, "E2 E3"),
    Mistake(
        "another activation in networks than in kernels",
        "training/backends/jax/activations.py",
        '"silu": _silu,',
        '"silu": lambda z: (_silu(1.7 * z)[0] / 1.7, _silu(1.7 * z)[1]),',
        KERNELS,
        "P4",
    ),
    Mistake(
        "sigma_b is not applied",
        "training/backends/jax/linearise.py",
        "* w, net.sigma_b * b) for",
        "* w, b) for",
        KERNELS,
        "P1 P5",
    ),
    Mistake(
        "weights of another scale",
        "training/weights.py",
        "            generator.standard_normal(out=w[index])\n",
        "            generator.standard_normal(out=w[index])\n            w[index] *= 1.2\n",
        KERNELS,
        "P1 P2 P5",
    ),
    Mistake("the RND error has one prior", "theory/laws.py", "priors=2)", "priors=1)", ENSEMBLES, "E2"),
    Mistake(
        "the posterior of the NNGP",
        "theory/laws.py",
        "A, C = kernels.kernel(net, X).ntk, kernels.kernel(net, X, X_test).ntk",
        "A, C = kernels.kernel(net, X).nngp, kernels.kernel(net, X, X_test).nngp",
        TARGET,
        "B3",
    ),
    Mistake("a cross term once", "theory/laws.py", "- 2 * across.nngp)", "- across.nngp)", ENSEMBLES, "E1 E2"),
    Mistake(
        "the mean with the printed sign",
        "theory/laws.py",
        "_gaussian(G.T @ y, prior, G,",
        "_gaussian(-G.T @ y, prior, G,",
        ENSEMBLES,
        "E1",
    ),
    Mistake(
        "flow stops half way",
        "training/flow/integration.py",
        "largest), solver.time)",
        "largest), 0.5 * solver.time)",
        KERNELS,
        "P4",
    ),
    Mistake(
        "gradient descent at twice its rate",
        "training/backends/jax/descent.py",
        "p - rate * g",
        "p - 2 * rate * g",
        KERNELS,
        "P4",
    ),
    Mistake("degrees of freedom K + 1", "theory/laws.py", "stats.chi2(dof, ", "stats.chi2(dof + 1, ", CHI2, "M2"),
    Mistake(
        "two heads share their weights",
        "training/weights.py",
        "            generator.standard_normal(out=b[index])\n",
        "            generator.standard_normal(out=b[index])\n"
        "        w[index][1:2] = w[index][:1]  # of the last layer\n",
        CHI2,
        "M1",
    ),
    Mistake(
        "all bodies are the same",
        "training/weights.py",
        "spawn_key=(int(role), *index)",
        "spawn_key=(int(role), *index[1:])",
        ENSEMBLES,
        "E1 E2 E3",
    ),
    Mistake(
        "the Bayesian ensemble forgets its tangent",
        "estimators/ensembles.py",
        "return self._functions(params, X, self.dtype) + self._tangents(bodies, start, X, self.dtype, False)",
        "return self._functions(params, X, self.dtype)",
        TARGET,
        "B4",
    ),
    Mistake(
        "samples with replacement",
        "estimators/bayesian_rnd.py",
        ".permutation(available)[:n_samples]",
        ".integers(available, size=n_samples)",
        SAMPLES,
        "S2-draws",
    ),
    Mistake(
        "samples without the mean",
        "estimators/bayesian_rnd.py",
        "return self._mean(X)[:, None] + self.errors(X)[chosen].T",
        "return self.errors(X)[chosen].T",
        SAMPLES,
        "S1",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_ledger_catches(mistake, tmp_path):
    copy = tmp_path / "rndlib"
    shutil.copytree(ROOT / "rndlib", copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / mistake.file
    source = path.read_text(encoding="utf-8")
    assert mistake.right in source
    path.write_text(source.replace(mistake.right, mistake.wrong), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ledgers.__file__, mistake.notebook, "calibrate", "0", *mistake.claims.split()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    used, verdicts = json.loads(done.stdout)
    assert used == str(copy)
    failed = {verdict["id"] for verdict in verdicts if not verdict["passed"]}
    assert failed & set(mistake.claims.split()), f"failed: {failed or 'none'}"
