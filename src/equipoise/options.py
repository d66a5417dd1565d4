"""How an option is declared and checked: type, default, limits and help in one place."""

import inspect
import math
import textwrap
from collections.abc import Callable, Collection
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar

from equipoise.errors import InvalidInputError, did_you_mean

Class = TypeVar("Class", bound=type)


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number of Python or numpy, not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a real number of Python or numpy, not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole_number(name: str, value: Any, lowest: int) -> int:
    """Return a whole number of Python or numpy as an int; refuse other values, and those below ``lowest``."""
    Option(least=lowest, whole=True).check(name, value)
    return int(value)


def check_choice(name: str, value: object, choices: Collection[Any]) -> None:
    """Raise an error that names the option if its value is not one of the ``choices``."""
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {value!r}{hint}")


@dataclass(frozen=True)
class Option:
    """The declaration of an option, besides its name, type and default.

    Args:
        help: one sentence, for the command line and the reference.
        detail: further sentences for the reference.
        least, most: inclusive bounds; ``above``, ``below``: exclusive bounds.
        whole: whether a number must be whole.
        choices: returns the names to choose from.
        flags: command-line flags, if not the name with dashes.
        metavar: placeholder of the value there.
    """

    help: str = ""
    detail: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    whole: bool = False
    choices: Callable[[], Collection[str]] | None = None
    flags: tuple[str, ...] = ()
    metavar: str | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise an error that names the option if its value is not allowed."""
        if self.choices is not None and not callable(value):
            check_choice(name, value, self.choices())
        if self.bounded and not self._allows(value):
            raise InvalidInputError(f"{name} must {self._range()}, got {value!r}.")

    @property
    def bounded(self) -> bool:
        """True if it is a number with limits."""
        return any(bound is not None for bound in (self.least, self.most, self.above, self.below))

    def _allows(self, value: Any) -> bool:
        number: Any = value
        if not (is_whole(value) if self.whole else is_number(value)) or not math.isfinite(number):
            return False
        inside = (self.least is None or number >= self.least) and (self.most is None or number <= self.most)
        return inside and (self.above is None or number > self.above) and (self.below is None or number < self.below)

    def _range(self) -> str:
        kind = "a whole number" if self.whole else "a finite number"
        if self.most is None and self.below is None:
            if self.above is not None:
                return f"be {kind} above {self.above}"
            return f"be {kind} that is not negative" if self.least == 0 else f"be {kind} of at least {self.least}"
        if (self.above is None) == (self.below is None):
            low, high = (self.least, self.most) if self.above is None else (self.above, self.below)
            return f"lie between {low} and {high}"
        return f"lie in [{self.least}, {self.below})" if self.above is None else f"lie in ({self.above}, {self.most}]"


def limits(help: str = "", **rules: Any) -> dict[str, Option]:
    """Return the ``metadata`` that declare a field of options; ``rules`` are further arguments of :class:`Option`."""
    return {"option": Option(help, **rules)}


def option(default: Any, help: str = "", **rules: Any) -> Any:
    """Declare a field of options that has a default; the others are those of :func:`limits`."""
    return field(default=default, metadata=limits(help, **rules))


def declared(found: Field[Any]) -> Option:
    """Return the declaration of a field."""
    rules: Option = found.metadata.get("option", Option())
    return rules


def flag_of(found: Field[Any]) -> str:
    """Return the flag of a field: the first that it declares, or its name with dashes."""
    flags = declared(found).flags
    return flags[0].split("/")[0] if flags else f"--{found.name.replace('_', '-')}"


def check_options(options: Any, *names: str, called: Callable[[str], str] = str) -> None:
    """Raise an error for options with a value that their field does not allow; a default of None is always allowed.

    Args:
        options: an instance of a class whose fields are declared by :func:`option`.
        names: the fields to check; none checks all.
        called: from a field's name to its name in an error.
    """
    for each in fields(options):
        value = getattr(options, each.name)
        if (not names or each.name in names) and (value is not None or each.default is not None):
            declared(each).check(called(each.name), value)


def plain_numbers(options: Any) -> None:
    """Turn the numbers of options with limits into Python's own, whole or not, also where the options are frozen."""
    for each in fields(options):
        rules, value = declared(each), getattr(options, each.name)
        if rules.bounded and is_number(value):
            object.__setattr__(options, each.name, int(value) if rules.whole else float(value))


def documented(cls: Class) -> Class:
    """Insert the options' help into the ``Args`` of the class's docstring, before those that it describes itself."""
    head, args, rest = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")
    entries = [(each.name, declared(each)) for each in fields(cls) if declared(each).help]
    texts = [f"{name}: {rules.help} {rules.detail}".rstrip() for name, rules in entries]
    lines = [textwrap.fill(text, 116, initial_indent=" " * 4, subsequent_indent=" " * 8) for text in texts]
    cls.__doc__ = f"{head}Args:\n" + "\n".join(lines) + f"\n{rest if args else ''}"
    return cls
