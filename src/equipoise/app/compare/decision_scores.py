"""Scores of a method's probabilities under a decision rule."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.compare.fit_store import CannotRunError
from equipoise.data.labels import label_places
from equipoise.data.samples import Samples
from equipoise.decisions import DecisionRule, Evidence, Situation
from equipoise.errors import InvalidInputError

Array = NDArray[Any]
FEWEST = 2
"""Fewest test samples of a class in a rule: some to choose its threshold, others to score it."""


def decision_scores(
    rule: DecisionRule, y_train: Array, y_test: Array, probabilities: Array | None, classes: Array
) -> dict[str, float]:
    """Return what the rule's answers to the test rows are worth, by the names of its yardstick.

    The test rows are divided into parts. Each is answered by thresholds chosen by the others, which the method has not
    been trained on either: as honest as out-of-fold predictions, and the same for all methods. Labels are (rows,), or
    0/1 of shape (rows, attributes); ``classes`` are all of them.

    Raises:
        CannotRunError: without probabilities, or where a part lacks a class that the rule is about.
    """
    if probabilities is None:
        raise CannotRunError("it has no probabilities, which the requested decision needs.")
    several = y_test.ndim == 2
    names = tuple(range(y_test.shape[1])) if several else tuple(classes.tolist())
    shares = y_train.mean(0) if several else np.array([(y_train == name).mean() for name in classes])
    prior = np.stack((1 - shares, shares), axis=-1) if several else shares
    truth = y_test.astype(np.int64) if several else label_places(y_test, classes)
    here = Situation(names, prior, prior, Evidence.of(probabilities, truth)).at(rule.class_prior)
    try:
        named = rule.crossed(here, here.probabilities)
    except InvalidInputError as error:
        raise CannotRunError(f"its test part is too small for the requested decision ({error})") from error
    return rule.judge(here, named)


def rule_for_samples(rule: DecisionRule, samples: Samples, folds: int | None) -> DecisionRule:
    """Return the rule for labels as the samples have them; refuse wrong names, and a rule that ranks nothing."""
    several = samples.multilabel
    names = list(samples.class_names)
    rule.check(names, several=several)
    if rule.yardstick is None:
        raise InvalidInputError(
            f"{rule!r} is about every class, which is how methods are ranked without a rule; leave it out, or give "
            "costs, a recall, a precision or a review budget."
        )
    costs = rule.cost_matrix(names, several=several)
    if costs is not None and costs.ndim != (3 if several else 2):
        raise InvalidInputError("a comparison needs one cost per class, got a cost for each row; pass costs by class.")
    counts = samples.y.sum(0) if several else np.bincount(samples.encoded[1])
    for name in rule.reported_classes(names, counts.tolist(), several=several) if rule.needs_evidence else ():
        rows = int(counts[names.index(name)])
        if folds is not None and rows < FEWEST * folds:
            raise InvalidInputError(
                f"{name!r} has {rows} samples, too few to choose and to judge a threshold in each of {folds} test "
                f"parts; give fewer folds, or {FEWEST * folds} samples."
            )
    return rule.by_place(names) if several else rule
