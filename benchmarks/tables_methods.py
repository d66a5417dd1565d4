"""What benchmarks/tables.py compares: classifiers with their defaults, on one thread, one line each in ``METHODS``.

pip install lightgbm xgboost catboost
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier

NEIGHBORS = 5
"""SMOTE's default."""


class Wrapper:
    """A classifier that is fitted or read in another way; each kind says how."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def predict_proba(self, x: Any) -> NDArray[Any]:
        """Return the classifier's own probabilities."""
        return np.asarray(self.estimator.predict_proba(x))

    def predict(self, x: Any) -> NDArray[Any]:
        """Return the classifier's own labels."""
        return np.asarray(self.estimator.predict(x))


class PriorShift(Wrapper):
    """Name the class whose probability is largest against its share of the training rows."""

    def fit(self, x: Any, y: NDArray[np.int64]) -> "PriorShift":
        """Fit the classifier, and keep the classes' shares."""
        self.estimator.fit(x, y)
        self.classes_, counts = np.unique(y, return_counts=True)
        self.prior_ = counts / len(y)
        return self

    def predict(self, x: Any) -> NDArray[Any]:
        """Return the most probable class if all classes were equally common."""
        return np.asarray(self.classes_[(self.predict_proba(x) / self.prior_).argmax(1)])


class Weighted(Wrapper):
    """Give each class the same total weight, for classifiers without class weights of their own."""

    def fit(self, x: Any, y: NDArray[np.int64]) -> "Weighted":
        """Fit with balanced sample weights."""
        self.estimator.fit(x, y, sample_weight=compute_sample_weight("balanced", y))
        return self


class NativeCategories(Wrapper):
    """CatBoost with text columns as categories of its own instead of one column for each value."""

    def fit(self, x: pd.DataFrame, y: NDArray[np.int64]) -> "NativeCategories":
        """Fit to a frame."""
        names = list(x.select_dtypes(exclude="number").columns)
        self.estimator.fit(x, y, cat_features=names)
        return self


class Oversampled(Wrapper):
    """SMOTE on standardised columns first; with fewer neighbours where a class has too few rows."""

    def fit(self, x: Any, y: NDArray[np.int64]) -> "Oversampled":
        """Fit; a class with a single row is doubled first, because it has no neighbour."""
        classes, counts = np.unique(y, return_counts=True)
        single, seed = {int(label): 2 for label in classes[counts == 1]}, self.estimator.random_state
        neighbors = max(1, min(NEIGHBORS, int(counts.min()) - 1))
        doubled = RandomOverSampler(sampling_strategy=single, random_state=seed)
        smote = SMOTE(k_neighbors=neighbors, random_state=seed)
        self.estimator = make_pipeline(StandardScaler(), doubled, smote, self.estimator).fit(x, y)
        return self


def catboost(seed: int, **options: Any) -> Any:
    """CatBoost's defaults."""
    from catboost import CatBoostClassifier

    return CatBoostClassifier(random_state=seed, thread_count=1, verbose=0, allow_writing_files=False, **options)


def lightgbm(seed: int, **options: Any) -> Any:
    """LightGBM's defaults."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1, **options)


def xgboost(seed: int) -> Any:
    """XGBoost's defaults."""
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=seed, n_jobs=1)


def logistic(seed: int) -> Any:
    """Logistic regression on standardised columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", random_state=seed))


class Method(NamedTuple):
    """A classifier by its name on the page.

    Args:
        label: on the page.
        build: takes a seed and gives an unfitted classifier.
        frame: fitted to the columns as published instead of the one-hot encoded matrix; where a table has no text
            column, the results of ``same_as`` stand for it.
        same_as: name of the method that equals this one on tables without text columns.
    """

    label: str
    build: Callable[[int], Any]
    frame: bool = False
    same_as: str | None = None


METHODS = {
    "equipoise": Method("Equipoise, the default blend", lambda seed: BalancedClassifier(random_state=seed)),
    "lightgbm_shift": Method("LightGBM, prior shift", lambda seed: PriorShift(lightgbm(seed))),
    "lightgbm_balanced": Method("LightGBM, balanced", lambda seed: lightgbm(seed, class_weight="balanced")),
    "xgboost_balanced": Method("XGBoost, balanced", lambda seed: Weighted(xgboost(seed))),
    "histogram_shift": Method(
        "HistGradientBoosting, prior shift", lambda seed: PriorShift(HistGradientBoostingClassifier(random_state=seed))
    ),
    "histogram_balanced": Method(
        "HistGradientBoosting, balanced",
        lambda seed: HistGradientBoostingClassifier(class_weight="balanced", random_state=seed),
    ),
    "forest_balanced": Method(
        "random forest, balanced",
        lambda seed: RandomForestClassifier(class_weight="balanced", random_state=seed, n_jobs=1),
    ),
    "forest_shift": Method(
        "random forest (300 trees, leaf 2), prior shift",
        lambda seed: PriorShift(RandomForestClassifier(300, min_samples_leaf=2, random_state=seed, n_jobs=1)),
    ),
    "balanced_forest": Method(
        "balanced random forest", lambda seed: BalancedRandomForestClassifier(random_state=seed, n_jobs=1)
    ),
    "easy_ensemble": Method("EasyEnsemble", lambda seed: EasyEnsembleClassifier(random_state=seed, n_jobs=1)),
    "smote_network": Method("SMOTE + MLP", lambda seed: Oversampled(MLPClassifier(random_state=seed))),
    "logistic_balanced": Method("logistic regression, balanced", logistic),
    "catboost_balanced": Method("CatBoost, balanced", lambda seed: catboost(seed, auto_class_weights="Balanced")),
    "catboost_shift": Method("CatBoost, prior shift", lambda seed: PriorShift(catboost(seed))),
    "catboost_native": Method(
        "CatBoost, balanced, native categories",
        lambda seed: NativeCategories(catboost(seed, auto_class_weights="Balanced")),
        frame=True,
        same_as="catboost_balanced",
    ),
    "network": Method("Equipoise, the network alone", lambda seed: UncertaintyBalancedClassifier(random_state=seed)),
    "network_logit_adjustment": Method(
        "Equipoise's network, logit adjustment",
        lambda seed: UncertaintyBalancedClassifier("logit_adjustment", random_state=seed),
    ),
}
"""By the names that ``--methods`` takes, in the order they run."""
