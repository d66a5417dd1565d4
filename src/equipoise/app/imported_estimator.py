"""The user's own estimator, named ``MODULE:OBJECT`` on the command line."""

import importlib
import os
import sys
from typing import Any

from equipoise.errors import InvalidInputError


def imported_estimator(place: str, name: str | None = None) -> Any:
    """Import an estimator, or call the class or function that makes one without arguments; ``name`` is the user's.

    The module is looked for on Python's path, then in the current folder; importing it runs its code.

    >>> imported_estimator("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    module, _, attribute = place.partition(":")
    if not (module and attribute) or name == "":
        form, got = ("MODULE:OBJECT", repr(place)) if name is None else ("NAME=MODULE:OBJECT", f"{name}={place}")
        raise InvalidInputError(f"your own estimator must be given as {form}, got {got}.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found if hasattr(found, "fit") and not isinstance(found, type) else found()
    except Exception as error:  # whatever the user's own code raises
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        raise InvalidInputError(
            f"{place} cannot be used as an estimator ({type(error).__name__}: {reason})."
        ) from error
