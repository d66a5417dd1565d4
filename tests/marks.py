"""Marks for parametrized tests: the first cases run often, the others with the slow or the nightly tests."""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], *, fast: int = 1) -> list[Any]:
    """Mark all cases but the first few as slow; a tuple is the arguments of one case."""
    return _marked(cases, [()] * fast, pytest.mark.slow)


def mostly_nightly(cases: Iterable[Any], *, slow: int = 1) -> list[Any]:
    """Mark the first few cases as slow, and all others as nightly."""
    return _marked(cases, [pytest.mark.slow] * slow, pytest.mark.nightly)


def _marked(cases: Iterable[Any], first: list[Any], others: Any) -> list[Any]:
    marks = itertools.chain(first, itertools.repeat(others))
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for case, mark in zip(cases, marks, strict=False)
    ]
