"""How results are shown: their cost, what is wrong with them, and a report with the figures."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from rndlib.paper.evidence import ledger, studies
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS
from rndlib.paper.evidence.tables import aligned
from rndlib.running import costs, provenance
from rndlib.running.runs import Result


def declared() -> str:
    """The claims as declared, an aligned Markdown table."""
    head = ["id", "statement", "in the paper", "kind", "tolerance", "negative controls", "notebook"]
    body = (
        [c.id, c.statement, c.source, c.kind, ledger.rounded(c.tolerance), c.controls, c.notebook[:2]]
        for c in CLAIMS.values()
    )
    return aligned(head, body)


def unsettled(results: Iterable[Result]) -> list[str]:
    """What is wrong with results, one line each: claims that fail, and declared claims without a verdict."""
    lines: list[str] = []
    for result in results:
        if not result.verdicts and result.run.notebook not in NO_CLAIMS:
            lines.append(f"{result.folder} has no verdict")
        for verdict in result.verdicts:
            claim = verdict.claim
            if not verdict.passed:
                lines.append(f"{claim.id} fails: {verdict.value:g} is above the tolerance {claim.tolerance:g}")
            if not verdict.control_rejected:
                lines.append(f"{claim.id} shows nothing: its negative control passes too ({claim.control})")
            if not verdict.near_rejected:
                lines.append(f"{claim.id} is too coarse: its near control passes too ({claim.near})")
        reached = {verdict.id for verdict in result.verdicts}
        declared = [claim.id for claim in CLAIMS.values() if claim.notebook == result.run.notebook]
        lines += [f"{id_} has no verdict in {result.folder}" for id_ in declared if id_ not in reached]
    return lines


def passed(results: Sequence[Result]) -> float:
    """The seconds from the first start to the last end, or those of all runs together where these are fewer."""
    runs = [result.run for result in results]
    starts = [datetime.fromisoformat(run.started).timestamp() for run in runs]
    ends = [start + run.seconds for start, run in zip(starts, runs, strict=True)]
    return min(max(ends) - min(starts), sum(run.seconds for run in runs))


def cost(results: Sequence[Result]) -> str:
    """The seconds of all runs together, how many they took side by side, and the largest peak memory of one."""
    seconds, peak = sum(result.run.seconds for result in results), max(result.run.peak_memory for result in results)
    beside = passed(results)
    # A start is known to the second.
    return f"{seconds:.0f} s{f' in {beside:.0f}' if beside < seconds - 1 else ''}, peak memory {peak / 2**20:.0f} MiB"


def report(results: Sequence[Result], place: Path, notebooks: Path) -> str:
    """A Markdown report on all results, figures linked relative to `place`, with what is stored beside `notebooks`."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    lines = unsettled(results)
    parts = [
        "# Claims",
        ledger.table(verdicts),
        "Every claim holds." if not lines else "\n".join(f"- {line}" for line in lines),
        "# Runs",
        aligned(["notebook", "profile", "seconds", "peak memory", "hardware", "commit"], map(_row, results)),
        f"Together {cost(results)}.",
        *studies.report(notebooks),
        *costs.report(notebooks),
    ]
    for result in results:
        figures = sorted(result.folder.glob("*.png"))
        if figures:
            parts.append(f"# Figures of {result.run.notebook}")
            parts += [f"![{figure.stem}]({figure.relative_to(place).as_posix()})" for figure in figures]
    return "\n\n".join(parts) + "\n"


def _row(result: Result) -> list[str]:
    run = result.run
    return [
        run.notebook,
        run.profile,
        f"{run.seconds:.0f}",
        f"{run.peak_memory / 2**20:.0f} MiB",
        provenance.machine(run.hardware),
        provenance.commit(run.checkout),
    ]
