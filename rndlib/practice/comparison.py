"""Intervals over repeated splits of one data set into training and test points.

Test points of one fit share its training set, and the training sets of different splits share most of their points. So
the unit is a split, and even splits are not independent: as many more of them as one likes would shrink the usual
interval to nothing, while there is only one data set.
"""

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.evidence.estimate import Estimate


def over_splits(values: ArrayLike, n_train: int, n_test: int, confidence: float = 0.95) -> Estimate:
    """Mean of a score over random splits, with Nadeau and Bengio's (2003) corrected resampled t interval.

    The variance of a mean over J splits is taken to be `(1 / J + n_test / n_train) S^2` with S^2 the sample variance
    over splits: the second term stands for what they have in common, and does not fall with J. It is an approximation,
    on the careful side where training sets overlap less than those of splits of the whole data do.

    Parameters
    ----------
    values: (J,), one a split; of two contenders, their differences on the same splits.
    n_train, n_test: points of each split that are trained on and tested on, >= 1.
    confidence: two-sided, between 0 and 1.

    Raises
    ------
    ValueError: an argument is out of range, or there are fewer than two splits.

    >>> from rndlib.practice import comparison
    >>> found = comparison.over_splits([1.0, 2.0, 3.0], n_train=80, n_test=20)
    >>> round(found.low, 2), found.value, round(found.high, 2)
    (-1.29, 2.0, 5.29)
    """
    values = checks.array("values", values, None)
    n_train, n_test = checks.whole("n_train", n_train, 1), checks.whole("n_test", n_test, 1)
    splits = len(values)
    if splits < 2:
        raise ValueError(f"values has {splits} split, which gives no interval: run at least two")
    quantile = float(stats.t.ppf((1 + checks.fraction("confidence", confidence)) / 2, splits - 1))
    half = quantile * sqrt(1 / splits + n_test / n_train) * float(values.std(ddof=1))
    mean = float(np.mean(values))
    return Estimate(mean, mean - half, mean + half)
