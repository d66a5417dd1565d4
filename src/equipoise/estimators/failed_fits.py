"""A fit that fails leaves an estimator as it was: unfitted, or with the fit before."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Decorate a method that fits its estimator: if it raises an error, all attributes are those of before the call.

    >>> class Model:
    ...     @all_or_nothing
    ...     def fit(self, x):
    ...         self.columns_ = len(x[0])
    ...         self.mean_ = sum(row[0] for row in x) / len(x)
    >>> model = Model()
    >>> model.fit([["a"]])
    Traceback (most recent call last):
    TypeError: unsupported operand type(s) for +: 'int' and 'str'
    >>> vars(model)
    {}
    """

    @wraps(fit)
    def fitted(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fitted  # type: ignore[return-value]
