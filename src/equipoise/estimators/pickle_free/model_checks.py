"""Consistency checks of a loaded scikit-learn model before it may predict."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError
from equipoise.estimators.pickle_free.object_graph import walk
from equipoise.estimators.pickle_free.trusted_types import trusted_types, type_name
from equipoise.options import is_whole

COEFFICIENTS = ("coef_", "intercept_", "coefs_", "intercepts_")


def check_model(model: Any, *, where: object) -> None:
    """Check every estimator inside a model; an error names the inconsistent one."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import BaseDecisionTree

    checks = {
        BaseDecisionTree: _tree,
        BaseForest: _forest,
        BaseGradientBoosting: _gradient_boosting,
        BaseHistGradientBoosting: _hist_gradient_boosting,
        OneHotEncoder: _one_hot,
    }
    for found in walk(model):
        fault = _fault(found)
        for kind, check in checks.items():
            if fault is None and isinstance(found, kind):
                fault = check(found)
        if fault is not None:
            raise InvalidInputError(f"{where} holds a {type(found).__name__} that {fault}; fit and save it again.")


def _fault(found: Any) -> str | None:
    """Return what is wrong with an estimator: attributes that replace methods, or coefficients that are not finite."""
    kind, attributes = type(found), getattr(found, "__dict__", {})
    if type_name(kind) not in trusted_types():
        return None
    for name in attributes:
        if callable(getattr(kind, name, None)):
            return f"replaces its method {name!r}" if str(name).isidentifier() else "replaces a method"
    arrays = [array for name in COEFFICIENTS for array in _arrays(attributes.get(name))]
    if not all(array.dtype.kind in "fiu" and np.isfinite(array).all() for array in arrays):
        return "has coefficients that are NaN or infinite"
    return None


def _arrays(value: Any) -> list[Any]:
    if value is None:
        return []
    return [np.asarray(item) for item in value] if isinstance(value, list | tuple) else [np.asarray(value)]


def _tree(found: Any) -> str | None:
    from sklearn.tree._tree import Tree

    if "tree_" not in vars(found):
        return None  # an unfitted template
    tree = found.tree_
    if type(tree) is not Tree or _features(found) != tree.n_features or found.n_outputs_ != tree.n_outputs:
        return "does not fit its tree"
    if hasattr(found, "classes_"):
        classes = [found.classes_] if tree.n_outputs == 1 else found.classes_
        counts = [len(labels) for labels in classes]
        if counts != tree.n_classes.tolist() or np.ravel(found.n_classes_).tolist() != counts:
            return "has other classes than its tree"
    return None


def _forest(found: Any) -> str | None:
    from sklearn.tree import BaseDecisionTree

    if "estimators_" not in vars(found):
        return None
    trees = found.estimators_
    if not isinstance(trees, list) or not trees or not all(isinstance(tree, BaseDecisionTree) for tree in trees):
        return "holds something else than trees"
    if any("tree_" not in vars(tree) or tree.tree_.n_features != _features(found) for tree in trees):
        return "has trees of another number of features"
    wanted = _class_counts(found)
    return None if all(_class_counts(tree) == wanted for tree in trees) else "has trees of other classes"


def _class_counts(found: Any) -> Any:
    return np.ravel(getattr(found, "n_classes_", 1)).tolist()


def _gradient_boosting(found: Any) -> str | None:
    if "estimators_" not in vars(found):
        return None
    from sklearn.tree import DecisionTreeRegressor

    trees, features = found.estimators_, _features(found)
    if not isinstance(trees, np.ndarray) or trees.ndim != 2 or trees.size == 0 or features is None:
        return "has no table of trees"
    for tree in trees.ravel():
        if type(tree) is not DecisionTreeRegressor or "tree_" not in vars(tree):
            return "holds something else than regression trees"
        if tree.tree_.n_features != features or tree.tree_.max_n_classes != 1 or tree.tree_.n_outputs != 1:
            return "has trees of another shape"
    start = found._raw_predict_init(np.zeros((1, features), np.float32))
    return None if start.shape == (1, trees.shape[1]) else "has trees for other classes"


def _hist_gradient_boosting(found: Any) -> str | None:
    if "_predictors" not in vars(found):
        return None
    features, is_category = found._n_features, np.asarray(found._bin_mapper.is_categorical_)
    if not is_whole(features) or is_category.shape != (features,):
        return "does not say how many features it has"
    if is_category.dtype.kind not in "bu" or is_category.max() > 1:
        return "does not say which features are categories"
    classes = len(getattr(found, "classes_", ()))
    rounds, wanted = found._predictors, classes if classes > 2 else 1
    if found.n_trees_per_iteration_ != wanted or not all(
        type(trees) is list and len(trees) == wanted for trees in rounds
    ):
        return "has another number of trees than classes"
    return next(filter(None, (_predictor(tree, is_category) for trees in rounds for tree in trees)), None)


def _predictor(tree: Any, is_category: NDArray[Any]) -> str | None:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if type(tree) is not TreePredictor:
        return "holds something else than trees"
    inner = tree.nodes[tree.nodes["is_leaf"] == 0]
    if np.any(inner["feature_idx"] >= len(is_category)):
        return "splits by a feature out of range"
    by_category = inner["feature_idx"][inner["is_categorical"] == 1]
    return None if is_category[by_category].all() else "splits numbers as if they were categories"


def _one_hot(found: Any) -> str | None:
    """Return what is wrong with column indices outside the output, where SciPy would write."""
    if "categories_" not in vars(found):
        return None
    widths = found._compute_n_features_outs()
    if widths != found._n_features_outs:
        return "has another number of columns than categories"
    for place, width in enumerate(widths):
        drops = found._drop_idx_after_grouping
        dropped = None if drops is None else drops[place]
        mapping = getattr(found, "_default_to_infrequent_mappings", [None] * len(widths))[place]
        most = width + (dropped is not None)
        if dropped is not None and not 0 <= dropped < most:
            return "drops a category that it lacks"
        if mapping is not None and not np.all((mapping >= 0) & (mapping < most)):
            return "has rare categories out of range"
    return None


def _features(found: Any) -> int | None:
    features = getattr(found, "n_features_in_", None)
    return int(features) if features is not None and is_whole(features) and features > 0 else None
