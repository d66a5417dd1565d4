"""scikit-learn's trees as plain arrays, checked before a tree is built from them, and the checks of other trees.

The compiled code that walks a tree follows the indices in its nodes without checking their range.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.recfunctions import repack_fields
from numpy.typing import NDArray

Numbers = NDArray[Any]
Arrays = dict[str, Numbers]
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
LEAF = -1


def trees_to_arrays(trees: Sequence[Any]) -> Arrays:
    """Return the nodes and values of ``sklearn.tree._tree.Tree`` objects, concatenated."""
    states = [tree.__getstate__() for tree in trees]
    sizes = [(tree.node_count, tree.n_features, tree.n_outputs, tree.max_depth) for tree in trees]
    return {
        "sizes": np.array(sizes, np.int64),  # (trees, 4)
        "classes": np.concatenate([tree.n_classes for tree in trees]).astype(np.int64),  # of each output of each tree
        "nodes": repack_fields(np.concatenate([state["nodes"] for state in states])),
        "values": np.concatenate([state["values"].ravel() for state in states]),
    }


def trees_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Restore trees from :func:`trees_to_arrays`; raise ValueError if a tree would lead out of its arrays."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    sizes = _checked(arrays["sizes"], np.int64, 2)
    classes, values = _checked(arrays["classes"], np.int64, 1), _checked(arrays["values"], np.float64, 1)
    nodes = _checked(arrays["nodes"], repack_fields(NODE_DTYPE), 1).astype(NODE_DTYPE)  # padding is not stored
    require(sizes.shape[1] == 4 and bool(np.all(sizes[:, :3] > 0)), "a tree without nodes, features or outputs")
    require(bool(np.all(classes > 0)) and not np.isnan(values).any(), "a tree with values that are not numbers")
    found, node, value, output = [], 0, 0, 0
    for count, features, outputs, depth in sizes.tolist():
        own_classes = classes[output : output + outputs]
        require(own_classes.size == outputs and 0 <= depth < count, "a tree of another size than its arrays")
        width = outputs * int(own_classes.max())
        own = nodes[node : node + count]
        own_values = values[value : value + count * width]
        require(own.size == count and own_values.size == count * width, "a tree of another size than its arrays")
        require(bool(np.isfinite(own_values).all()), "a tree with values that are not finite")
        _check_nodes(own, features)
        tree = Tree(features, own_classes.astype(np.intp), outputs)
        state = {"max_depth": depth, "node_count": count, "nodes": own}
        tree.__setstate__(state | {"values": own_values.reshape(count, outputs, -1)})
        found.append(tree)
        node, value, output = node + count, value + count * width, output + outputs
    require((node, value, output) == (nodes.size, values.size, classes.size), "arrays of another size than its trees")
    return found


def _check_nodes(nodes: NDArray[Any], features: int) -> None:
    leaf = nodes["left_child"] == LEAF
    require(bool(np.all((nodes["right_child"] == LEAF) == leaf)), "a node with one child")
    check_links(nodes["left_child"], nodes["right_child"], leaf)
    inner = nodes[~leaf]
    _check_splits(inner["feature"], inner["threshold"], features)


def predictors_to_arrays(predictors: Sequence[Any]) -> Arrays:
    """Return the nodes and category sets of ``HistGradientBoosting`` trees, concatenated."""
    sizes = [(len(predictor.nodes), len(predictor.raw_left_cat_bitsets)) for predictor in predictors]
    names = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")
    parts = {name: np.concatenate([getattr(predictor, name) for predictor in predictors]) for name in names}
    return {"sizes": np.array(sizes, np.int64), **parts}


def predictors_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Restore trees from :func:`predictors_to_arrays`; raise ValueError if a tree would lead out of its arrays."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE, X_BITSET_INNER_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    sizes = _checked(arrays["sizes"], np.int64, 2)
    nodes = _checked(arrays["nodes"], PREDICTOR_RECORD_DTYPE, 1)
    binned = _checked(arrays["binned_left_cat_bitsets"], X_BITSET_INNER_DTYPE, 2)
    raw = _checked(arrays["raw_left_cat_bitsets"], X_BITSET_INNER_DTYPE, 2)
    require(sizes.shape[1] == 2 and bool(np.all(sizes >= (1, 0))), "a tree without nodes")
    require(binned.shape == raw.shape and raw.shape[1] == 8, "category sets of another size than its trees")
    require((nodes.size, len(raw)) == tuple(map(sum, zip(*sizes.tolist(), strict=True))), "trees of another size")
    found, node, row = [], 0, 0
    for count, rows in sizes.tolist():
        own = nodes[node : node + count]
        _check_predictor_nodes(own, rows)
        found.append(TreePredictor(own.copy(), binned[row : row + rows].copy(), raw[row : row + rows].copy()))
        node, row = node + count, row + rows
    return found


def _check_predictor_nodes(nodes: NDArray[Any], category_sets: int) -> None:
    require(bool(np.all(nodes["is_leaf"] <= 1) and np.all(nodes["is_categorical"] <= 1)), "a node of no known kind")
    leaf = nodes["is_leaf"] == 1
    check_links(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), leaf)
    require(bool(np.isfinite(nodes["value"][leaf]).all()), "a tree with values that are not finite")
    inner = nodes[~leaf]
    by_category = inner["is_categorical"] == 1
    require(bool(np.all(inner["bitset_idx"][by_category] < category_sets)), "a split by a category set it lacks")
    thresholds = np.where(by_category, 0.0, inner["num_threshold"])
    _check_splits(inner["feature_idx"], thresholds, np.iinfo(np.int64).max)  # the estimator checks the upper bound


def check_links(left: NDArray[Any], right: NDArray[Any], leaf: NDArray[Any]) -> None:
    """Raise an error unless the nodes form a binary tree with every child after its parent, as builders number them."""
    parents = np.flatnonzero(~leaf)
    children = np.concatenate([left[parents], right[parents]])
    require(bool(np.all(children > np.tile(parents, 2)) and np.all(children < len(leaf))), "a child out of range")
    require(len(np.unique(children)) == len(children) == len(leaf) - 1, "a node with no parent or with several")


def _check_splits(features: NDArray[Any], thresholds: NDArray[Any], most: int) -> None:
    """Check splits; a threshold may be infinite, which separates missing values."""
    require(bool(np.all(features >= 0) and np.all(features < most)), "a split by a feature out of range")
    require(not np.isnan(thresholds).any(), "a threshold that is not a number")


def _checked(array: NDArray[Any], kind: Any, dimensions: int) -> NDArray[Any]:
    require(array.dtype == np.dtype(kind) and array.ndim == dimensions, "an array of another type")
    return array


def require(sound: bool, fault: str) -> None:
    """Raise a ValueError that says what a file holds."""
    if not sound:
        raise ValueError(f"it holds {fault}")


def finite(values: Sequence[Any], count: int) -> Numbers:
    """Return numbers given as numbers or as text."""
    sound = all(NUMBER.fullmatch(value) if type(value) is str else type(value) in (int, float) for value in values)
    require(sound and len(values) == count, "a tree of another size, or values that are not numbers")
    found = np.array([float(value) for value in values], np.float64)
    require(bool(np.isfinite(found).all()), "a number that is not finite")
    return found


def whole(values: Sequence[Any], count: int) -> Numbers:
    """Return whole numbers given as numbers or as text."""
    sound = all(re.fullmatch(r"-?\d{1,15}", value) if type(value) is str else type(value) is int for value in values)
    require(sound and len(values) == count, "a tree of another size, or values that are not numbers")
    return np.array([int(value) for value in values], np.int64)


def within(values: Numbers, low: int, high: int, fault: str) -> None:
    """Raise an error for numbers below ``low``, or equal to ``high`` and above."""
    require(bool(np.all((values >= low) & (values < high))), fault)


def check_unique(children: Numbers) -> None:
    """Raise an error for a node with two parents, or a root with any: then every walk from the root ends."""
    require(len(np.unique(children)) == len(children) and 0 not in children, "a node with several parents")
