"""What the JSON of a model and of a run must look like, in the words of JSON Schema; one sentence where it does not.

Of JSON Schema the few words are known that these files need: ``type``, ``enum``, ``minimum``, ``maximum``,
``maxLength``, ``items``, ``maxItems``, ``properties``, ``required``. Fields that are not described are left alone: a
later version may have written them, and nothing reads them here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from equipoise.errors import InvalidInputError

Schema = Mapping[str, Any]

MOST_CLASSES, LONGEST_NAME, LONGEST_TEXT = 10**6, 10**4, 10**6
LARGEST = 2**53
"""Up to here JSON's numbers are exact in every program."""

KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "null": ("nothing", (type(None),)),
    "boolean": ("true or false", (bool,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "string": ("text", (str,)),
    "array": ("a list", (list,)),
    "object": ("an object in braces", (dict,)),
}
"""JSON Schema's name of a type -> how a person calls it, and what Python reads it as."""

NAME = {"type": "string", "maxLength": LONGEST_NAME}
MAYBE_NAME = {"type": ["string", "null"], "maxLength": LONGEST_NAME}
NAMES = {"type": "array", "items": NAME, "maxItems": MOST_CLASSES}
COUNT = {"type": "integer", "minimum": 1, "maximum": LARGEST}
SOME = {"type": "integer", "minimum": 0, "maximum": LARGEST}
MAYBE_COUNT = {"type": ["integer", "null"], "minimum": 1, "maximum": LARGEST}
NUMBER = {"type": "number"}
MAYBE_NUMBERS = {"type": ["array", "null"], "items": {"type": ["number", "null"]}, "maxItems": MOST_CLASSES}

OPTIONS: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("data", "method", "precision"), NAME),
        **dict.fromkeys(("target", "labels", "group", "test", "test_labels", "backbone", "weights"), MAYBE_NAME),
        **dict.fromkeys(("epochs", "batch_size", "size"), MAYBE_COUNT),
        **dict.fromkeys(("test_share", "learning_rate", "dropout"), NUMBER),
        "freeze": {"type": ["boolean", "null"]},
        "augment": {"type": "boolean"},
        "seed": SOME,
    },
}
CALIBRATION: Schema = {
    "type": "object",
    "required": ["source", "samples", "folds"],
    "properties": {
        "source": {"enum": ["held_out", "held_back", "nothing"]},
        "samples": COUNT,
        "folds": SOME,
        "level": {"type": "number", "minimum": 0.001, "maximum": 0.999},
        "never_ruled_out": NAMES,
    },
}
"""In ``run.json``."""

RUN: Schema = {
    "type": "object",
    "required": ["options"],
    "properties": {
        "options": OPTIONS,
        "versions": {"type": "object"},
        "command": {"type": "string", "maxLength": LONGEST_TEXT},
        "training": {"type": "object"},
        "classes": NAMES,
        "attributes": NAMES,
        "train_counts": {
            "type": "array",
            "items": SOME,
            "maxItems": MOST_CLASSES,
        },
        "class_uncertainty": MAYBE_NUMBERS,
        "margins": MAYBE_NUMBERS,
        "notes": {"type": "array", "items": {"type": "string", "maxLength": LONGEST_TEXT}},
        "seconds": {"type": "number", "minimum": 0},
        "calibration": CALIBRATION,
        "input": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"enum": ["table", "images", "features"]}},
        },
    },
}
"""``run.json``: of an unfinished run only the options need be there."""

MODEL: Schema = {
    "type": "object",
    "required": [
        *("format", "parameters", "custom_backbone", "classes", "class_type", "recipe", "features", "columns"),
        *("column_names", "history"),
    ],
    "properties": {
        "format": {"type": "integer"},
        "parameters": {"type": "object"},
        "custom_backbone": {"type": "boolean"},
        "classes": {"type": "array", "maxItems": MOST_CLASSES},
        "class_type": {"type": "string", "maxLength": 20},
        "recipe": {"type": "object"},
        "features": COUNT,
        "columns": COUNT,
        "column_names": {"type": ["array", "null"], "items": NAME},
        "history": {
            "type": "object",
            "required": ["chosen"],
            "properties": {
                "chosen": {
                    "type": "object",
                    "required": ["seed"],
                    "properties": {"seed": {"type": "integer", "minimum": 0, "maximum": LARGEST}},
                }
            },
        },
    },
}
"""``model.json``; the recipe has a class of its own that checks it."""

EPOCH: Schema = {
    "type": "object",
    "required": ["epoch", "stage"],
    "properties": {"epoch": {"type": "integer", "minimum": 0, "maximum": 10**6 - 1}, "stage": NAME},
}
"""A line of ``metrics.jsonl``."""


def check(value: Any, schema: Schema, where: object, *, remedy: str) -> None:
    """Refuse a value that is not as described, in a sentence that names the first wrong place.

    >>> check({"options": {"seed": "7"}}, RUN, "run.json", remedy="train again")
    Traceback (most recent call last):
    equipoise.errors.InvalidInputError: run.json has no valid field 'options.seed': a whole number is expected, got \
text; train again.
    """
    for place, sentence in _wrong(value, schema, ""):
        what = f"has no valid field {place!r}: {sentence}" if place else f"is not as it should be: {sentence}"
        raise InvalidInputError(f"{where} {what}; {remedy}.")


def fits(value: Any, schema: Schema) -> bool:
    """Whether a value is as described."""
    return next(_wrong(value, schema, ""), None) is None


def _wrong(value: Any, schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    """Every wrong place and what is wrong there, the outermost first."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield place, f"{' or '.join(KINDS[kind][0] for kind in kinds)} is expected, got {_kind(value)}"
        return
    if "enum" in schema and not any(type(value) is type(one) and value == one for one in schema["enum"]):
        yield place, f"one of {', '.join(map(str, schema['enum']))} is expected"
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = schema.get("minimum"), schema.get("maximum")
        if least is not None and not value >= least:
            yield place, f"at least {least} is expected"
        if most is not None and not value <= most:
            yield place, f"at most {most} is expected"
    for name, word in (("maxLength", "letters"), ("maxItems", "entries")):
        if name in schema and isinstance(value, str | list) and len(value) > schema[name]:
            yield place, f"at most {schema[name]:,} {word} are expected, got {len(value):,}"
            return
    yield from _wrong_inside(value, schema, place)


def _wrong_inside(value: Any, schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _wrong(item, schema["items"], f"{place}.{number}".lstrip("."))
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{place}.{name}".lstrip("."), "it is missing"
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield from _wrong(value[name], inner, f"{place}.{name}".lstrip("."))


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, KINDS[kind][1])


def _kind(value: Any) -> str:
    return next(said for kind, (said, _) in KINDS.items() if _is(value, kind))
