"""``equipoise verify``: from a list of pairs to their similarities, scores and probabilities."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs.trained_run import RunModel
from equipoise.calibration.reliability import reliability_diagram
from equipoise.paper.face_options import Protocol, VerifyOptions
from equipoise.paper.faces.face_encoders import (
    EncodedFaces,
    OnnxEncoder,
    RunEncoder,
    StoredEmbeddings,
    known_people,
    similarities,
)
from equipoise.paper.faces.pair_files import read_pairs
from equipoise.paper.faces.pairs import FacePairs
from equipoise.paper.faces.verification_scores import Verification, verification

Floats = NDArray[np.float64]
STRENGTH = 100.0
"""Inverse strength of the ridge: very weak, but slopes stay finite where similarities separate the pairs."""


@dataclass(frozen=True)
class SamePerson:
    """P(one person | similarity) = 1 / (1 + exp(−(slope · similarity + intercept))), Platt's scaling.

    It holds where a ``share`` of the pairs show one person, as among these. Log loss, Brier score and calibration error
    are those of ``out_of_fold``, the probability of each pair by a curve fitted to the other folds, (pairs,).
    """

    slope: float
    intercept: float
    share: float
    out_of_fold: Floats
    log_loss: float
    brier: float
    ece: float

    def probability(self, similarity: ArrayLike, *, share: float | None = None) -> Floats:
        """Return the probability at a similarity where ``share`` of the pairs show one person, by default as here."""
        logits = self.slope * np.asarray(similarity, dtype=np.float64) + self.intercept
        if share is not None:
            logits = logits + np.log(share / (1 - share)) - np.log(self.share / (1 - self.share))
        found: Floats = expit(logits)
        return found

    def as_dict(self) -> dict[str, float]:
        """Return plain values, without those of each pair."""
        names = ("slope", "intercept", "share", "log_loss", "brier", "ece")
        return {name: float(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class VerifiedPairs:
    """Pairs, how alike each is, and what follows.

    Args:
        protocol: by which the pairs were read.
        similarity: of each pair, (pairs,).
        pictures: the pairs with their images, if a page shows them.
    """

    protocol: Protocol
    pairs: FacePairs
    similarity: NDArray[np.float64]
    scores: Verification
    probability: SamePerson
    notes: list[str]
    pictures: FacePairs | None = None


def verify_pairs(run: Path | None, options: VerifyOptions, watcher: RunWatcher) -> VerifiedPairs:
    """Compare the faces of each pair by the features of a finished run, an ONNX recogniser, or a file."""
    source, trained_on = _source(run, options)  # its faults are reported before any work
    protocol, pairs = read_pairs(
        options.pairs,
        source.named(options.images),
        protocol=options.protocol,
        skip_missing=options.skip_missing,
        frames=options.frames,
        count=options.count,
        seed=options.seed,
    )
    notes = [*pairs.notes, *known_people(trained_on, pairs)]
    watcher.note(*notes)
    pictures = None if options.page is None else source.pictures(pairs, options.images)
    similarity = similarities(source.features(pairs, progress=watcher.progress), pairs)
    scores = verification(similarity, pairs.same, pairs.fold)
    probability = fit_same_person(similarity, pairs.same, pairs.fold)
    return VerifiedPairs(protocol, pairs, similarity, scores, probability, notes, pictures)


def _source(run: Path | None, options: VerifyOptions) -> tuple[EncodedFaces | StoredEmbeddings, tuple[str, ...]]:
    """Return what gives the features, and the people it was trained on as far as they are known."""
    if options.embeddings is not None:
        return StoredEmbeddings.load(options.embeddings), ()
    if options.model is not None:
        return EncodedFaces(OnnxEncoder(options.model, flip=options.flip)), ()
    assert run is not None
    trained = RunModel.load(run)
    return EncodedFaces(RunEncoder(trained, layer=options.layer, flip=options.flip)), trained.classes


def fit_same_person(similarity: ArrayLike, same: ArrayLike, fold: ArrayLike) -> SamePerson:
    """Fit the curve to all pairs, (pairs,) each, and score it on each fold as fitted to the others."""
    values, truth, folds = np.asarray(similarity, dtype=np.float64), np.asarray(same, dtype=bool), np.asarray(fold)
    out_of_fold = np.empty(len(values))
    for name in np.unique(folds):
        mine = folds == name
        slope, intercept = _fit(values[~mine], truth[~mine])
        out_of_fold[mine] = expit(slope * values[mine] + intercept)
    slope, intercept = _fit(values, truth)
    answers = np.where(out_of_fold >= 0.5, out_of_fold, 1 - out_of_fold)
    return SamePerson(
        slope,
        intercept,
        float(truth.mean()),
        out_of_fold,
        float(log_loss(truth, out_of_fold, labels=[False, True])),
        float(brier_score_loss(truth, out_of_fold)),
        float(reliability_diagram(answers, (out_of_fold >= 0.5) == truth).ece),
    )


def _fit(values: Floats, truth: NDArray[np.bool_]) -> tuple[float, float]:
    centre, spread = float(values.mean()), float(values.std()) or 1.0
    fitted = LogisticRegression(C=STRENGTH).fit((values[:, None] - centre) / spread, truth)
    slope = float(fitted.coef_[0, 0]) / spread
    return slope, float(fitted.intercept_[0]) - slope * centre
