"""The texts of boosted models, rewritten from checked values.

LightGBM, XGBoost and CatBoost follow a text without checking ranges, and crash on an invalid one. So none of them sees
a stored text: each field needed for predicting is read, checked and written again, and all others are left out.
Invalid input raises ValueError.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from equipoise.estimators.pickle_free.tree_arrays import NUMBER, Numbers, check_unique, finite, require, whole, within
from equipoise.storage.records import Count, Name

RANGE = re.compile(rf"none|\[{NUMBER.pattern}:{NUMBER.pattern}\]|-?\d+(:-?\d+)*")
DEEPEST = 16
LARGEST_CATEGORY = 2**16
"""Most categories: XGBoost keeps a bit for each up to the largest."""


class BoosterRecord(Struct, kw_only=True):
    """The fields that a boosted model's own text leaves out; for an unfitted model, only its parameters."""

    parameters: dict[str, Any]
    classes: list[Any] = []
    class_type: Name = "O"
    features: Count = 0
    objective: Name = ""
    best_iteration: Count = 0

    @property
    def groups(self) -> int:
        """Trees per round: one for two classes, otherwise one for each class."""
        return 1 if len(self.classes) == 2 else len(self.classes)


def clean_lightgbm(text: str, record: BoosterRecord) -> str:
    """Return the text of a LightGBM model, reduced to its trees and what they need."""
    head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    said, groups = _lines(head), record.groups
    require(int(said["num_tree_per_iteration"]) == int(said["num_class"]) == groups, "trees for other classes")
    require(int(said["max_feature_idx"]) == record.features - 1, "a model of another number of features")
    names, ranges = said["feature_names"].split(" "), said["feature_infos"].split(" ")
    require(len(names) == len(ranges) == record.features and all(names), "names of another number of features")
    require(all(RANGE.fullmatch(found) is not None for found in ranges), "a feature without a range")
    objectives = ("binary sigmoid:N", f"multiclass num_class:{groups}", f"multiclassova num_class:{groups} sigmoid:N")
    patterns = [objective.replace("N", NUMBER.pattern) for objective in objectives]
    require(any(re.fullmatch(pattern, said["objective"]) for pattern in patterns), "an objective of no known kind")
    require(bool(trees) and len(trees) % groups == 0, "another number of trees than classes")
    lines = ["tree", "version=v4", *(f"{name}={groups}" for name in ("num_class", "num_tree_per_iteration"))]
    lines += ["label_index=0", f"max_feature_idx={record.features - 1}", f"objective={said['objective']}"]
    lines += ["average_output"] * ("average_output" in said)
    lines += [f"feature_names={said['feature_names']}", f"feature_infos={said['feature_infos']}", ""]
    for place, tree in enumerate(trees):
        lines += [f"Tree={place}", *_lightgbm_tree(_lines(tree), record.features), "", ""]
    categories = json.loads(text.rpartition("\npandas_categorical:")[2] or "null")
    return "\n".join([*lines, "end of trees", "", f"pandas_categorical:{json.dumps(categories)}", ""])


