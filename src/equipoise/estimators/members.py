"""Cross-fitting: each classifier is fitted once per fold, on the rows outside it, so that every row has an out-of-fold
prediction."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from equipoise.errors import InvalidInputError
from equipoise.estimators.member_outputs import Member, is_frozen, take, without_probabilities
from equipoise.estimators.packed_network import PackedNetwork

Array = NDArray[Any]
TREES, TREES_OF_MANY = 40, 20
"""Trees per member of a forest: five members have 200 together, or 100 on large tables."""
MANY, VERY_MANY = 10_000, 50_000
"""Rows from which tables count as large: fewer trees, more boosting, a wider network."""
MOST_OF_A_FOREST = 10_000
"""Most rows that a member of a forest is fitted on; more rows cost time without a gain."""
MOST_OF_A_MEMBER = 100_000
"""Rows that any other member is fitted to at most; every member draws others, and rare classes stay whole."""
MOST_BOOSTED = 50
"""Classes up to which the default has boosting, which fits a tree for each class in every round."""


def _forest(kind: Any, rows: int) -> Any:
    return kind(TREES if rows <= VERY_MANY else TREES_OF_MANY, min_samples_leaf=2)


def _boosting(rows: int) -> Any:
    size = {"max_iter": 100, "max_leaf_nodes": 31, "learning_rate": 0.1} if rows > MANY else {"max_iter": 60}
    return HistGradientBoostingClassifier(
        **({"max_leaf_nodes": 16, "learning_rate": 0.12, "early_stopping": False} | size)
    )


def _network(rows: int) -> Any:
    if rows <= MANY:
        return PackedNetwork()
    return PackedNetwork(width=128, batch_size=256, steps=1000 if rows <= VERY_MANY else 2000)


class MemberFamily(NamedTuple):
    """A kind of classifier in the default blend.

    Args:
        label: its name in a report.
        make: from the number of rows to an estimator that has not been fitted.
        most_rows: rows that a member is fitted to at most.
        most_classes: classes up to which the default blend has it.
    """

    label: str
    make: Callable[[int], Any]
    most_rows: int = MOST_OF_A_MEMBER
    most_classes: int = sys.maxsize


FAMILIES: dict[str, MemberFamily] = {
    "network": MemberFamily("network", _network),
    "forest": MemberFamily("random forest", partial(_forest, RandomForestClassifier), MOST_OF_A_FOREST),
    "extra_trees": MemberFamily("extra trees", partial(_forest, ExtraTreesClassifier), MOST_OF_A_FOREST),
    "boosting": MemberFamily("gradient boosting", _boosting, most_classes=MOST_BOOSTED),
}
"""The default blends all of them that take so many classes. A new one is one line here."""


def default_families(classes: int) -> dict[str, MemberFamily]:
    """Return the families of the default blend for a number of classes."""
    return {name: family for name, family in FAMILIES.items() if classes <= family.most_classes}


def family_label(classifier: Any) -> str:
    """Return a classifier's name in a report: its family's, otherwise its class's.

    >>> family_label(RandomForestClassifier()), family_label(DummyClassifier())
    ('random forest', 'DummyClassifier')
    """
    labels = {type(family.make(1)): family.label for family in FAMILIES.values()}
    return labels.get(type(classifier), type(classifier).__name__)


def as_estimators(given: Any, rows: int, classes: int = 2) -> list[tuple[Any, int]]:
    """Return what a user calls the estimator, ``"auto"``, a name, a classifier or a list of these, as classifiers.

    Args:
        rows, classes: of the training data; 2 classes where a row has several labels.

    Returns:
        Pairs of a classifier and the most rows that a member of it is fitted on.
    """
    if isinstance(given, str) and given == "auto":
        given = list(default_families(classes))
    several = list(given) if isinstance(given, list | tuple) else [given]
    if not several:
        raise InvalidInputError(
            "estimator must name at least one classifier, got an empty list; leave it out for auto."
        )
    return [_as_estimator(each, rows) for each in several]


def _as_estimator(given: Any, rows: int) -> tuple[Any, int]:
    if isinstance(given, str):
        if given not in FAMILIES:
            raise InvalidInputError(
                f"estimator must be auto, one of {', '.join(FAMILIES)}, or a classifier; got {given!r}."
            )
        return FAMILIES[given].make(rows), FAMILIES[given].most_rows
    if isinstance(given, type):
        raise InvalidInputError(
            f"estimator must be a classifier, got the class {given.__name__}; call it: {given.__name__}()."
        )
    if not _classifies(given):
        raise InvalidInputError(
            f"estimator must be a scikit-learn classifier, got {type(given).__name__}; or name one of "
            f"{', '.join(FAMILIES)}."
        )
    if not hasattr(type(given), "predict_proba") and not hasattr(given, "predict_proba"):
        raise InvalidInputError(without_probabilities(given))
    return given, sys.maxsize if is_frozen(given) else MOST_OF_A_MEMBER  # a frozen one is fitted already


def _classifies(given: Any) -> bool:
    if not all(hasattr(given, needed) for needed in ("fit", "get_params")):
        return False
    return bool(is_classifier(given)) if hasattr(given, "__sklearn_tags__") else hasattr(given, "predict_proba")


def fit_members(
    estimator: Any,
    x: Any,
    target: NDArray[np.int64],
    parts: Sequence[Array],
    *,
    sample_weight: Array | None,
    seed: int,
    n_jobs: int | None = None,
) -> list[Member]:
    """Fit copies of a classifier, one on each part of the rows.

    Args:
        estimator: unfitted; one with its own ``fit_members`` fits them together.
        x: rows, as the classifier takes them.
        target: class indices, (rows,), or 0 and 1, (rows, attributes).
        parts: the rows of each member.
        sample_weight: (rows,), or None.
        seed: of every random choice that the classifier leaves open.
    """
    if target.ndim == 2:
        each = [
            fit_members(estimator, x, column, parts, sample_weight=sample_weight, seed=seed + place, n_jobs=n_jobs)
            for place, column in enumerate(target.T)
        ]
        return [list(member) for member in zip(*each, strict=True)]
    seeded = [_seeded(estimator, seed + number) for number in range(len(parts))]
    if hasattr(estimator, "fit_members") and all(len(np.unique(target[part])) > 1 for part in parts):
        found: list[Member] = seeded[0].fit_members(x, target, parts, sample_weight)
        return found
    fits = (delayed(_fit)(model, x, target, part, sample_weight) for model, part in zip(seeded, parts, strict=True))
    return list(Parallel(n_jobs=n_jobs)(fits))


def _fit(model: Any, x: Any, target: NDArray[np.int64], part: Array, sample_weight: Array | None) -> Any:
    if len(np.unique(target[part])) < 2:
        return DummyClassifier(strategy="prior").fit(np.zeros((len(part), 1)), target[part])
    rows = take(x, part)
    if sample_weight is None:
        return model.fit(rows, target[part])
    step = model.steps[-1] if isinstance(model, Pipeline) else None
    if not has_fit_parameter(model if step is None else step[1], "sample_weight"):
        raise InvalidInputError(f"{type(model).__name__} takes no sample_weight; leave the weights out.")
    return model.fit(rows, target[part], **{f"{step[0] + '__' if step else ''}sample_weight": sample_weight[part]})


def _seeded(estimator: Any, seed: int) -> Any:
    """Copy an estimator, and seed it wherever it leaves a seed open."""
    model = clone(estimator)
    given = model.get_params()
    names = [name for name, value in given.items() if name.rpartition("__")[2] == "random_state" and value is None]
    return model.set_params(**dict.fromkeys(names, seed))


def thinned(part: Array, target: NDArray[np.int64], seed: int, most: int) -> tuple[Array, Array | None]:
    """Draw at most this many rows by thinning the common classes, and return how much each class was thinned.

    Classes share the room evenly; what a rare one leaves goes to the others. Several labels are not thinned by class.

    Returns:
        The rows kept, in order, and the share kept of each class, (classes,); None if all are.
    """
    if len(part) <= most:
        return part, None
    rng = np.random.RandomState(seed)
    if target.ndim == 2:
        return np.sort(rng.choice(part, most, replace=False)), None
    counts = np.bincount(target[part], minlength=int(target.max()) + 1)
    kept = _room(counts, most)
    rows = [rng.choice(part[target[part] == label], size, replace=False) for label, size in enumerate(kept) if size]
    return np.sort(np.concatenate(rows)), np.where(counts > 0, kept / np.maximum(counts, 1), 1.0)


def _room(counts: Array, most: int) -> Array:
    """Divide room for this many rows: rare classes stay whole, the others share the rest equally.

    >>> _room(np.array([900, 50, 300]), 450).tolist()
    [200, 50, 200]
    """
    kept = np.zeros_like(counts)
    order, left = np.argsort(counts, kind="stable"), most
    for done, label in enumerate(order):
        kept[label] = min(counts[label], left // (len(order) - done))
        left -= kept[label]
    return kept
