"""Every public object has a place in the API reference, and there its arguments, its shapes and an example that runs.

Examples are doctests, which the suite runs where they stand, or blocks of the page, which test_docs.py runs.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from torch import Tensor

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
ENTRY = re.compile(r"^\.\. auto(?:module|class|exception|function):: (\S+)\n((?:   :.*\n?)*)", re.M)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
DOCTEST = re.compile(r"^ *>>> .*(?:\n *\S.*)*", re.M)
ARGUMENTS = re.compile(r"^ +(\w+(?:, \w+)*):\s|^(\w+(?:, \w+)*) : ", re.M)
SHAPE = re.compile(
    r"\((?:[\w·*. ]+,[^)]*|\.\.\.)?\)|\bany shape\b|\bbroadcasts\b|shaped as|same shape|\bas (?:in|for)\s+:"
)
ARRAY = re.compile(r"Tensor|NDArray|ArrayLike|Images")
CONSTANTS = {"BACKBONES", "DATASETS", "DECISIONS", "DROPOUT_TYPES", "LOSSES", "METHODS", "METRICS", "__version__"}
"""Names in an ``__all__`` that cannot be called; the pages' own text describes them."""


class Entry(NamedTuple):
    """An object of a page, with the text of the page and the class it belongs to."""

    name: str
    found: object
    page: str
    owner: type | None = None

    @property
    def last(self):
        return self.name.rpartition(".")[2]

    @property
    def text(self):
        """Its own docstring, and its class's. One that it inherits says nothing about it."""
        return "\n".join(inspect.cleandoc(each.__doc__ or "") for each in (self.found, self.owner) if each is not None)

    @property
    def examples(self):
        return "\n".join([*DOCTEST.findall(self.text), *BLOCK.findall(self.page)])


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
    """What the site shows below a module or a class: the public things it defines itself and describes."""
    listed = getattr(found, "__all__", [name for name in vars(found) if not name.startswith("_")])
    for name in listed:
        value = inspect.getattr_static(found, name)
        value = getattr(value, "__func__", value)  # of a class method
        if not (inspect.isfunction(value) or inspect.isclass(value) or isinstance(value, property)):
            continue
        imported = inspect.ismodule(found) and not hasattr(found, "__all__") and value.__module__ != found.__name__
        if value.__doc__ and not imported:
            yield name, value


@functools.cache
def entries(page):
    return list(_entries(page))


def _entries(page):
    text = page.read_text(encoding="utf-8")
    for name, options in ENTRY.findall(text):
        found, wanted = located(name), re.search(r":members: (\S.*)", options)
        below = dict(members(found)) if inspect.isclass(found) or inspect.ismodule(found) else {}
        if wanted is not None:
            below = {member: below[member] for member in wanted[1].split(", ")}
        if not inspect.ismodule(found):
            yield Entry(name, found, text)
        owner = found if inspect.isclass(found) else None
        for member, value in below.items():
            yield Entry(f"{name}.{member}", value, text, owner)
            if owner is None and inspect.isclass(value):
                yield from (Entry(f"{name}.{member}.{n}", v, text, value) for n, v in members(value))


def parameters(found):
    """Names and annotations of what it is called with."""
    if isinstance(found, property) or (inspect.isclass(found) and issubclass(found, BaseException)):
        return {}
    called = found.__call__ if getattr(found, "_is_protocol", False) else found
    given = inspect.signature(called).parameters
    return {name: str(each.annotation) for name, each in given.items() if name not in ("self", "cls")}


def is_shown(entry, others):
    """Whether an example uses it: by its name, a method on an object, a result by a function that gives it."""
    if entry.last == "forward":
        return bool(entry.examples)  # a module is called itself
    if entry.owner is None and ">>> " in entry.text:
        return True
    used = rf"(?:\.|def ){entry.last}\b" if entry.owner is not None else rf"\b{entry.last}\b"
    if re.search(used, entry.examples):
        return True
    made_by = [other for other in others if gives(other.found, entry.owner or entry.found) and is_shown(other, [])]
    return any(entry.owner is None or re.search(used, other.examples) for other in made_by)


def gives(function, result):
    if not inspect.isfunction(function):
        return False
    returned = function.__annotations__.get("return")
    return returned is result or returned == getattr(result, "__name__", None)  # a name where they are not evaluated


