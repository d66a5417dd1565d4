"""The families of classifiers in the default blend, and what a user may give as an estimator."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from sklearn.base import is_classifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from equipoise.data.encoded_rows import LogOddsColumns
from equipoise.errors import InvalidInputError, did_you_mean
from equipoise.estimators.log_odds_vote import LogOddsVote
from equipoise.estimators.member_outputs import is_frozen, without_probabilities
from equipoise.estimators.packed_network import PackedNetwork

TREES, TREES_OF_MANY = 40, 20
"""Trees per member of a forest: five members have 200 together, or 100 on large tables."""
MANY, VERY_MANY = 10_000, 50_000
"""Rows from which tables count as large: fewer trees, more boosting, a wider network."""
MOST_OF_A_FOREST = 10_000
"""Most rows that a member of a forest is fitted on; more rows cost time without a gain."""
MOST_OF_A_MEMBER = 100_000
"""Most rows that any other member is fitted on; each member draws its own, and rare classes stay whole."""
MOST_BOOSTED = 30
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
        make: returns an unfitted estimator for a number of rows.
        most_rows: maximum number of rows that a member is fitted on.
        most_classes: maximum number of classes for which the default blend includes it.
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
"""The default blends all that allow the number of classes. A new one is one line here."""


def default_families(classes: int) -> dict[str, MemberFamily]:
    """Return the families of the default blend for a number of classes."""
    return {name: family for name, family in FAMILIES.items() if classes <= family.most_classes}


def family_label(classifier: Any) -> str:
    """Return a classifier's name in a report: its family's, otherwise its class's.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> family_label(RandomForestClassifier()), family_label(GaussianNB())
    ('random forest', 'GaussianNB')
    """
    labels = {type(family.make(1)): family.label for family in FAMILIES.values()} | {LogOddsVote: "text alone"}
    return labels.get(type(classifier), type(classifier).__name__)


def as_estimators(given: Any, rows: int, classes: int = 2, log_odds: LogOddsColumns = ()) -> list[tuple[Any, int]]:
    """Resolve ``"auto"``, a name, a classifier or a list of these into classifiers.

    Args:
        rows, classes: of the training data; 2 classes where a row has several labels.
        log_odds: columns in which a text's own models predict these classes; ``"auto"`` then lets them vote.

    Returns:
        Pairs of a classifier and the most rows that a member of it is fitted on.
    """
    if isinstance(given, str) and given == "auto":
        wanted = 1 if classes == 2 else classes
        own = tuple(columns for columns in log_odds if len(columns) == wanted)
        given = [*default_families(classes), *([LogOddsVote(own)] if own else [])]
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
                f"estimator must be auto, one of {', '.join(FAMILIES)}, or a classifier; got {given!r}"
                f"{did_you_mean(given, FAMILIES)}"
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
