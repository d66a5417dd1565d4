"""Walking all objects inside a fitted estimator, and replacing some."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def walk(root: Any) -> Iterator[Any]:
    """Yield the root and everything it holds, each object once: attributes, and items of containers."""
    seen: dict[int, Any] = {}  # also keeps the objects alive: ids are unique only while an object lives
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str | bytes | int | float | None) or id(found) in seen:
            continue
        seen[id(found)] = found
        yield found
        waiting.extend(_inside(found))


def _inside(found: Any) -> list[Any]:
    if isinstance(found, dict):
        return list(found.values())
    if isinstance(found, list | tuple | set):
        return list(found)
    if isinstance(found, np.ndarray):
        return found.ravel().tolist() if found.dtype.hasobject else []
    return [] if isinstance(found, type) else list(getattr(found, "__dict__", {}).values())


def substitute(root: Any, other: Callable[[Any], Any]) -> Any:
    """Replace, in place, every value for which ``other`` returns a different one; return the root or its replacement.

    ``other`` sees the items of lists, dicts, tuples and object arrays, and the values of attributes.
    """
    made: dict[int, Any] = {}  # tuples are immutable: each is rebuilt once

    def swapped(value: Any) -> Any:
        if type(value) is tuple:
            if id(value) not in made:
                made[id(value)] = value, tuple(swapped(item) for item in value)
            return made[id(value)][1]
        return other(value)

    for holder in list(walk(root)):
        if isinstance(holder, np.ndarray) and holder.dtype.hasobject:
            flat = holder.reshape(-1)
            for place, value in enumerate(flat.tolist()):
                flat[place] = swapped(value)
        for items in _changeable(holder):
            for key, value in list(items.items() if isinstance(items, dict) else enumerate(items)):
                new = swapped(value)
                if new is not value:
                    items[key] = new
    return swapped(root)


def _changeable(holder: Any) -> list[Any]:
    if isinstance(holder, dict | list):
        return [holder]
    return [] if isinstance(holder, type) else [getattr(holder, "__dict__", {})]
