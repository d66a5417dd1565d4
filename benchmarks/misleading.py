"""Training rows whose class counts mislead, with sizes and difficulty fixed before any method was run on them.

A maker takes a reader of (training rows, test rows) and a seed, and returns the rows to fit and the rows to score on.
Test rows keep their labels; noise that belongs to the pixels of a class is on its test images too.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

Rows = tuple[np.ndarray, np.ndarray]
Read = Callable[[], tuple[Rows, Rows]]
HARD = (2, 3, 5, 8, 9)
"""Classes that get noisy pixels, wrong labels or a rare sub-group: digits, or bird, cat, dog, ship and truck."""
ANIMALS = (2, 3, 4, 5, 7)
"""Bird, cat, deer, dog and horse of CIFAR-10: harder than the vehicles and the frog, without any noise."""
NOISE = 0.5
"""Standard deviation of the noise on pixels from 0 to 1."""
MISLABELLED = 0.4
"""Share of the labels that are wrong, in classes that have wrong ones."""
EQUAL, COMMON, RARE = 60, 300, 30
"""Rows of a class where all are alike, and of common and rare ones."""
DRAWN_FROM, SCORED = 400, 200
"""Training and test images of each class of CIFAR-10, all that features are computed of."""
PAIRS = ((0, 2), (1, 3), (4, 5), (6, 8), (7, 9))
"""Two digits per class, or two classes of CIFAR-10; the second is the sub-group."""


def taken(y: np.ndarray, sizes: dict[int, int], rng: np.random.Generator) -> np.ndarray:
    """So many rows of each class, all of them where there are fewer."""
    return np.concatenate([rng.permutation(np.flatnonzero(y == label))[:size] for label, size in sizes.items()])


def noisy(rows: Rows, labels: tuple[int, ...], rng: np.random.Generator) -> Rows:
    """Noise on the pixels of some classes."""
    x, y = rows
    if not labels:
        return rows
    hit = np.isin(y, labels)[:, None]
    return (x + hit * rng.normal(scale=NOISE, size=x.shape)).astype(np.float32), y


def equal_counts(read: Read, seed: int, *, hard: tuple[int, ...] = ()) -> tuple[Rows, Rows]:
    """As many rows of every class; some are harder by nature, or by noise on their pixels."""
    (x, y), test = read()
    rng = np.random.default_rng(seed)
    kept = taken(y, {int(label): EQUAL for label in np.unique(y)}, rng)
    return noisy((x[kept], y[kept]), hard, rng), noisy(test, hard, np.random.default_rng(0))


def rare_but_easy(read: Read, seed: int, *, common: tuple[int, ...], hard: tuple[int, ...] = ()) -> tuple[Rows, Rows]:
    """Common classes, hard by nature or by noise on their pixels, beside rare classes that are easier."""
    (x, y), test = read()
    rng = np.random.default_rng(seed)
    kept = taken(y, {label: COMMON if label in common else RARE for label in range(10)}, rng)
    return noisy((x[kept], y[kept]), hard, rng), noisy(test, hard, np.random.default_rng(0))


def wrong_labels(read: Read, seed: int) -> tuple[Rows, Rows]:
    """Equally many rows of every class; some classes hold many rows with another label."""
    (x, y), test = read()
    rng = np.random.default_rng(seed)
    kept = taken(y, dict.fromkeys(range(10), 2 * EQUAL), rng)
    x, y = x[kept], y[kept]
    wrong = np.isin(y, HARD) & (rng.random(len(y)) < MISLABELLED)
    return (x, np.where(wrong, (y + rng.integers(1, 10, size=len(y))) % 10, y)), test


def rare_sub_groups(read: Read, seed: int) -> tuple[Rows, Rows]:
    """Five classes of two each with equal counts; in three of them the second is rare, but not in test rows."""
    (x, y), (x_test, y_test) = read()
    rng = np.random.default_rng(seed)
    sizes = {}
    for place, (first, second) in enumerate(PAIRS):
        rare = 10 if place >= 2 else EQUAL
        sizes |= {first: 2 * EQUAL - rare, second: rare}
    kept = taken(y, sizes, rng)
    named = np.array([next(place for place, pair in enumerate(PAIRS) if label in pair) for label in range(10)])
    return (x[kept], named[y[kept]]), (x_test, named[y_test])


CASES: dict[str, Callable[[Read, int], tuple[Rows, Rows]]] = {
    "MNIST, equal counts, half of the classes noisy": partial(equal_counts, hard=HARD),
    "MNIST, rare but easy beside common but noisy": partial(rare_but_easy, common=HARD, hard=HARD),
    "MNIST, wrong labels in half of the classes": wrong_labels,
    "MNIST, rare sub-groups in three of five classes": rare_sub_groups,
    "HAM10000 features, equal counts": equal_counts,
    "CIFAR-10 features, equal counts": equal_counts,
    "CIFAR-10 features, rare but easy beside common but hard": partial(rare_but_easy, common=ANIMALS),
    "CIFAR-10 features, wrong labels in half of the classes": wrong_labels,
    "CIFAR-10 features, rare sub-groups in three of five classes": rare_sub_groups,
}
