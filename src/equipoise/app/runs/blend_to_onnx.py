"""A blend as an ONNX graph: trees as tree ensembles, networks and the blending as plain products.

It is written node by node: skl2onnx 1.20 cannot read scikit-learn 1.9's gradient boosting. Thresholds stay in double
precision, so that rounding moves no row to the other side of one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.runs.onnx_graph import GraphBuilder
from equipoise.app.runs.predictors import LARGEST, single_members
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import SMALLEST_SHARE
from equipoise.decisions import Chosen
from equipoise.decisions.answer_module import penalties, prior_shift
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.estimators.blending import FLOOR
from equipoise.estimators.packed_network import SQUASHED


def blend_graph(
    estimator: BalancedClassifier, calibrated: Calibrated, dtype: Any, chosen: Chosen | None = None
) -> GraphBuilder:
    """Write a blend as a graph from ``x`` to ``probabilities``, ``uncertainty`` and ``predicted``.

    Args:
        calibrated: the run's calibration.
        dtype: of the encoded columns.
        chosen: the rule that answers; None is the most probable class at the prior that the method aims at.
    """
    unknown = {type(one).__name__ for own in estimator.members_ for one in single_members(own)} - set(MEMBERS)
    if unknown:
        names = ", ".join(sorted(unknown))
        raise InvalidInputError(f"{names} cannot be exported to ONNX; train with --model auto, forest or network.")
    several = calibrated.prior.ndim == 2
    graph = GraphBuilder(estimator.n_features_in_, len(estimator.classes_), dtype, several=several)
    whole = graph.cast("x", np.float64)
    x = graph.node("Clip", whole, graph.constant(-LARGEST), graph.constant(LARGEST))
    outputs = [
        _mean(graph, [_member(graph, estimator, *each, x) for each in zip(own, shares, strict=True)])
        for own, shares in zip(estimator.members_, estimator._fitted.shares, strict=True)
    ]
    _answers(graph, _logits(graph, estimator, outputs), calibrated, chosen)
    return graph


def _member(graph: GraphBuilder, estimator: BalancedClassifier, member: Any, share: NDArray[Any] | None, x: str) -> str:
    """Write a member's probabilities at the class prior of all rows: (rows, classes), or (rows, attributes, 2).

    Args:
        share: share of each class's rows that the member was fitted on; None means all.
    """
    if isinstance(member, list):
        each = [_placed(graph, one, x, 2) for one in member]
        first = graph.constant([1], np.int64)
        return graph.node("Concat", *(graph.node("Unsqueeze", one, first) for one in each), axis=1)
    p = _placed(graph, member, x, len(estimator.classes_))
    if share is None:
        return p
    p = graph.node("Div", p, graph.constant(np.where(share > 0, share, 1)))
    return graph.node("Div", p, graph.node("ReduceSum", p, graph.constant([-1], np.int64), keepdims=1))


def _placed(graph: GraphBuilder, member: Any, x: str, classes: int) -> str:
    """Write a member's probabilities in the order of all classes; 0 for one it has not seen."""
    p = graph.cast(MEMBERS[type(member).__name__](graph, member, x), np.float64)
    places = np.asarray(member.classes_).astype(np.intp)
    if len(places) == classes:
        return p
    return graph.node("MatMul", p, graph.constant(np.eye(classes)[places]))


def _forest(graph: GraphBuilder, member: Any, x: str) -> str:
    tables = []
    for tree in (one.tree_ for one in member.estimators_):
        value = tree.value[:, 0, :]
        tables.append(
            {
                "left": tree.children_left,
                "right": tree.children_right,
                "feature": tree.feature,
                "threshold": tree.threshold,
                "leaf": tree.children_left < 0,
                "value": value / value.sum(1, keepdims=True) / len(member.estimators_),
            }
        )
    rounded = graph.cast(graph.cast(x, np.float32), np.float64)  # as scikit-learn's trees see it
    return graph.trees(rounded, tables, len(member.classes_))


