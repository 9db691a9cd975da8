"""Tables that read well as plain text and render as Markdown."""

from collections.abc import Iterable


def aligned(head: list[str], body: Iterable[list[str]]) -> str:
    """A Markdown table whose columns line up; cells must not hold a vertical bar."""
    body = list(body)
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [head, ["-" * width for width in widths], *body]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)
