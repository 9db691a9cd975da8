"""The paper's claims, each declared once: what is said, where, how it is checked, and how far off it may be.

The tolerances stand here, before any run; `why` says where each comes from. Everything that shows a claim (the
notebooks' ledgers, the command line, the README) reads this table.
"""

from collections.abc import Mapping
from types import MappingProxyType

from rndlib.evidence.claims import bayesian, ensembles, experiment, heads, preliminaries, sampling
from rndlib.evidence.claims.claim import Claim as Claim
from rndlib.evidence.claims.claim import Finding as Finding

CLAIMS: Mapping[str, Claim] = MappingProxyType(
    {
        claim.id: claim
        for part in (preliminaries, ensembles, heads, bayesian, sampling, experiment)
        for claim in part.ROWS
    }
)

NO_CLAIMS = frozenset({"06_in_practice"})
"""Notebooks that compare and judge no claim of the paper. Any other that reaches no verdict has failed."""