def _lines(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def _lightgbm_tree(said: Mapping[str, str], features: int) -> list[str]:
    leaves, sets = int(said["num_leaves"]), int(said["num_cat"])
    require(leaves > 0 and sets >= 0 and said.get("is_linear", "0") == "0", "a tree of no known kind")
    splits = ("left_child", "right_child", "split_feature", "decision_type")
    left, right, feature, kind = (whole(said.get(name, "").split(), leaves - 1) for name in splits)
    threshold = finite(said.get("threshold", "").split(), leaves - 1)
    finite(said["leaf_value"].split(), leaves)
    children = np.concatenate([left, right])
    within(children, -leaves, leaves - 1, "a child out of range")
    check_unique(children)
    within(feature, 0, features, "a split by a feature out of range")
    within(kind, 0, 12, "a split of no known kind")  # 1: by category, 2: missing to the left, 4 and 8: what is missing
    by_category = threshold[kind % 2 == 1]
    require(np.array_equal(by_category, np.floor(by_category)), "a split by a category set it lacks")
    within(by_category, 0, sets, "a split by a category set it lacks")
    names = ["num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child", "right_child"]
    if sets:
        bounds = whole(said["cat_boundaries"].split(), sets + 1)
        require(bounds[0] == 0 and bool(np.all(np.diff(bounds) > 0)), "category sets out of range")
        within(whole(said["cat_threshold"].split(), int(bounds[-1])), 0, 2**32, "categories out of range")
        names += ["cat_boundaries", "cat_threshold"]
    for name, count in (("split_gain", leaves - 1), ("leaf_weight", leaves), ("leaf_count", leaves)):
        if name in said:  # for the importance of features
            (whole if name == "leaf_count" else finite)(said[name].split(), count)
            names.append(name)
    return [*(f"{name}={said.get(name, '')}" for name in (*names, "leaf_value")), "is_linear=0", "shrinkage=1"]


def clean_xgboost(model: Any, record: BoosterRecord) -> dict[str, Any]:
    """Return the JSON of an XGBoost model, reduced to its trees and what they need."""
    learner, groups, features = model["learner"], record.groups, record.features
    said, trees = learner["learner_model_param"], learner["gradient_booster"]["model"]["trees"]
    found = learner["gradient_booster"]["model"]
    require(learner["gradient_booster"]["name"] == "gbtree", "a model of another kind than trees")
    require(not found.get("cats", {}).get("enc"), "categories by name")
    require(int(said["num_feature"]) == features, "a model of another number of features")
    require(max(int(said["num_class"]), 1) == groups and int(said.get("num_target", 1)) == 1, "trees for other classes")
    owners = whole(found["tree_info"], len(trees))
    within(owners, 0, groups, "trees for other classes")
    parallel = int(found["gbtree_model_param"]["num_parallel_tree"])
    require(parallel > 0 and bool(trees) and len(trees) % (groups * parallel) == 0, "another number of trees")
    rounds = len(trees) // (groups * parallel)
    names, types = (learner.get(name, []) for name in ("feature_names", "feature_types"))
    require(len(names) in (0, features) and all(type(name) is str for name in names), "another number of names")
    require(len(types) in (0, features) and set(types) <= {"c", "float", "i", "int", "q"}, "features of no known type")
    version = whole(model["version"], 3)
    within(version, 0, 100, "a version of no known kind")
    return {
        "learner": {
            "attributes": _xgboost_attributes(learner["attributes"], rounds),
            "feature_names": names,
            "feature_types": types,
            "gradient_booster": {
                "model": {
                    **({"cats": {"enc": [], "feature_segments": [], "sorted_idx": []}} if "cats" in found else {}),
                    "gbtree_model_param": {"num_parallel_tree": str(parallel), "num_trees": str(len(trees))},
                    "iteration_indptr": list(range(0, len(trees) + 1, groups * parallel)),
                    "tree_info": owners.tolist(),
                    "trees": [_xgboost_tree(place, tree, features) for place, tree in enumerate(trees)],
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": _xgboost_start(said["base_score"], groups),
                "boost_from_average": "1",
                "num_class": str(groups if groups > 1 else 0),
                "num_feature": str(features),
                "num_target": "1",
            },
            "objective": _xgboost_objective(learner["objective"], groups),
        },
        "version": version.tolist(),
    }


def _xgboost_attributes(said: Mapping[str, str], rounds: int) -> dict[str, str]:
    if "best_iteration" not in said:
        return {}
    best = int(said["best_iteration"])
    require(0 <= best < rounds, "a best iteration it lacks")
    return {"best_iteration": str(best), "best_score": str(float(said.get("best_score", "nan")))}


def _xgboost_start(said: str, groups: int) -> str:
    numbers = said.removeprefix("[").removesuffix("]").split(",")
    values = finite(numbers, len(numbers))
    require(len(numbers) in (1, groups), "a base score for other classes")
    require(groups > 1 or bool(0 < values[0] < 1), "a base score that is not a probability")
    return f"[{','.join(numbers)}]" if said.startswith("[") else numbers[0]


def _xgboost_objective(said: Mapping[str, Any], groups: int) -> dict[str, Any]:
    known = ("multi:softprob", "multi:softmax") if groups > 1 else ("binary:logistic",)
    require(said["name"] in known, "an objective of no known kind")
    if groups > 1:
        return {"name": said["name"], "softmax_multiclass_param": {"num_class": str(groups)}}
    weight = finite([said["reg_loss_param"]["scale_pos_weight"]], 1)[0]
    return {"name": said["name"], "reg_loss_param": {"scale_pos_weight": repr(float(weight))}}


def _xgboost_tree(place: int, tree: Any, features: int) -> dict[str, Any]:
    count = int(tree["tree_param"]["num_nodes"])
    require(0 < count == len(tree["left_children"]), "a tree of another size")
    links = {name: whole(tree[name], count) for name in ("left_children", "right_children")}
    left, right = links.values()
    leaf = left == -1
    require(bool(np.all((right == -1) == leaf)), "a node with one child")
    children = np.concatenate([left[~leaf], right[~leaf]])
    within(children, 1, count, "a child out of range")
    check_unique(children)
    keep = _reached(left, right)
    new = np.full(count + 1, -1)  # the last entry is the child of a leaf
    new[keep] = np.arange(len(keep))
    parents = np.full(count, 2**31 - 1)
    for side in (left, right):
        parents[side[~leaf]] = new[:-1][~leaf]
    values = {name: finite(tree[name], count)[keep] for name in ("base_weights", "split_conditions", "sum_hessian")}
    flags = {name: whole(tree[name], count)[keep] for name in ("default_left", "split_indices", "split_type")}
    within(flags["split_indices"], 0, features, "a split by a feature out of range")
    within(np.concatenate([flags["default_left"], flags["split_type"]]), 0, 2, "a split of no known kind")
    found = {**values, "loss_changes": finite(tree["loss_changes"], count)[keep], **flags, "parents": parents[keep]}
    found |= {name: new[side[keep]] for name, side in links.items()} | _xgboost_categories(tree, flags, new)
    sizes = {"num_deleted": "0", "num_feature": str(features), "num_nodes": str(len(keep)), "size_leaf_vector": "1"}
    return {name: array.tolist() for name, array in found.items()} | {"id": place, "tree_param": sizes}


def _xgboost_categories(tree: Any, flags: Mapping[str, Numbers], new: Numbers) -> dict[str, Numbers]:
    nodes = whole(tree["categories_nodes"], len(tree["categories_nodes"]))
    starts, sizes = (whole(tree[f"categories_{name}"], len(nodes)) for name in ("segments", "sizes"))
    categories = whole(tree["categories"], len(tree["categories"]))
    within(nodes, 0, len(new) - 1, "categories of a node it lacks")
    require(np.array_equal(new[nodes], np.flatnonzero(flags["split_type"])), "another number of category sets")
    require(np.array_equal(starts, np.cumsum(sizes) - sizes) and bool(np.all(sizes > 0)), "category sets out of range")
    require(int(sizes.sum()) == len(categories), "category sets out of range")
    within(categories, 0, LARGEST_CATEGORY, "categories out of range")
    named = {"nodes": new[nodes], "segments": starts, "sizes": sizes}
    return {"categories": categories} | {f"categories_{name}": array for name, array in named.items()}


def _reached(left: Numbers, right: Numbers) -> list[int]:
    """Return the nodes below the root, in order: pruning leaves unused ones behind."""
    found = [0]
    for node in found:
        if left[node] != -1:
            found += [int(left[node]), int(right[node])]
    return sorted(found)


def clean_catboost(model: Any, leaves: Numbers, record: BoosterRecord) -> dict[str, Any]:
    """Return the JSON of a CatBoost model of symmetric trees over numbers, reduced to what its predictions need."""
    columns, groups = model["features_info"]["float_features"], record.groups
    require(len(columns) == record.features, "a model of another number of features")
    features = [_catboost_feature(place, column) for place, column in enumerate(columns)]
    first = np.cumsum([0, *(len(column["borders"]) for column in features)])
    trees = [_catboost_tree(tree, features, first, groups) for tree in model["oblivious_trees"]]
    require(bool(trees) and leaves.size == sum(len(tree["leaf_values"]) for tree in trees), "lost leaves")
    scale, bias = model["scale_and_bias"]
    loss, labels = model["model_info"]["params"]["loss_function"]["type"], model["model_info"]["class_params"]
    known = ("Logloss", "CrossEntropy") if groups == 1 else ("MultiClass", "MultiClassOneVsAll")
    require(loss in known and labels["class_names"] == record.classes, "a model of other classes")
    require(labels["class_label_type"] in ("Integer", "Float", "String", "Boolean"), "labels of no known type")
    about = {
        "class_label_type": labels["class_label_type"],
        "class_names": record.classes,
        "class_to_label": list(range(len(record.classes))),
        "classes_count": 0,
    }
    parameters = {"flat_params": {"loss_function": loss}, "loss_function": {"params": {}, "type": loss}}
    return {
        "features_info": {"float_features": features},
        "model_info": {"class_params": about, "params": parameters},
        "oblivious_trees": trees,
        "scale_and_bias": [float(finite([scale], 1)[0]), finite(bias, groups).tolist()],
    }


def _catboost_feature(place: int, said: Mapping[str, Any]) -> dict[str, Any]:
    borders = finite(said["borders"] or [], len(said["borders"] or []))
    require(bool(np.all(np.diff(borders) > 0)), "borders out of order")
    treatment = said["nan_value_treatment"]
    require((said["feature_index"], said["flat_feature_index"]) == (place, place), "features out of order")
    require(treatment in ("AsIs", "AsFalse", "AsTrue") and type(said["has_nans"]) is bool, "a feature of no known kind")
    return {
        "borders": borders.tolist(),
        "feature_id": str(said["feature_id"]),
        "feature_index": place,
        "flat_feature_index": place,
        "has_nans": said["has_nans"],
        "nan_value_treatment": treatment,
    }


def _catboost_tree(tree: Any, features: Sequence[Any], first: Numbers, groups: int) -> dict[str, Any]:
    splits, found = tree["splits"] or [], []
    require(len(splits) <= DEEPEST, "a tree that is too deep")
    for split in splits:
        place, border = split["float_feature_index"], split["border"]
        require(type(place) is int and 0 <= place < len(features), "a split by a feature out of range")
        own = features[place]["borders"]
        require(split["split_type"] == "FloatFeature" and border in own, "a split by a border it lacks")
        index = int(first[place]) + own.index(border)
        found.append(
            {"border": border, "float_feature_index": place, "split_index": index, "split_type": "FloatFeature"}
        )
    values = finite(tree["leaf_values"], groups * 2 ** len(splits))
    weights = finite(tree["leaf_weights"], 2 ** len(splits))
    return {"leaf_values": values.tolist(), "leaf_weights": weights.tolist(), "splits": found}
