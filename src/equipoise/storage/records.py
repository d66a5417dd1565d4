"""Typed records: untrusted JSON decoded into a declared type, with a one-sentence error where it does not fit.

A record is a :class:`msgspec.Struct`. Undeclared fields are ignored, since a later version may have written them.
"""

import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from equipoise.errors import InvalidInputError, readable
from equipoise.storage.files import read_plain
from equipoise.storage.size_limits import parse_json

LARGEST = 2**53
"""Largest whole number that JSON represents exactly in every program."""
MOST_CLASSES = 10**6

Name = Annotated[str, Meta(max_length=10**4)]
Text = Annotated[str, Meta(max_length=10**6)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
AtLeastOne = Annotated[int, Meta(ge=1, le=LARGEST)]
Names = Annotated[list[Name], Meta(max_length=MOST_CLASSES)]
Counts = Annotated[list[Count], Meta(max_length=MOST_CLASSES)]
MaybeNumbers = Annotated[list[float | None], Meta(max_length=MOST_CLASSES)]
"""One number per class; None where it is undefined."""

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object in braces",
    "null": "nothing",
}
"""msgspec's names of JSON types, and plain words for them."""

T = TypeVar("T")


def read_json(path: Path, kind: type[T], *, remedy: str, most_bytes: int = 2**28) -> T:
    """Read a JSON file as a record; refuse pipes, and files larger than ``most_bytes``, without reading them.

    Args:
        path: of the file.
        kind: a record's class, or another type that msgspec decodes.
        most_bytes: largest size of the file.
        remedy: what to do about an unreadable file; it ends the error's sentence.
    """
    with readable(path, remedy, ValueError, RecursionError):
        value = parse_json(read_plain(path, most_bytes=most_bytes))
    return as_record(value, kind, path, remedy=remedy)


def as_record(value: Any, kind: type[T], where: object, *, remedy: str) -> T:
    """Convert plain values strictly into a record; an error names the first invalid field.

    >>> as_record({"seed": "7"}, dict[str, int], "run.json", remedy="train again")
    Traceback (most recent call last):
    equipoise.errors.InvalidInputError: run.json has no valid field '[...]': expected a whole number, got text; train \
again.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{where} {_sentence(str(error))}; {remedy}.") from error
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{where} holds half of a character ({error.object[error.start]!a}); {remedy}."
        ) from error


def _sentence(said: str) -> str:
    """Rewrite msgspec's message for people, without Python's types and without text from the file."""
    reason, _, place = said.partition(" - at `$")
    place = place.rstrip("`")
    missing = re.fullmatch(r"Object missing required field `(.*)`", reason)
    if missing:
        place, reason = f"{place}.{missing[1]}", "it is missing"
    elif reason.startswith("Invalid enum value"):
        reason = "not one of the allowed values"
    else:
        worded = lambda kinds: " or ".join(WORDS.get(kind, kind) for kind in kinds[1].split(" | "))  # noqa: E731
        reason = re.sub(r"`([^`]*)`", worded, reason)
        reason = reason[0].lower() + reason[1:]
    place = place.lstrip(".")
    return f"has no valid field {place!r}: {reason}" if place else f"is invalid: {reason}"
