"""A finished run on other labelled data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.output import RunWatcher
from equipoise.app.runs.held_out import score
from equipoise.app.runs.inputs import TableInput
from equipoise.app.runs.predict import Abstained, never_ruled_out
from equipoise.app.runs.trained import ESTIMATE, RunModel, class_mix, mix_of, named_shares
from equipoise.app.runs.unlabelled import check_images, image_shape
from equipoise.calibration.conformal import unanswered_rows
from equipoise.data import Samples, open_data
from equipoise.data.labels import label_indices
from equipoise.decisions import AbstainedShares, abstained_shares
from equipoise.errors import InvalidInputError
from equipoise.evaluation import Scores
from equipoise.evaluation.skill import Skill, skill
from equipoise.storage.archives import is_archive
from equipoise.tensors import check_finite


@dataclass(frozen=True)
class SetScores:
    """What sets of possible classes are worth on labelled samples.

    Args:
        level: share of each class's samples whose set was to hold their class.
        coverage: share whose set does, one a class; with attributes of the samples that have each; NaN without any.
        shares: what is left unanswered of each class.
        size: possible classes of a sample, the mean; with attributes possible answers to each.
        always: classes calibrated on too few samples to be ruled out.
    """

    level: float
    coverage: tuple[float, ...]
    shares: AbstainedShares
    size: float
    always: tuple[str, ...]

    def as_dict(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Plain values by class; None where a class has no samples."""
        each = zip(classes, self.coverage, self.shares.each, self.shares.verdicts, strict=True)
        return {
            "level": self.level,
            "abstained": self.shares.overall,
            "mean_size": self.size,
            "never_ruled_out": list(self.always),
            "classes": {
                name: {"coverage": _known(covered), "abstained": _known(share), "verdict": verdict}
                for name, covered, share, verdict in each
            },
        }


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate_run` found.

    Args:
        skill: what the answers are worth against guessing, class by class.
        prior: the class mix at which it was asked, by class; None where none was given.
        sets: None where they were not asked for.
    """

    scores: Scores
    skill: Skill
    prior: dict[str, float] | None
    sets: SetScores | None


def evaluate_run(
    model: RunModel,
    source: str,
    *,
    target: str | None = None,
    labels: str | Path | None = None,
    watcher: RunWatcher | None = None,
    prior: str | None = None,
    abstain: float | None = None,
) -> Evaluation:
    """Scores on data that the run has not seen; of a set with an official test part, on that part.

    Args:
        target: the column with the label; None takes that of the run.
        labels: a table of ``file,label``, for images that are not sorted into folders.
        prior: as for ``class_mix``, or ``estimate``, from the samples without their labels.
        abstain: the share of each class whose set of possible classes may lack it.
    """
    told: RunWatcher = watcher or RunWatcher()
    asked = None if abstain is None else Abstained.start(model, abstain)
    mix = None if prior in (None, ESTIMATE) else class_mix(str(prior), model)
    samples = _read(model, source, target, labels, told)
    if samples.partition is not None and "test" in samples.partition:
        samples = samples.part("test")
        told.note(f"the official test part, {len(samples)} samples, is scored.")
    if samples.multilabel != model.multilabel or (model.multilabel and samples.y.shape[1] != len(model.classes)):
        raise InvalidInputError(
            f"the run answers {', '.join(model.classes[:5])} with {'0/1 each' if model.multilabel else 'one class'}; "
            f"{source} has other labels: name the target columns as in training."
        )
    places = label_indices(
        samples.y if model.multilabel else samples.y.astype(str),
        model.classes,
        multilabel=model.multilabel,
        whose="the data have",
    )
    counts: Any = model.learnt("train_counts") or [1] * len(model.classes)
    answered = model.answer(samples.x, mix)
    check_finite(answered.finite)
    probabilities, predicted = answered.probabilities, answered.predicted
    if prior == ESTIMATE:
        mix = mix_of(model, probabilities)
        probabilities, predicted = model.decided(answered.logits, mix)
    found = score(probabilities, predicted, places, model.classes, counts)
    judged = skill(places, predicted, len(model.classes), probabilities=probabilities)
    named = None if mix is None else named_shares(model, mix)
    sets = None if asked is None else _set_scores(asked, asked.add(answered.logits, predicted, mix), places)
    return Evaluation(found, judged, named, sets)


def _set_scores(asked: Abstained, possible: NDArray[np.bool_], labels: NDArray[np.int64]) -> SetScores:
    model, size = asked.model, len(asked.model.classes)
    held = np.take_along_axis(possible, labels[..., None], -1)[..., 0]
    if model.multilabel:
        covered = [held[labels[:, place] == 1, place] for place in range(size)]
    else:
        covered = [held[labels == place] for place in range(size)]
    return SetScores(
        asked.level,
        tuple(float(part.mean()) if len(part) else float("nan") for part in covered),
        abstained_shares(labels, unanswered_rows(possible), size),
        float(possible.sum(-1).mean()),
        tuple(never_ruled_out(model, asked.level)),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _read(model: RunModel, source: str, target: str | None, labels: str | Path | None, told: RunWatcher) -> Samples:
    table = isinstance(model.input, TableInput)
    _check_kind(Path(source), table)
    arrays = Path(source).suffix.lower() == ".npz"  # they have their labels under a name of their own
    if target is None and not arrays and (table or labels is not None):
        target = model.record.target
    shape: dict[str, Any] = {}
    if not table and not arrays:
        channels, height, width = image_shape(model)
        shape = {"size": (height, width)} | ({"channels": channels} if Path(source).exists() else {})
    samples = open_data(source, target=target, labels=labels, progress=told.progress, **shape)
    for sentence in samples.notes:
        told.note(sentence)
    if samples.x.ndim != (2 if table else 4):
        raise InvalidInputError(_other_kind(source, table))
    if not table:
        check_images(model, samples.x, source)
    return samples


def _check_kind(path: Path, table: bool) -> None:
    """Said before a reader finds options that do not suit what it reads."""
    images = path.is_dir() or (path.is_file() and is_archive(path))
    if path.exists() and path.suffix.lower() != ".npz" and images == table:
        raise InvalidInputError(_other_kind(str(path), table))


def _other_kind(source: str, table: bool) -> str:
    if table:
        return f"the run is of a table, and {source} holds images; give a table."
    return f"the run is of images, and {source} is a table; give images."
