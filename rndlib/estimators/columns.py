"""What an estimator remembers of the columns it was trained on: how many, and their names where they have some.

As scikit-learn does, in its words where its users and its checks look for them, for any data frame (pandas, polars):
an object with `columns`.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Shaped

Names = Shaped[np.ndarray, " d"]


def names(X: Any) -> Names | None:
    """The names of X's columns; None for what has none, or numbers for names.

    Raises
    ------
    ValueError: some names are strings and some are not.
    """
    columns = list(getattr(X, "columns", ()))
    strings = [isinstance(column, str) for column in columns]
    if not any(strings):
        return None
    if not all(strings):
        raise ValueError(
            f"X has the column {columns[strings.index(False)]!r}, whose name is no string while others are: give all "
            "strings, X.columns.astype(str), or an array"
        )
    return np.array(columns, dtype=object)


def check(X: Any, trained_on: Names | None, estimator: str) -> None:
    """Hold X's column names against those of training; only a warning where one of the two has none.

    Raises
    ------
    ValueError: names that differ, or in another order.
    """
    found = names(X)
    if found is None and trained_on is None:
        return
    if trained_on is None:
        warnings.warn(f"X has feature names, but {estimator} was fitted without feature names", stacklevel=4)
    elif found is None:
        warnings.warn(
            f"X does not have valid feature names, but {estimator} was fitted with feature names", stacklevel=4
        )
    elif found.tolist() != trained_on.tolist():
        unseen = sorted(set(found) - set(trained_on))
        missing = sorted(set(trained_on) - set(found))
        lines = ["The feature names should match those that were passed during fit."]
        lines += _listed("Feature names unseen at fit time:", unseen)
        lines += _listed("Feature names seen at fit time, yet now missing:", missing)
        if not unseen and not missing:
            lines.append("Feature names must be in the same order as they were in fit.")
        lines.append(f"Give X[{estimator.lower()}.feature_names_in_].")
        raise ValueError("\n".join(lines))


def _listed(heading: str, names: list[str]) -> list[str]:
    shown = [f"- {name}" for name in names[:5]] + ["- ..."] * (len(names) > 5)
    return [heading, *shown] if names else []
