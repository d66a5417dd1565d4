"""Classifiers for tables: forests, boosting, logistic regression and support vectors, plain, balanced or shifted."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Literal

import numpy as np
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from equipoise.app.compare.method import Hyperparameters, Method, Remedy, grid_of
from equipoise.app.compare.networks import FitOptions
from equipoise.data.labels import class_indices
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.wording import EQUIPOISE

Form = Literal["plain", "balanced", "prior_shift"]
FORMS: dict[Form, tuple[str, Remedy]] = {
    "plain": ("", "none"),
    "balanced": (", balanced", "training"),
    "prior_shift": (", prior shift", "threshold"),
}
"""Form -> suffix of the model's label, and the kind of remedy."""
Make = Callable[..., Any]
"""(seed, balanced, hyperparameters as keywords) -> an estimator."""


class PriorShift(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""A classifier with a shifted decision: each probability is first divided by its class's training share.

    .. math:: \hat y = \arg\max_c \, p_c / \pi_c

    With two classes this is a threshold at the rare class's share instead of ½. The probabilities stay those of the
    classifier. Several labels, 0/1 of shape (samples, attributes), are shifted each on its own where the classifier
    takes them.

    Args:
        estimator: a classifier with ``predict_proba``; a copy of it is fitted.
        X: rows, (samples, columns).
        y: labels, (samples,), or 0/1 of shape (samples, attributes).

    >>> x, y = np.array([[0.0]] * 8 + [[1.0]] * 4), np.repeat(["no", "yes", "no"], [8, 1, 3])
    >>> shifted = PriorShift(LogisticRegression()).fit(x, y)
    >>> shifted.predict([[0.0], [1.0]]).tolist(), shifted.estimator_.predict([[1.0]]).tolist()
    (['no', 'yes'], ['no'])
    >>> shifted.predict_proba([[1.0]]).round(1).tolist()
    [[0.9, 0.1]]
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> "PriorShift":
        """Fit the classifier, and count the classes."""
        labels = np.asarray(y)
        self.estimator_ = clone(self.estimator).fit(X, labels)
        columns = labels[:, None] if labels.ndim == 1 else labels
        found = [np.unique(column, return_counts=True) for column in columns.T]
        classes, prior = [names for names, _ in found], [counts / len(labels) for _, counts in found]
        self.classes_: Any = classes[0] if labels.ndim == 1 else classes
        self.prior_: Any = prior[0] if labels.ndim == 1 else prior
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the classifier's probabilities; with several labels, a list of matrices, one per attribute."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest probability relative to its share."""
        found = self.predict_proba(X)
        if not isinstance(found, list):
            return np.asarray(self.classes_[(found / self.prior_).argmax(1)])
        each = zip(self.classes_, found, self.prior_, strict=True)
        return np.stack([names[(shares / prior).argmax(1)] for names, shares, prior in each], axis=1)


class CodedLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that takes the labels 0, 1, … only, for labels of any kind.

    Args:
        estimator: the classifier; copies of it are fitted.
        balanced: weigh samples inversely to their class's share, for classifiers without ``class_weight``.
    """

    def __init__(self, estimator: Any, *, balanced: bool = False) -> None:
        self.estimator, self.balanced = estimator, balanced

    def fit(self, X: Any, y: Any) -> "CodedLabels":
        """Fit the classifier to the labels' indices in ``classes_``."""
        self.classes_, codes = class_indices(np.asarray(y))
        weight = compute_sample_weight("balanced", codes) if self.balanced else None
        self.estimator_ = clone(self.estimator).fit(X, codes, sample_weight=weight)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, (samples, classes)."""
        check_is_fitted(self)
        found = np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)
        shares: NDArray[np.float64] = found / found.sum(1, keepdims=True)  # in float32 they add up to 1 only roughly
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


def flat_columns(x: Any) -> NDArray[Any]:
    """Return samples of any shape, including images on disk, as one row of columns each."""
    return np.asarray(x).reshape(len(x), -1)


def table_classifier(
    make: Make,
    form: Form,
    seed: int,
    hyperparameters: Hyperparameters,
    options: FitOptions,  # noqa: ARG001
) -> Any:
    """Build a classifier of ``TABLE_MODELS`` with its library's defaults, on columns or on an image's pixels.

    Columns are standardised for all, so that forests, which round to 32 bits, tell dates apart.
    """
    made = make(seed, form == "balanced", **hyperparameters)
    return _on_columns(PriorShift(made) if form == "prior_shift" else made)


def table_method(name: str, form: Form = "plain") -> Method:
    """Return a classifier of ``TABLE_MODELS`` in one of its forms."""
    model, (added, remedy) = TABLE_MODELS[name], FORMS[form]
    kept = model.remedy if model.remedy == "training" else remedy
    return replace(model, label=f"{model.label}{added}", build=partial(model.build, form), remedy=kept)


def support_vectors(
    kernel: Literal["linear", "rbf"],
    seed: int,
    hyperparameters: Hyperparameters,
    options: FitOptions,  # noqa: ARG001
) -> Any:
    """Build a support vector machine whose errors cost inversely to the class's share, on standardised columns.

    The linear one is liblinear's in the primal, which is scikit-learn's own choice for more rows than columns: 20,000
    rows of 512 columns take 2 s with two and 19 s with ten classes, and the dual 42 s without settling.
    """
    if kernel == "linear":
        machine: Any = LinearSVC(class_weight="balanced", dual="auto", random_state=seed, **hyperparameters)
    else:
        machine = SVC(class_weight="balanced", cache_size=500, random_state=seed, **hyperparameters)
    return _on_columns(machine)


def _on_columns(classifier: Any) -> Any:
    return make_pipeline(FunctionTransformer(flat_columns), StandardScaler(), classifier)


def _weighted(classifier: Make, seed: int, balanced: bool, **hyperparameters: Any) -> Any:
    """Make a classifier that has ``class_weight``."""
    return classifier(class_weight="balanced" if balanced else None, random_state=seed, **hyperparameters)


def _remedy(classifier: Make, seed: int, balanced: bool, **hyperparameters: Any) -> Any:  # noqa: ARG001
    return classifier(random_state=seed, **hyperparameters)


def _boosted(
    package: str, classifier: str, fixed: Mapping[str, Any], seed: int, balanced: bool, **hyperparameters: Any
) -> CodedLabels:
    """Make another package's classifier, on one thread: ``compare`` runs several processes instead."""
    made = getattr(import_module(package), classifier)(random_state=seed, **fixed, **hyperparameters)
    return CodedLabels(made, balanced=balanced)


def _model(label: str, make: Make, grid: tuple[Hyperparameters, ...] = ({},), **more: Any) -> Method:
    """Describe a classifier whose ``build`` takes the form first.

    From 4,000 rows to 32,000, with 30 columns, the time of a fit was measured to grow with the power 1.4 of the rows
    for random forests, 1.1 for extra trees, 0.8 for balanced forests, and below 0.5 for all others, where fixed costs
    count; more is assumed, as they count less in larger tables.
    """
    usual: dict[str, Any] = {"remedy": "none", "model": label, "several_labels": False, "growth": 0.8}
    return Method(label, "table", partial(table_classifier, make), grid, **usual | more)


LEAVES, RATES = grid_of("min_samples_leaf", 2, 5, 10), grid_of("learning_rate", 0.02, 0.05, 0.2)
QUIET = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
TABLE_MODELS: dict[str, Method] = {
    "random_forest": _model(
        "random forest", partial(_weighted, RandomForestClassifier), LEAVES, several_labels=True, growth=1.4
    ),
    "extra_trees": _model(
        "extra trees", partial(_weighted, ExtraTreesClassifier), LEAVES, several_labels=True, growth=1.2
    ),
    "boosting": _model("gradient boosting", partial(_weighted, HistGradientBoostingClassifier), RATES),
    "logistic_regression": _model(
        "logistic regression",
        partial(_weighted, partial(LogisticRegression, max_iter=1000)),
        grid_of("C", 0.01, 0.1, 10.0),
    ),
    "blend": _model(f"{EQUIPOISE} blend", partial(_remedy, BalancedClassifier), several_labels=True, remedy="training"),
    "balanced_random_forest": _model(
        "balanced random forest", partial(_remedy, BalancedRandomForestClassifier), LEAVES, remedy="training"
    ),
    "easy_ensemble": _model("EasyEnsemble", partial(_remedy, EasyEnsembleClassifier), remedy="training"),
    "lightgbm": _model(
        "LightGBM",
        partial(_boosted, "lightgbm", "LGBMClassifier", {"verbose": -1, "n_jobs": 1}),
        RATES,
        package="lightgbm",
    ),
    "xgboost": _model(
        "XGBoost", partial(_boosted, "xgboost", "XGBClassifier", {"n_jobs": 1}), RATES, package="xgboost"
    ),
    "catboost": _model(
        "CatBoost", partial(_boosted, "catboost", "CatBoostClassifier", QUIET), RATES, package="catboost"
    ),
}
"""Every classifier for tables, with its library's defaults; packages are imported when one is built."""
