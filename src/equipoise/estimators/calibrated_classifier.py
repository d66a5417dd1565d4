"""The common interface of all estimators: calibrated probabilities, decisions and prediction sets from logits."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from equipoise.calibration import estimate_prior
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.conformal import unanswered
from equipoise.data.images import Images
from equipoise.data.labels import label_indices, plain_array
from equipoise.decisions import Balanced, Chosen, DecisionRule, Evidence, Situation
from equipoise.decisions.by_class import ByClass
from equipoise.decisions.situation import prior_of
from equipoise.errors import EquipoiseWarning, InvalidInputError, listed
from equipoise.estimators.failed_fits import all_or_nothing
from equipoise.estimators.hub import fetch_model, push_model
from equipoise.estimators.input_rows import checked_labels
from equipoise.options import check_choice
from equipoise.tensor_checks import new_tensor
from equipoise.training.batches import relative_weights

Array = NDArray[Any]
Prior = ArrayLike | Mapping[Any, float]
"""Class shares in the order of the classes, or by class."""
Self = TypeVar("Self", bound="CalibratedClassifier")


class CalibratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators: logits become probabilities at any class prior, decisions and prediction sets.

    A subclass defines how rows are checked, and the logits that its model gives them.
    """

    classes_: Array
    n_features_in_: int
    history_: dict[str, Any]
    calibrated_: Calibrated
    evidence_: Evidence | None
    decision_: Chosen
    probabilities: str
    decision: DecisionRule | None

    def predict(
        self,
        X: ArrayLike | Images,
        *,
        decision: DecisionRule | None = None,
        target_prior: Prior | None = None,
        abstain: float | None = None,
    ) -> Array:
        """Return the label of each row; for several labels, a 0/1 matrix.

        Without a rule, it is the most probable label at the class prior that the method aims at, by default a balanced
        one: a rare class is predicted if it would be the most probable one were all classes equally common. A network
        trained with plain cross-entropy aims at the training samples' prior.

        Args:
            X: (rows, columns) as for ``fit``, or images.
            decision: a rule of :mod:`equipoise.decisions` to use instead of the estimator's own.
            target_prior: the class prior where the model is used: shares in the order of ``classes_``, (classes,), or
                a dict of shares by class. The label is then the most probable one there, or the rule's answer there;
                it takes precedence over the rule's ``class_prior``.
            abstain: allowed error rate of each class, above 0 and below 1. Rows for which more than one class remains
                possible at that rate are masked in the result, a ``numpy.ma.MaskedArray``. None masks nothing.
        """
        logits, prior = self._logits(self._rows(X)), self._decision_prior(target_prior)
        rule = self.decision if decision is None else decision
        if rule is None:
            places = self.calibrated_.decided(logits, prior).numpy()
        elif target_prior is None and rule == self.decision_.rule:
            places = self._places(self.decision_, logits)
        else:
            places = self._places(self.choose(rule, target_prior=target_prior), logits)
        labels: Array = places if self._multilabel else self.classes_[places]
        if abstain is None:
            return labels
        if not 0 < abstain < 1:
            raise InvalidInputError(
                f"abstain must be the allowed error rate of each class, above 0 and below 1, got {abstain}."
            )
        possible = self.calibrated_.sets(logits, 1 - abstain, predicted=places)
        self._warn_of_never_ruled_out(abstain)
        masked: Array = np.ma.masked_array(labels, mask=unanswered(possible))
        return masked

    def choose(self, decision: DecisionRule, *, target_prior: Prior | None = None) -> Chosen:
        """Choose the thresholds of a rule; return them with its expected results and its 95 % guarantees.

        They are chosen on predictions for rows that the model was not trained on: out-of-fold ones, held-out ones, or
        those of :meth:`calibrate`.

        Args:
            decision: a rule of :mod:`equipoise.decisions`.
            target_prior: the class prior where it is used, as for :meth:`predict`; None takes the rule's own.
        """
        check_is_fitted(self)
        check_rule(decision)
        given = self._decision_shares(target_prior)
        wanted = None if given is None else self.calibrated_.checked(given)
        even = self.probabilities == "balanced"
        aimed = self.calibrated_.balanced() if even else self.calibrated_.aimed.numpy()
        classes = tuple(self.classes_.tolist())
        return decision.choose(Situation(classes, self.prior_, aimed, self.evidence_), target_prior=wanted)

    def predict_proba(self, X: ArrayLike | Images, target_prior: Prior | None = None) -> Array:
        """Return probabilities (rows, classes), or of each attribute being 1, (rows, attributes).

        They are calibrated at the class prior of the training samples or, with ``probabilities="balanced"``, at a
        balanced one.

        Args:
            X: (rows, columns) as for ``fit``, or images.
            target_prior: the class prior where the model is used, if it differs, as for :meth:`predict`; Bayes' rule
                moves the probabilities there. :meth:`estimate_prior` estimates it from unlabelled samples.
        """
        found = self._probabilities(self._rows(X), self._decision_prior(target_prior))
        return found[..., 1] if self._multilabel else found

    def prediction_sets(self, X: ArrayLike | Images, level: float = 0.9) -> NDArray[np.bool_]:
        """Return which labels remain possible, (rows, classes), or 0 and 1 of each attribute, (rows, attributes, 2).

        For each class, however rare, the sets of at least a share ``level`` of its samples contain it. A set also
        contains the class that :meth:`predict` returns, so it is never empty. A class calibrated on fewer than
        level / (1 - level) samples is never ruled out.

        Args:
            X: (rows, columns) as for ``fit``, or images.
            level: coverage of each class, above 0 and below 1.
        """
        logits = self._logits(self._rows(X))
        return self.calibrated_.sets(logits, level, self._decision_prior(None))

    def estimate_prior(self, X: ArrayLike | Images) -> Array:
        """Estimate the class prior of unlabelled samples X, (classes,) or (attributes, 2), for ``target_prior``.

        Uses the EM algorithm of Saerens et al. (2002), with one pseudo-sample per class so that a few rows do not rule
        a class out.
        """
        return estimate_prior(self._probabilities(self._rows(X), None), old=self.prior_, smoothing=1)

    @all_or_nothing
    def calibrate(self: Self, X: ArrayLike | Images, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Recalibrate probabilities, prediction sets and thresholds on labelled samples that were not trained on.

        Args:
            X: as for :meth:`predict`, (rows, columns), or images.
            y: labels among ``classes_``, (rows,), or a 0/1 matrix, (rows, attributes).
            sample_weight: weight of each row for probabilities and thresholds, (rows,); prediction sets ignore it.
        """
        x = self._rows(X)
        labels = checked_labels(y)
        check_consistent_length(x, labels)
        target = torch.from_numpy(label_indices(labels, self.classes_, multilabel=self._multilabel))
        weight = relative_weights_of(sample_weight, x)
        if not self._multilabel and len(absent := np.setdiff1d(np.arange(len(self.classes_)), target.numpy())):
            named = listed([str(self.classes_[place]) for place in absent], most=5, quoted=False)
            warnings.warn(
                f"the rows to calibrate on lack the class {named}, so every set will contain it.",
                EquipoiseWarning,
                stacklevel=3,
            )
        logits = self._logits(x)
        self.calibrated_ = self.calibrated_.fit_on(logits, target, sample_weight=weight)
        self._decide_by(logits, target, weight)
        return self

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Save the fitted model to a ``folder``."""

    @classmethod
    @abstractmethod
    def load(cls: type[Self], folder: str | Path) -> Self:
        """Load a model saved by :meth:`save` from its ``folder``."""

    def push_to_hub(self, repo_id: str, *, private: bool = True, revision: str | None = None) -> str:
        """Push the fitted model and its card to the Hugging Face Hub; return the commit's URL.

        Needs ``pip install "equipoise[hub]"``, and ``hf auth login`` once.

        Args:
            repo_id: ``"name/model"``; the repository is created if missing.
            private: whether to create it as private.
            revision: a branch; None is the main one.
        """
        check_is_fitted(self)
        return push_model(self, repo_id, private=private, revision=revision)

    @classmethod
    def from_hub(cls: type[Self], repo_id: str, *, revision: str | None = None) -> Self:
        """Load a model that :meth:`push_to_hub` saved; its files cannot run code.

        Args:
            repo_id: ``"name/model"``.
            revision: a branch, a tag or a commit; None is the newest of the main branch.
        """
        return cls.load(fetch_model(repo_id, revision=revision))

    @property
    def prior_(self) -> Array:
        """Class prior of the training rows by their weights, (classes,) or (attributes, 2)."""
        check_is_fitted(self)
        found: Array = self.calibrated_.prior.numpy().copy()
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    @property
    @abstractmethod
    def _multilabel(self) -> bool:
        """True if a row has several labels."""

    @abstractmethod
    def _rows(self, X: Any) -> Any:
        """Check X for prediction against what was fitted."""

    @abstractmethod
    def _logits(self, x: Any) -> Tensor:
        """Return the model's logits for checked rows: (rows, classes), or (rows, attributes, 2)."""

    def _probabilities(self, x: Any, prior: ArrayLike | None) -> NDArray[np.float64]:
        """Return calibrated probabilities, shaped like the logits."""
        return np.asarray(self.calibrated_.probabilities(self._logits(x), prior).numpy())

    def _decide_by(
        self,
        logits: Tensor,
        target: Tensor,
        weight: Tensor | None,
        *,
        answered: Callable[[NDArray[np.intp]], Tensor] | None = None,
    ) -> None:
        """Store these held-out rows as the evidence that rules are chosen on, and choose the estimator's own rule.

        Args:
            answered: returns, for some of the rows, the logits of the members' mean, which predicts new rows, if
                ``logits`` come from one member each.
        """

        def by_all(rows: NDArray[np.intp]) -> Array:
            assert answered is not None
            return self.calibrated_.probabilities(answered(rows)).numpy()

        own = None if weight is None else weight.numpy()
        found = self.calibrated_.probabilities(logits).numpy()
        evidence = Evidence.of(found, target.numpy(), own, answered=None if answered is None else by_all)
        self._decide_as(self.decision, evidence)

    def _decide_as(self, decision: DecisionRule | None, evidence: Evidence | None) -> None:
        """Set another rule, and the evidence that rules are chosen on; without evidence there may be no thresholds."""
        self.decision, self.evidence_ = decision, evidence
        self.decision_ = self.choose(Balanced() if decision is None else decision)

    def _places(self, chosen: Chosen, logits: Tensor) -> NDArray[np.int64]:
        if chosen.policy.as_aimed:
            return np.asarray(self.calibrated_.decided(logits, self._decision_prior(None)).numpy())
        return chosen.places(self.calibrated_, logits)

    def _decision_prior(self, target_prior: Prior | None) -> ArrayLike | None:
        """Return the class prior of the decision; None is the one that the method aims at."""
        self._check_probabilities()
        if target_prior is None and self.probabilities == "balanced":
            return self.calibrated_.balanced()
        return self._decision_shares(target_prior)

    def _decision_shares(self, target_prior: Prior | None) -> ArrayLike | None:
        """Return a class prior given by class in the order of the classes, and others unchanged."""
        if not isinstance(target_prior, Mapping):
            return target_prior
        given = ByClass(target_prior, "target_prior")
        return prior_of(given, self.classes_.tolist(), self.prior_, name="target_prior")

    def _check_probabilities(self) -> None:
        check_choice("probabilities", self.probabilities, ("natural", "balanced"))

    def _warn_of_never_ruled_out(self, abstain: float) -> None:
        """Warn about classes that are possible everywhere: they leave every row undecided."""
        thresholds = self.calibrated_.thresholds
        assert thresholds is not None
        never = np.argwhere(np.isinf(thresholds.thresholds(1 - abstain)))
        if len(never) == 0:
            return
        few = listed([str(self.classes_[place[0]]) for place in never], most=5, quoted=False)
        fewest = min(int(thresholds.counts[tuple(place)]) for place in never)
        warnings.warn(
            f"too few calibration samples ({fewest} of the rarest) to ever rule out {few} at abstain={abstain:g}, so "
            "rows stay undecided; calibrate on more samples, or allow a higher error rate.",
            EquipoiseWarning,
            stacklevel=3,
        )


def relative_weights_of(sample_weight: ArrayLike | None, x: Any) -> Tensor | None:
    """Return checked weights of the rows of x relative to their mean, (rows,); None if there are none."""
    given = plain_array(sample_weight, "sample_weight")
    if given is None:
        return None
    return relative_weights(new_tensor(_check_sample_weight(given, x, dtype=np.float64)))


def check_rule(decision: Any) -> None:
    """Raise an error if this is not a decision rule."""
    if not isinstance(decision, DecisionRule):
        raise InvalidInputError(f"decision must be a rule of equipoise.decisions, got {decision!r}.")