def lacks(entry, others):
    """What a reader misses, a few words each."""
    missing = [] if is_shown(entry, others) else ["an example"]
    told = {name for pair in ARGUMENTS.findall(entry.text) for group in pair for name in group.split(", ")}
    if entry.owner is not None:  # a method may tell of its arguments in its one sentence, or in that which it overrides
        overridden = (getattr(base, entry.last, None) for base in entry.owner.__mro__[1:])
        texts = [entry.text, *(getattr(each, "__doc__", None) or "" for each in overridden)]
        told |= set(re.findall(r"\w+", "\n".join(texts)))
    given = parameters(entry.found)
    missing += [f"the argument {name}" for name in given if name not in told]
    arrays = [name for name, kind in given.items() if ARRAY.search(kind)]
    return missing + [f"the shape of {name}" for name in arrays if not SHAPE.search(sentence(entry.text, name))]


def sentence(text, name):
    """What is said of an argument: its own lines of a list of them, or all of a text without it."""
    own = re.search(rf"^( +)(?:\w+, )*{name}(?:, \w+)*:\s.*(?:\n\1 +.*)*", text, re.M)
    return text if own is None else own[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_object_has_its_arguments_shapes_and_an_example(page):
    found = {entry.name: lacks(entry, entries(page)) for entry in entries(page)}
    assert found
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_every_public_name_has_a_place():
    names = [name for page in PAGES for name, _ in ENTRY.findall(page.read_text(encoding="utf-8"))]
    shown = [entry.found for page in PAGES for entry in entries(page)]
    packages = {name.rpartition(".")[0] for name in names} | {"equipoise"}
    public = {
        f"{package}.{name}": getattr(importlib.import_module(package), name)
        for package in packages
        if not inspect.isclass(located(package))
        for name in getattr(importlib.import_module(package), "__all__", ())
    }
    assert len(public) > 80
    absent = [name for name, found in public.items() if not any(found is each for each in shown)]
    assert {name.rpartition(".")[2] for name in absent} <= CONSTANTS, absent


def test_nothing_has_two_places():
    names = [entry.found for page in PAGES for entry in entries(page) if entry.owner is None]
    assert [found.__qualname__ for found in names if sum(found is other for other in names) > 1] == []


def bare(values: Tensor, level: float) -> None:
    """Nothing is said of either."""


class Found:
    """What there is."""

    def best(self, most):
        """The first."""


class Box:
    """Holds.

    Args:
        side: in pixels, any shape.
        inside: of the other kind.

    >>> Box(2, None).side
    2
    """

    def __init__(self, side: Tensor, inside: Tensor):
        self.side, self.inside = side, inside

    def cut(self):
        """Smaller."""

    def forward(self):
        """Nothing."""


def seek() -> Found:
    """Looks."""


def test_a_function_without_a_word_on_its_arguments_is_told_of():
    used = "```python\nbare(1, 2)\n```\n"
    assert lacks(Entry("m.bare", bare, used), []) == [
        "the argument values",
        "the argument level",
        "the shape of values",
    ]
    assert lacks(Entry("m.bare", bare, used.replace("bare", "seek")), [])[0] == "an example"


def test_a_result_is_shown_by_what_gives_it_and_its_methods_are_not():
    page = "```python\nprint(seek())\n```\n"
    giving = [Entry("m.seek", seek, page)]
    assert lacks(giving[0], []) == []
    assert lacks(Entry("m.Found", Found, page), giving) == []
    assert lacks(Entry("m.Found", Found, page), [Entry("m.bare", bare, page)]) == ["an example"]
    assert lacks(Entry("m.Found", Found, "```python\n1\n```\n"), [Entry("m.seek", seek, "")]) == ["an example"]
    best = Entry("m.Found.best", Found.best, page, Found)
    assert lacks(best, giving) == ["an example", "the argument most"]
    assert lacks(best._replace(page=page.replace("seek()", "seek().best(1)")), giving) == ["the argument most"]


def test_each_argument_has_its_own_shape_and_each_method_its_own_example():
    assert lacks(Entry("m.Box", Box, ""), []) == ["the shape of inside"]
    assert lacks(Entry("m.Box.cut", Box.cut, "", Box), []) == ["an example"]
    assert lacks(Entry("m.Box.forward", Box.forward, "", Box), []) == []  # called by the name of the object
    assert lacks(Entry("m.Found.forward", Box.forward, "", Found), []) == ["an example"]
