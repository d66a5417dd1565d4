"""How likely each label of a run is wrong, from the features of its softmax stage."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.app.runs.held_out import label_places, network_before
from equipoise.app.runs.label_file import JudgedLabels
from equipoise.app.runs.sample_pictures import printable
from equipoise.app.runs.split import Division
from equipoise.app.runs.trained import FORWARD_NUMBERS, RunModel
from equipoise.data import Samples
from equipoise.data.images import Images
from equipoise.evaluation.label_quality import LabelJudge, class_sizes
from equipoise.tensors import new_tensor
from equipoise.training.settings import rows_at_once

Part = tuple[NDArray[np.float32], slice]


def judge_labels(model: RunModel, division: Division, rows: Any, tested: Any, softmax: Path) -> JudgedLabels:
    """Judge the labels of all samples; features are taken twice, a part at a time, and never held together.

    Args:
        rows, tested: training and test samples as the network takes them.
        softmax: the weights at the end of the softmax stage, which know fewest labels by heart. Without the file, the
            trained network's own.
    """
    if softmax.is_file():
        model = model.with_network(network_before(model.network, softmax))
    known = model.classes
    places = label_places(division.train.y, known, "the training samples")
    others = label_places(division.test.y, known, "the test samples")
    judge = LabelJudge(class_sizes(places, len(known)), several=model.multilabel)
    for features, part in _features(model, rows):
        judge.add(features, places[part])
    for features, part in _features(model, rows):
        judge.look(features, places[part], added=True)
    for features, part in _features(model, tested):
        judge.look(features, others[part], added=False)
    own = division.split.test
    return JudgedLabels(
        rows=np.concatenate((division.split.train, own if len(own) else np.arange(len(others)))).astype(np.int64),
        test=np.repeat((False, True), (len(places), len(others))),
        labels=np.concatenate((places, others)),
        doubt=judge.doubt(),
        names=_names(division.train, division.test),
    )


@torch.inference_mode()
def _features(model: RunModel, rows: Any) -> Iterator[Part]:
    """Of the last layer, before its dropout."""
    backbone = model.network.eval().backbone
    numbers = FORWARD_NUMBERS * int(np.prod(rows.shape[1:], dtype=np.int64))
    step = rows_at_once(max(numbers, len(model.classes)))  # the judge reckons with every class
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        yield backbone(new_tensor(rows[part])).float().numpy(), part


def _names(train: Samples, test: Samples) -> tuple[str, ...] | None:
    if not isinstance(train.x, Images) or not isinstance(test.x, Images):
        return None
    return tuple(printable(name).replace("\0", "") for name in (*train.x.names, *test.x.names))
