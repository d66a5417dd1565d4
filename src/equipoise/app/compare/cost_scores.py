"""What a method's answers cost on test rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions import DecisionRule, Situation

Array = NDArray[Any]


def cost_scores(
    rule: DecisionRule, y_train: Array, y_test: Array, labels: Array, probabilities: Array | None, classes: Array
) -> dict[str, float]:
    """Return ``expected_cost``, of 1,000 cases, and ``cost_saved`` by which methods are ranked.

    ``cost_saved`` is the share saved of what the cheapest constant answer costs on the test rows: 1 where nothing is
    lost, 0 where always the same answer would do as well, and below 0 where it would do better.

    Args:
        rule: with costs; it decides by the probabilities, where there are any.
        y_train, y_test, labels: true labels of both parts and what the method predicts, (rows,), or 0/1 of shape (rows,
            attributes).
        probabilities: of the test rows, (rows, classes), with attributes that of a 1.
        classes: all labels.
    """
    several = y_test.ndim == 2
    names = tuple(range(y_test.shape[1])) if several else tuple(classes.tolist())
    shares = y_train.mean(0) if several else np.array([(y_train == name).mean() for name in classes])
    prior = np.stack((1 - shares, shares), axis=-1) if several else shares
    chosen = rule.choose(Situation(names, prior, prior, None))
    truth = y_test.astype(np.int64) if several else np.searchsorted(classes, y_test)
    if probabilities is not None:
        here = Situation(names, prior, prior, None).at(rule.class_prior)
        named = chosen.form.places(_moved(np.asarray(probabilities, dtype=np.float64), prior, here.mix, several))
    else:
        named = labels.astype(np.int64) if several else np.searchsorted(classes, labels)
    cost = chosen.cost_of(truth, named)
    assert cost is not None
    if several:  # of each attribute the cheaper answer
        costs = rule.cost_matrix(names, several=True)
        assert costs is not None
        each = np.stack([costs[np.arange(len(names)), truth, answer].mean(0) for answer in (0, 1)])
        constant = 1000 * float(each.min(0).sum())
    else:
        constant = min(float(chosen.cost_of(truth, np.full_like(truth, place)) or 0) for place in range(len(names)))
    return {"expected_cost": cost, "cost_saved": 1 - cost / constant if constant > 0 else float(cost == 0)}


def _moved(p: Array, prior: Array, mix: Array | None, several: bool) -> Array:
    from equipoise.calibration.class_prior import move_prior

    if mix is None:
        return p
    pairs = np.stack((1 - p, p), axis=-1) if several else p
    moved = move_prior(pairs, old=prior, new=mix)
    return moved[..., 1] if several else moved
