"""The scikit-learn estimator over any other classifiers: ``BalancedClassifier().fit(X, y)``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from equipoise.calibration.scaling import SMALLEST_SHARE
from equipoise.data.encoded_rows import log_odds_columns, plain_rows
from equipoise.data.encoder import TableEncoder
from equipoise.data.labels import class_counts, column_or_matrix, encode_labels, plain_labels
from equipoise.decisions import DecisionRule
from equipoise.errors import InvalidInputError
from equipoise.estimators.blend_files import load_blend, save_blend, unfitted
from equipoise.estimators.blending import Blend
from equipoise.estimators.calibrated_classifier import CalibratedClassifier, Prior, check_rule, relative_weights_of
from equipoise.estimators.cross_fitted import CrossFittedMembers, deal_folds
from equipoise.estimators.failed_fits import all_or_nothing
from equipoise.estimators.families import as_estimators
from equipoise.estimators.given_probabilities import GivenProbabilities, given_probabilities
from equipoise.estimators.input_rows import blend_rows, blend_samples, checked_table
from equipoise.estimators.member_outputs import check_frozen, take
from equipoise.estimators.model_card import write_model_card
from equipoise.estimators.saved_model import restore_common

Array = NDArray[Any]


class BalancedClassifier(CalibratedClassifier):
    """Cross-fit one or more classifiers, blend them, calibrate the probabilities and make balanced decisions.

    Each classifier is fitted once per fold, on the rows outside it; a new row gets the mean prediction of these
    *members*. Everything else is fitted on out-of-fold predictions: the correction for class weights or resampling,
    the weights of the blend, class uncertainty and margins, the calibration and the prediction sets.

    Args:
        estimator: ``"auto"`` blends a network, a random forest, extra trees and, up to 30 classes, gradient boosting;
            where a column is free text, also its log-odds alone. Or one of ``"network"``, ``"forest"``,
            ``"extra_trees"``, ``"boosting"``; any scikit-learn classifier or pipeline with ``predict_proba``; a list of
            these. For a model that is already trained, pass ``FrozenEstimator(model)``, and to ``fit`` rows that it
            was not trained on.
        members: number of folds, and so of fits per classifier. A member is fitted to at most 100,000 rows (the
            default's forests: 10,000); beyond that, common classes are subsampled before rare ones.
        cv: a scikit-learn splitter, an iterable of splits or a number of folds; None uses ``members`` stratified folds.
        decision: the decision rule of ``predict``, one of :mod:`equipoise.decisions`; None is ``Balanced()``.
        probabilities: the class prior of ``predict_proba``. ``"natural"``: that of the training rows. ``"balanced"``:
            all classes equally common, so that ``predict`` is the argmax of ``predict_proba``, as soft voting and
            stacking assume.
        encoder: a ``TableEncoder`` with your own column kinds or text encoder; a copy of it is fitted to frames with
            columns that are not numbers. None uses the defaults.
        n_jobs: number of members fitted in parallel; None is 1 and -1 all cores, as in scikit-learn.
        verbose: 1 prints a line for each classifier fitted.
        random_state: seed or ``RandomState``; the same seed gives the same model.

    Attributes:
        classes_: the labels, or 0 to K - 1 for K attributes.
        class_uncertainty_, margins_: uncertainty and margin of each class, from out-of-fold predictions, (classes,) or
            (attributes, 2).
        weights_: weight of each classifier in the blend, (classifiers,), summing to 1.
        members_: the fitted members of each classifier, a list of lists; a ``FrozenEstimator`` is its own only member.
        out_of_fold_: calibrated probabilities of the training rows by members not fitted to them, (rows, classes) or
            (rows, attributes, 2); NaN for rows of weight 0, rows left out of very large tables, and rows of a class
            that the other folds lack.
        decision_: the rule with its thresholds, chosen on out-of-fold predictions, and its expected results.
        calibrated_: the calibration, from the blend's logits to probabilities and prediction sets.
        encoder_: the fitted ``TableEncoder`` for text, dates and missing values; None if X is used as it is.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = BalancedClassifier("forest", members=3, random_state=0).fit(X, y)
    >>> clf.predict(X[:3]), clf.predict_proba(X[:3]).shape
    (array([0, 0, 0]), (3, 2))
    """

    def __init__(
        self,
        estimator: Any = "auto",
        *,
        members: int = 5,
        cv: Any = None,
        decision: DecisionRule | None = None,
        probabilities: Literal["natural", "balanced"] = "natural",
        encoder: TableEncoder | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.members = members
        self.cv = cv
        self.decision = decision
        self.probabilities = probabilities
        self.encoder = encoder
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    def from_predictions(
        cls,
        probabilities: ArrayLike,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> BalancedClassifier:
        """Correct and calibrate the predictions of an external model, given for rows that it was not trained on.

        Args:
            probabilities: (rows, classes); for two classes, those of the second, (rows,), are enough. With several
                labels, the probability of each being 1, (rows, labels).
            y: true labels, (rows,), or a 0/1 matrix, (rows, labels).
            classes: the labels in the order of the columns, (classes,); None is the sorted labels of ``y``, or its
                columns.
            random_state: seed, as for the class.

        Returns:
            A classifier that takes such probabilities as X: ``clf.predict(new_probabilities)``.

        >>> p = np.array([0.02, 0.05, 0.1, 0.3] * 5)
        >>> BalancedClassifier.from_predictions(p, [0, 0, 0, 1] * 5).predict([0.04, 0.25])
        array([0, 1])
        """
        truth = column_or_matrix(np.asarray(plain_labels(y)))
        if truth.ndim == 1:
            named = np.unique(truth) if classes is None else np.asarray(classes)
        else:
            named = np.asarray(getattr(y, "columns", np.arange(truth.shape[1])) if classes is None else classes)
        model = GivenProbabilities(named, several=truth.ndim > 1)
        return cls(FrozenEstimator(model), random_state=random_state).fit(model.columns(probabilities), y)

    @all_or_nothing
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> BalancedClassifier:
        """Fit the members, the blend, the calibration and the decision rule.

        Args:
            X: an array of numbers or a data frame with columns of any kind, (rows, columns).
            y: labels, (rows,), or a 0/1 matrix, (rows, attributes).
            sample_weight: (rows,); a row of weight 2 counts as two rows. Only ratios matter; rows of weight 0 are left
                out. Every classifier must support weights.
            groups: group of each row, such as a patient or a customer, (rows,); no group is on both sides of a fold.
        """
        self._check_probabilities()
        if self.decision is not None:
            check_rule(self.decision)
        x, labels = blend_samples(self, X, y, groups)
        weight = relative_weights_of(sample_weight, x)
        counted = np.arange(len(labels)) if weight is None else weight.nonzero().squeeze(-1).numpy()
        classes, target = encode_labels(labels[counted])
        labels = labels.ravel() if target.ndim == 1 else labels
        seed = int(check_random_state(self.random_state).randint(2**30))
        votes, x = (log_odds_columns(X) or log_odds_columns(x)) if target.ndim == 1 else (), plain_rows(x)
        chosen = as_estimators(self.estimator, len(counted), len(classes) if target.ndim == 1 else 2, votes)
        frozen = check_frozen([each for each, _ in chosen], x, classes, target)
        folds = [(counted, counted)]
        if not frozen:
            folds = deal_folds(x, labels, counted, cv=self.cv, members=self.members, groups=groups, seed=seed)
        place = np.full(len(labels), -1)
        place[counted] = np.arange(len(counted))
        folds = [(place[fit], place[predicted]) for fit, predicted in folds]  # among the rows that count
        x, weight = (x, weight) if len(counted) == len(labels) else (take(x, counted), weight[counted])  # type: ignore[index]
        how: dict[str, Any] = {"seed": seed, "n_jobs": self.n_jobs, "verbose": self.verbose}
        self._fitted = CrossFittedMembers.fit(chosen, x, target, folds, weight, classes=classes, **how)
        self.classes_, self.members_ = classes, self._fitted.members
        rows, outputs, own = self._fitted.out_of_fold(x, target, weight, folds, seed)
        self.blend_ = Blend.fit(outputs, target[rows], own, counts=class_counts(target, outputs.shape[-1], weight))
        logits = self.blend_.logits(outputs)
        start = self.blend_.calibrated(target, weight)
        self.calibrated_ = start.fit_on(logits, target[rows], sample_weight=own)
        self.out_of_fold_ = np.full((len(labels), *logits.shape[1:]), np.nan)
        self.out_of_fold_[counted[rows]] = self.calibrated_.probabilities(logits).numpy()

        def by_all(kept: NDArray[np.intp]) -> Tensor:
            return self.blend_.logits(self._fitted.means_as_if_unseen(x, target, rows[kept], folds))

        self._decide_by(logits, target[rows], own, answered=None if frozen else by_all)
        names = [type(each).__name__ for each, _ in chosen]
        self.history_ = {"chosen": {"seed": seed, "rows": len(counted), "classifiers": names}}
        return self

    def uncertainty(
        self, X: Any, *, target_prior: Prior | None = None, kind: Literal["total", "epistemic"] = "total"
    ) -> Array:
        """Return the uncertainty of each prediction, (rows,), summed over the attributes if there are several.

        Args:
            X: as for :meth:`predict`, (rows, columns).
            target_prior: the class prior where the model is used, as for :meth:`predict`.
            kind: ``"total"`` is the variance of the predicted label, Σ_c p_c(1 − p_c), of the probabilities p that
                decide it. ``"epistemic"`` is the part of it due to disagreement between members, the trace of their
                covariance, which more data would reduce; it is 0 for a single trained model.
        """
        if kind not in ("total", "epistemic"):
            raise InvalidInputError(f"kind must be 'total' or 'epistemic', got {kind!r}.")
        x, prior = self._rows(X), self._decision_prior(target_prior)
        if kind == "total":
            return np.asarray(self._unresolved(self._logits(x), prior).numpy())
        each = self._fitted.outputs(x)  # (models, members, rows, ...)
        together = self._unresolved(self.blend_.logits(each.mean(1)), prior)
        share = (self.blend_.weights / each.shape[1]).repeat_interleave(each.shape[1])
        apart = [self.blend_.comparable(each[:, member]) for member in range(each.shape[1])]
        logits = torch.stack(apart, 1).flatten(0, 1).clamp_min(SMALLEST_SHARE).log() + self.blend_.margins
        p = self.calibrated_.decision(logits, prior).softmax(-1)
        mean = torch.einsum("m,m...->...", share, p)
        found = torch.einsum("m,m...->...", share, (p - mean).square())
        return np.asarray(found.flatten(1).sum(-1).minimum(together).numpy())

    def save(self, folder: str | Path) -> None:
        """Save the fitted model to a ``folder`` without pickle, so that loading it cannot run code.

        The files are ``model.json``, ``model.safetensors``, one per member, and a model card. Only classifiers of
        scikit-learn, imbalanced-learn, LightGBM, XGBoost and CatBoost can be saved.
        """
        check_is_fitted(self)
        save_blend(Path(folder), self)
        write_model_card(Path(folder), self)

    @classmethod
    def load(cls, folder: str | Path) -> BalancedClassifier:
        """Load a model saved by :meth:`save` from its ``folder``."""
        saved = load_blend(Path(folder))
        record, members = saved.record, saved.fitted.members
        names = ("members", "probabilities", "random_state")
        given = {name: record.parameters[name] for name in names if name in record.parameters}
        found = cls(record.parameters.get("estimator") or unfitted(members), **given)  # type: ignore[arg-type]
        restore_common(found, record, saved.fitted.classes)
        found._as_they_are = record.rows_as_they_are
        found._fitted, found.members_ = saved.fitted, members
        found.blend_, found.calibrated_ = saved.blend, saved.calibrated
        found._decide_as(saved.decision, saved.evidence)
        return found

    @property
    def class_uncertainty_(self) -> Array:
        check_is_fitted(self)
        return self.blend_.uncertainty.numpy().copy()

    @property
    def margins_(self) -> Array:
        check_is_fitted(self)
        return self.blend_.margins.numpy().copy()

    @property
    def weights_(self) -> Array:
        check_is_fitted(self)
        return self.blend_.weights.numpy().copy()

    @property
    def _multilabel(self) -> bool:
        return self._fitted.several

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        given = given_probabilities(self.estimator)
        return blend_rows(self, checked_table(X) if given is None else given.columns(X))

    def _unresolved(self, logits: Tensor, prior: ArrayLike | None) -> Tensor:
        """Return the variance of the label that is decided, Σ p(1 − p), (rows,)."""
        p = self.calibrated_.decision(logits, prior).softmax(-1)
        return (p * (1 - p)).flatten(1).sum(-1)

    def _logits(self, x: Any) -> Tensor:
        return self.blend_.logits(self._fitted.outputs(x).mean(1))