def _boosting(graph: GraphBuilder, member: Any, x: str) -> str:
    targets = member.n_trees_per_iteration_
    tables = []
    for of_step in member._predictors:
        for target, one in enumerate(of_step):
            nodes = one.nodes
            value = np.zeros((len(nodes), targets))
            value[:, target] = nodes["value"]
            found = {"left": nodes["left"], "right": nodes["right"], "feature": nodes["feature_idx"]}
            tables.append(found | {"threshold": nodes["num_threshold"], "leaf": nodes["is_leaf"], "value": value})
    raw = graph.cast(graph.trees(x, tables, targets), np.float64)
    raw = graph.node("Add", raw, graph.constant(member._baseline_prediction.reshape(1, -1)))
    if targets > 1:
        return graph.node("Softmax", raw, axis=-1)
    return graph.node("Concat", graph.node("Sigmoid", graph.node("Neg", raw)), graph.node("Sigmoid", raw), axis=1)


def _network(graph: GraphBuilder, member: Any, x: str) -> str:
    names = ("w1", "b1", "w2", "b2", "w3", "b3", "skip")
    layers = {name: graph.constant(member.layers_[name], np.float32) for name in names}
    mean, scale = (np.asarray(member.layers_[name], dtype=np.float64) for name in ("mean", "scale"))
    graph.thresholds.append((np.tile(np.arange(len(mean)), 2), np.concatenate((mean - scale, mean + scale))))
    z = graph.node("Div", graph.node("Sub", x, graph.constant(mean)), graph.constant(scale))
    bent = graph.node("Div", z, graph.constant(SQUASHED))
    bent = graph.node("Sqrt", graph.node("Add", graph.node("Mul", bent, bent), graph.constant(1.0)))
    h = rows = graph.cast(graph.node("Div", z, bent), np.float32)
    for number in (1, 2):
        a = graph.node("Add", graph.node("MatMul", h, layers[f"w{number}"]), layers[f"b{number}"])
        h = graph.node("Mul", a, graph.node("Sigmoid", a))
    total = graph.node("Add", graph.node("MatMul", h, layers["w3"]), graph.node("MatMul", rows, layers["skip"]))
    return graph.node("Softmax", graph.node("Add", total, layers["b3"]), axis=-1)


def _vote(graph: GraphBuilder, member: Any, x: str) -> str:
    scores = graph.node("MatMul", graph.cast(x, np.float64), graph.constant(member.coef_))
    return graph.node("Softmax", scores, axis=-1)


def _constant(graph: GraphBuilder, member: Any, x: str) -> str:
    """Write a constant answer for all rows, for a fold with a single class."""
    first = graph.node("Gather", x, graph.constant([0], np.int64), axis=1)
    nothing = graph.node("Mul", first, graph.constant(0.0))
    return graph.node("Add", nothing, graph.constant(np.reshape(member.class_prior_, (1, -1))))


MEMBERS: dict[str, Callable[[GraphBuilder, Any, str], str]] = {
    "PackedNetwork": _network,
    "LogOddsVote": _vote,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "HistGradientBoostingClassifier": _boosting,
    "DummyClassifier": _constant,
}
"""Class of a member -> function that writes its probabilities, (rows, its classes)."""


def _mean(graph: GraphBuilder, values: list[str]) -> str:
    return graph.node("Div", graph.node("Sum", *values), graph.constant(float(len(values))))


def _logits(graph: GraphBuilder, estimator: BalancedClassifier, outputs: list[str]) -> str:
    """Write ``Blend.logits``."""
    blend, parts = estimator.blend_, []
    classes = blend.uncertainty.shape[-1]
    for output, scaling, weight in zip(outputs, blend.scalings, blend.weights.tolist(), strict=True):
        shared = graph.node("Mul", output, graph.constant(1 - FLOOR))
        log = graph.node("Log", graph.node("Add", shared, graph.constant(FLOOR / classes)))
        scaled = graph.node("Mul", log, graph.constant(scaling.scale.numpy()))
        p = graph.node("Softmax", graph.node("Add", scaled, graph.constant(scaling.bias.numpy())), axis=-1)
        parts.append(graph.node("Mul", p, graph.constant(weight)))
    mean = graph.node("Max", graph.node("Sum", *parts), graph.constant(SMALLEST_SHARE))
    return graph.node("Add", graph.node("Log", mean), graph.constant(blend.margins.numpy()))


