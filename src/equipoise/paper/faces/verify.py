"""``equipoise verify``: from a list of pairs to their similarities, scores and probabilities."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs.trained_run import RunModel
from equipoise.paper.face_options import Protocol, VerifyOptions
from equipoise.paper.faces.face_encoders import (
    EncodedFaces,
    OnnxEncoder,
    RunEncoder,
    StoredEmbeddings,
    known_people,
    similarities,
)
from equipoise.paper.faces.pairs import Pairs
from equipoise.paper.faces.read_pairs import read_pairs
from equipoise.paper.faces.same_person import SamePerson, fit_same_person
from equipoise.paper.faces.verification_scores import Verification, verification


@dataclass(frozen=True)
class VerifiedPairs:
    """Pairs, how alike each is, and what follows.

    Args:
        protocol: by which the pairs were read.
        similarity: of each pair, (pairs,).
        pictures: the pairs with their images, if a page shows them.
    """

    protocol: Protocol
    pairs: Pairs
    similarity: NDArray[np.float64]
    scores: Verification
    probability: SamePerson
    notes: list[str]
    pictures: Pairs | None = None


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
    for sentence in notes:
        watcher.note(sentence)
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
