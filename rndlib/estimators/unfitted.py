"""The error of an estimator that was not trained, also for those who expect scikit-learn's."""


class NotFittedError(RuntimeError):
    """A method that needs training was called before `fit`. Where scikit-learn is in use, its error of this name too.

    >>> from rndlib import RND
    >>> from rndlib.estimators import NotFittedError
    >>> try:
    ...     RND().variance([[0.0, 1.0]])
    ... except NotFittedError as error:
    ...     print(error)
    this RND is not trained yet: call fit first
    """
