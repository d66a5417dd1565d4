"""The arrays of a run's folder: held-out predictions, and judged labels; written and read without torch."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.run_folder import REMEDY
from equipoise.errors import InvalidInputError
from equipoise.evaluation import LabelDoubt
from equipoise.storage.files import write_atomically
from equipoise.storage.run_files import HELD_OUT, LABELS, RECORD, SCORES
from equipoise.storage.size_limits import load_arrays

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trust:
    """How far predictions can be trusted; each sample's values come from a calibration that has not seen it.

    Args:
        uncalibrated: probabilities without the scaling, of the same shape, at the same class prior.
        sets: which classes remain possible at 90 %, (samples, classes) or (samples, attributes, 2).
        prior: the class prior of the probabilities, (classes,) or (attributes, 2).
    """

    uncalibrated: NDArray[np.floating[Any]]
    sets: NDArray[np.bool_]
    prior: Floats


@dataclass(frozen=True)
class HeldOut:
    """``held_out.npz``: predictions for the samples that training has not seen, one entry per sample.

    Args:
        probabilities: (samples, classes), or of each attribute being 1, (samples, attributes); like predictions and
            uncertainty, calibrated on other samples.
        labels, predicted: class indices, (samples,), or 0 and 1, (samples, attributes).
        rows: in the user's data.
        before: predictions of the softmax stage's network, or of a blend before balancing; None if there is neither.
        trust: None for a run of an earlier version, and if all samples are one group, which cannot be divided.
    """

    probabilities: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    uncertainty: NDArray[np.floating[Any]]
    rows: NDArray[np.int64]
    before: NDArray[np.int64] | None = None
    trust: Trust | None = None

    def save(self, folder: Path) -> None:
        """Write ``held_out.npz``, without Python objects."""
        own = {name: values for name, values in vars(self).items() if name != "trust" and values is not None}
        write_arrays(folder / HELD_OUT, own | ({} if self.trust is None else vars(self.trust)))


@dataclass(frozen=True)
class JudgedLabels:
    """``labels.npz``: every label that a run was trained and scored with, and how likely each is wrong.

    One entry per sample, training samples first: its row in the user's data, whether it was held out, and its label as
    a class index, (samples,), or 0 and 1, (samples, attributes). Image files have names.
    """

    rows: NDArray[np.int64]
    test: NDArray[np.bool_]
    labels: NDArray[np.int64]
    doubt: LabelDoubt
    names: tuple[str, ...] | None = None

    def save(self, folder: Path) -> None:
        """Write the file without Python objects: names are one text, separated by zeros."""
        arrays: dict[str, Any] = {"rows": self.rows, "test": self.test, "labels": self.labels}
        arrays |= {"suggested": self.doubt.suggested, "error": self.doubt.error.astype(np.float32)}
        if self.names is not None:
            arrays["names"] = np.frombuffer("\0".join(self.names).encode("utf-8"), dtype=np.uint8)
        write_arrays(folder / LABELS, arrays)


def held_out_uncertainty(folder: Path, *, remedy: str) -> NDArray[np.floating[Any]]:
    """Read only the uncertainties of the held-out samples, (samples,), for a run whose other files are not needed."""
    path = folder / HELD_OUT
    known = load_arrays(path, remedy=remedy).get("uncertainty", np.zeros(0))
    if known.ndim != 1 or len(known) == 0 or known.dtype.kind != "f" or not np.isfinite(known).all():
        raise InvalidInputError(f"{path} holds no uncertainties of held-out samples; {remedy}.")
    return known


def read_held_out(path: Path, size: int, multilabel: bool, scored: int) -> HeldOut | None:
    """Read ``held_out.npz`` of a run that ``scored`` this many samples; None without the file."""
    if not path.is_file():
        return None
    stored = load_arrays(path, remedy=REMEDY)
    whole = {
        name: stored[name].astype(np.int64) for name in ("labels", "predicted", "rows", "before") if name in stored
    }
    p, uncertainty = stored["probabilities"], stored["uncertainty"].astype(np.float64)
    samples = len(whole["labels"])
    trust = None
    if {"uncalibrated", "sets", "prior"} <= set(stored):
        trust = Trust(stored["uncalibrated"], stored["sets"], stored["prior"].astype(np.float64))
    found = HeldOut(p, uncertainty=uncertainty, trust=trust, **whole)
    labels = [whole[name] for name in ("labels", "predicted", "before") if name in whole]
    fits = p.dtype.kind == "f" and p.shape == (samples, size) and samples > 0
    fits &= uncertainty.shape == (samples,) == found.rows.shape
    fits &= all(_are_places(part, samples, size, multilabel) for part in labels)
    if fits and samples != scored:
        raise InvalidInputError(f"{path} holds {samples} samples, but {SCORES} has {scored}; {REMEDY}.")
    if not fits or not _trust_fits(trust, p.shape, multilabel):
        raise _unfit(path, size)
    return found


def _trust_fits(trust: Trust | None, shape: tuple[int, ...], multilabel: bool) -> bool:
    if trust is None:
        return True
    prior, sets = trust.prior, trust.sets
    fits = trust.uncalibrated.shape == shape and trust.uncalibrated.dtype.kind == "f" and sets.dtype == np.bool_
    fits &= sets.shape == ((*shape, 2) if multilabel else shape) and prior.shape == sets.shape[1:]
    return fits and bool((np.isfinite(prior) & (prior >= 0)).all()) and bool((prior.sum(-1) > 0).all())


def _are_places(values: NDArray[Any], samples: int, size: int, multilabel: bool) -> bool:
    """Return whether values are class indices, (samples,), or 0 and 1, (samples, attributes)."""
    shape, highest = ((samples, size), 1) if multilabel else ((samples,), size - 1)
    return values.shape == shape and values.dtype == np.int64 and bool(((values >= 0) & (values <= highest)).all())


def _unfit(path: Path, size: int) -> InvalidInputError:
    return InvalidInputError(f"the arrays of {path} do not fit each other or the {size} classes; {REMEDY}.")


def read_judged_labels(folder: Path, classes: int, *, multilabel: bool) -> JudgedLabels:
    """Read ``labels.npz``."""
    path = folder / LABELS
    if not path.exists():
        raise InvalidInputError(
            f"{folder} has no judged labels: an earlier version wrote it, or its notes say why; train again with "
            f"`equipoise train --config {folder / RECORD} --out NEW`."
        )
    stored = load_arrays(path, remedy=REMEDY)
    missing = {"rows", "test", "labels", "suggested", "error"} - set(stored)
    if missing:
        raise InvalidInputError(f"{path} lacks {', '.join(sorted(missing))}; {REMEDY}.")
    rows, test, labels, text = stored["rows"], stored["test"], stored["labels"], stored.get("names")
    if text is not None and (text.dtype != np.uint8 or text.ndim != 1):
        raise InvalidInputError(f"the names in {path} are not text; {REMEDY}.")
    names = None if text is None else tuple(text.tobytes().decode("utf-8", errors="replace").split("\0"))
    found = JudgedLabels(rows, test, labels, LabelDoubt(stored["error"], stored["suggested"]), names)
    samples = len(rows) if rows.ndim == 1 else 0
    fits = rows.dtype == np.int64 and test.dtype == np.bool_ and found.doubt.error.dtype == np.float32
    fits &= samples > 0 and test.shape == (samples,) and found.doubt.error.shape == labels.shape
    fits &= names is None or len(names) == samples
    if not fits or not all(_are_places(part, samples, classes, multilabel) for part in (labels, stored["suggested"])):
        raise _unfit(path, classes)
    return found


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a ``.npz`` file atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type, unused-ignore]
    write_atomically(path, buffer.getvalue())
