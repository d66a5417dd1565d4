"""Every public object has a place in the API reference, and there its arguments, its shapes and an example that runs.

Examples are doctests, which the suite runs where they stand, or blocks of the page, which test_docs.py runs.
"""

import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
ENTRY = re.compile(r"^::: (\S+)\n((?:    .*\n?)*)", re.M)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
ARGUMENTS = re.compile(r"^ +(\w+(?:, \w+)*):(?: |$)", re.M)
NUMPY_ARGUMENTS = re.compile(r"^(\w+(?:, \w+)*) : ", re.M)
SHAPE = re.compile(r"\((?:[\w·*. ]+|\.\.\.),[^)]*\)|\bany shape\b|\bshaped as\b|\bone (?:a|for each) \w+")
ARRAY = re.compile(r"Tensor|NDArray|ArrayLike|ImageSource")
CONSTANTS = {"BACKBONES", "DATASETS", "DROPOUT_TYPES", "LOSSES", "METHODS"}
"""Tables by name, which the pages' text tells of."""


class Shown(NamedTuple):
    """An object of a page, with the page's text and the class it belongs to."""

    name: str
    found: object
    page: str
    owner: type | None = None


def located(name):
    """The module or object of a dotted name; of two of one name the module, as the site takes it."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def members(found):
    """Public functions, classes and properties that an object defines itself and describes."""
    for name, value in vars(found).items():
        value = getattr(value, "__func__", value)
        own = isinstance(value, property) or getattr(value, "__module__", None) in (
            found.__name__,
            getattr(found, "__module__", None),
        )
        if not name.startswith("_") and own and (callable(value) or isinstance(value, property)) and value.__doc__:
            yield name, value


def shown(page):
    text = page.read_text(encoding="utf-8")
    for name, options in ENTRY.findall(text):
        chosen = re.search(r"members: \[(.*)\]", options)
        wanted = None if chosen is None else chosen[1].split(", ")
        found = located(name)
        if not inspect.ismodule(found):
            yield Shown(name, found, text)
        owner = found if inspect.isclass(found) else None
        for member, value in members(found) if inspect.isclass(found) or inspect.ismodule(found) else ():
            if wanted is not None and member not in wanted:
                continue
            yield Shown(f"{name}.{member}", value, text, owner)
            if owner is None and inspect.isclass(value):
                yield from (Shown(f"{name}.{member}.{n}", v, text, value) for n, v in members(value))


ALL = [pytest.param(entry, id=entry.name) for page in PAGES for entry in shown(page)]


def doc(found):
    """Its own docstring: one that is inherited says nothing about it."""
    return inspect.cleandoc(found.__doc__ or "")


def parameters(found):
    if isinstance(found, property):
        return {}
    try:
        given = inspect.signature(found).parameters
    except ValueError:
        return {}
    builtin = inspect.isclass(found) and issubclass(found, BaseException)
    return {} if builtin else {name: str(p.annotation) for name, p in given.items() if name not in ("self", "cls")}


def lacks(entry):
    """What a reader misses in an entry, a word each."""
    own = doc(entry.found)
    whole = own if entry.owner is None else own + "\n" + doc(entry.owner)
    name = entry.name.rpartition(".")[2]
    code = "\n".join([*re.findall(r"^\s*(?:>>>|\.\.\.) (.*)", whole, re.M), *BLOCK.findall(entry.page)])
    called = rf"\.{name}\b" if entry.owner is not None and name != "forward" else rf"\b{name}\b"
    if name == "forward":
        called = r"\w\("  # a module is called by its own name
    found = [] if re.search(called, code) else ["an example"]
    told = {n for group in [*ARGUMENTS.findall(whole), *NUMPY_ARGUMENTS.findall(whole)] for n in group.split(", ")}
    if entry.owner is not None:
        told |= set(re.findall(r"\w+", whole))
    given = parameters(entry.found)
    found += [f"the argument {name}" for name in given if name not in told]
    arrays = any(map(ARRAY.search, given.values()))
    return found + (["shapes"] if arrays and not SHAPE.search(whole) else [])


@pytest.mark.parametrize("entry", ALL)
def test_every_object_has_its_arguments_shapes_and_an_example(entry):
    assert doc(entry.found), f"{entry.name} has no docstring"
    assert lacks(entry) == []