def _answers(graph: GraphBuilder, logits: str, calibrated: Calibrated, chosen: Chosen | None) -> None:
    """Write probabilities, uncertainty and class, as a run gives them without another class prior."""
    import torch

    several, zero = calibrated.prior.ndim == 2, torch.zeros(tuple(calibrated.prior.shape), dtype=torch.float64)
    scaled = graph.node("Mul", logits, graph.constant(calibrated.scaling.scale.numpy()))
    natural = graph.constant(calibrated.scaling(zero, calibrated.odds(None)).numpy())
    whole = p = graph.node("Softmax", graph.node("Add", scaled, natural), axis=-1)
    if several:
        p = graph.node("Gather", p, graph.constant(1, np.int64), axis=-1)
    decision = graph.node("Add", scaled, graph.constant(calibrated.decision(zero).numpy()))
    q = graph.node("Softmax", decision, axis=-1)
    variance = graph.node("Mul", q, graph.node("Sub", graph.constant(1.0), q))
    axes = graph.constant([1, 2] if several else [1], np.int64)
    total = graph.node("ReduceSum", variance, axes, keepdims=0)
    for name, value in (("probabilities", graph.cast(p, np.float32)), ("uncertainty", graph.cast(total, np.float32))):
        _named(graph, value, name)
    if chosen is None or chosen.policy.as_aimed:
        _named(graph, graph.node("ArgMax", decision, axis=-1, keepdims=0), "predicted")
    else:
        _named(graph, rule_nodes(graph, whole, chosen, calibrated.prior.numpy()), "predicted")


def rule_nodes(graph: GraphBuilder, p: str, chosen: Chosen, prior: NDArray[np.float64]) -> str:
    """Write a rule's answers, as :class:`~equipoise.decisions.answer_module.AnswerModule` gives them.

    Args:
        p: calibrated probabilities at the training samples' class prior, (rows, classes) or (rows, attributes, 2).
        prior: that prior.
    """
    policy, last = chosen.policy, graph.constant([-1], np.int64)
    q = graph.node("Mul", p, graph.constant(prior_shift(chosen, prior)))
    q = graph.node("Div", q, graph.node("ReduceSum", q, last, keepdims=1))
    if policy.thresholds is not None:
        ones = graph.node("Gather", q, graph.constant(1, np.int64), axis=-1)
        return graph.cast(graph.node("GreaterOrEqual", ones, graph.constant(policy.thresholds)), np.int64)
    if policy.costs is None:
        gain = graph.node("Mul", q, graph.constant(policy.weights))
    else:
        gain = graph.node("MatMul", q, graph.constant(-policy.costs))
    if policy.claims:
        *each, rest = penalties(chosen)
        penalty = graph.constant(rest[None])
        for claim, own in reversed(list(zip(policy.claims, each, strict=True))):
            group = graph.node("Gather", q, graph.constant(claim.places, np.int64), axis=1)
            total = graph.node("ReduceSum", group, last, keepdims=1)
            hit = graph.node("GreaterOrEqual", total, graph.constant(claim.threshold))
            penalty = graph.node("Where", hit, graph.constant(own[None]), penalty)
        gain = graph.node("Add", gain, penalty)
    return graph.node("ArgMax", gain, axis=-1, keepdims=0)


def _named(graph: GraphBuilder, value: str, name: str) -> None:
    from onnx import helper

    graph.nodes.append(helper.make_node("Identity", [value], [name]))
