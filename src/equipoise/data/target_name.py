"""Which column is to be learnt, found from the names of the columns alone."""

import difflib
from collections.abc import Sequence

from equipoise.errors import InvalidInputError

USUAL_NAMES = ("target", "label", "class", "y")


def check_columns(names: Sequence[object], where: str) -> None:
    """Refuse a table that has no column beside its target."""
    if len(names) == 0:
        raise InvalidInputError(f"{where} has no column; a table has a target and at least one other.")
    if len(names) == 1:
        name = " ".join(str(names[0]).split())
        raise InvalidInputError(f"{where} has one column only ({name}); a table has a target and at least one other.")


def choose_target(names: Sequence[str], target: str | Sequence[str] | None, where: str) -> list[str]:
    """The target columns by name: one, or several of 0 and 1."""
    if target is None:
        usual = [name for name in names if name.lower() in USUAL_NAMES]
        if len(usual) == 1:
            return usual
        found = f"has the columns {', '.join(usual)}" if usual else "has no column named target, label, class or y"
        raise InvalidInputError(
            f"{where} {found}; say which to learn by --target (target= in Python), one of: {_listed(names)}."
        )
    if isinstance(target, str):
        wanted = [target] if target in names else [part.strip() for part in target.split(",") if part.strip()]
    else:
        wanted = [str(name) for name in target]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidInputError(f"target must name one column or several different ones, got {target!r}.")
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name.lower(), [other.lower() for other in names], n=1)
            hint = next((f"did you mean {other!r}? Its" for other in names if [other.lower()] == near), "its")
            raise InvalidInputError(f"{where} has no column {name!r}; {hint} columns are: {_listed(names)}.")
    return wanted


def _listed(names: Sequence[str], *, most: int = 30) -> str:
    names = [" ".join(name.split()) for name in names]  # a name in quotes may have several lines, a sentence not
    if len(names) <= most:
        return ", ".join(names)
    half = most // 2  # labels often stand last
    return f"{', '.join(names[:half])}, … ({len(names) - most} more), {', '.join(names[-half:])}"
