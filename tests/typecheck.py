"""The checker for the annotations: beartype, with an int accepted for a float (PEP 484)."""

from beartype import BeartypeConf, beartype

compiled = beartype(conf=BeartypeConf(is_pep484_tower=True))
checkers: dict[tuple[str, str, str], object] = {}


def check(function):
    """Have beartype check a function's annotations.

    jaxtyping asks for this with functions that do nothing but bear the annotations of those in rndlib, and does so
    whenever a `def` is executed. Of functions inside functions the checker is kept: to compile it anew at each call of
    the function around them took a third of the time of fits with many blocks.
    """
    if "<locals>" not in function.__qualname__:
        return compiled(function)
    key = (function.__module__, function.__qualname__, str(function.__annotations__))
    if key not in checkers:
        checkers[key] = compiled(function)
    return checkers[key]
