"""The JSON of an XGBoost model, rewritten from checked values."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.estimators.booster_text import BoosterRecord, Numbers, check_unique, finite, whole, within
from equipoise.estimators.tree_arrays import require

LARGEST_CATEGORY = 2**16
"""Most categories: XGBoost keeps a bit for each up to the largest."""


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
