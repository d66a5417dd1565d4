"""A finished run on other labelled data."""

from pathlib import Path
from typing import Any

from equipoise.data import Samples, open_data
from equipoise.data.unpacking import is_archive
from equipoise.errors import InvalidInputError
from equipoise.evaluation import Scores
from equipoise.runs.held_out import label_places, score
from equipoise.runs.inputs import TableInput
from equipoise.runs.model import RunModel
from equipoise.runs.sources import check_images, image_shape
from equipoise.runs.watching import Silence, Watcher


def evaluate_run(
    model: RunModel,
    source: str,
    *,
    target: str | None = None,
    labels: str | Path | None = None,
    watcher: Watcher | None = None,
) -> Scores:
    """Scores on data that the run has not seen; of a set with an official test part, on that part.

    Args:
        target: the column with the label; None takes that of the run.
        labels: a table of ``file,label``, for images that are not sorted into folders.
    """
    told: Watcher = watcher or Silence()
    samples = _read(model, source, target, labels, told)
    if samples.partition is not None and "test" in samples.partition:
        samples = samples.part("test")
        told.note(f"the official test part, {len(samples)} samples, is scored.")
    if samples.multilabel != model.multilabel or (model.multilabel and samples.y.shape[1] != len(model.classes)):
        raise InvalidInputError(
            f"the run answers {', '.join(model.classes[:5])} with {'0/1 each' if model.multilabel else 'one class'}; "
            f"{source} has other labels: name the target columns as in training."
        )
    places = label_places(samples.y, model.classes, "the data")
    counts: Any = model.learnt("train_counts") or [1] * len(model.classes)
    return score(model.predict_proba(samples.x), places, model.classes, counts)


def _read(model: RunModel, source: str, target: str | None, labels: str | Path | None, told: Watcher) -> Samples:
    options = model.record.get("options", {})
    table = isinstance(model.input, TableInput)
    _check_kind(Path(source), table)
    arrays = Path(source).suffix.lower() == ".npz"  # they have their labels under a name of their own
    if target is None and not arrays and (table or labels is not None):
        known = options.get("target")
        target = known if isinstance(known, str) else None
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
