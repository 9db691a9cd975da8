"""Imported only where scikit-learn has been: at module level, so that the error can be pickled."""

from sklearn.exceptions import NotFittedError as Theirs

from rndlib.estimators.unfitted import NotFittedError as Ours


class NotFittedError(Ours, Theirs):
    """rndlib's error and scikit-learn's in one."""
