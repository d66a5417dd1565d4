"""Export of a run as one ONNX file: from encoded columns or pixels to probabilities, uncertainty and class."""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from equipoise import __version__
from equipoise.app.output_files import check_free, write_file
from equipoise.app.runs.blend_to_onnx import blend_graph
from equipoise.app.runs.onnx_graph import OPSET
from equipoise.app.runs.trained_run import RunModel
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.estimators.network_prediction import Prediction, PredictionModule
from equipoise.tensor_checks import not_finite

TOLERANCE = 1e-4
CHECKED_BATCHES = (1, 2, 7)
"""Batch sizes that are tested: the graph must not depend on the one it was traced with."""
MEANING = {
    "probabilities": "of the classes in order, calibrated for the class prior in prior; of a 1 where a "
    "sample has several labels",
    "uncertainty": "variance of the predicted label in closed form, for dropout on the last features",
    "predicted": "index of the most probable class at the class prior in decided_at; with several labels, 0 or 1 for "
    "each",
}

OF_BLEND = "variance of the predicted label"
OF_RULE = (
    "index of the class that the rule in decision predicts, by its thresholds; with several labels, 0 or 1 for each"
)


def export_run(model: RunModel, out: Path, *, force: bool = False) -> float:
    """Write the model with its preprocessing's description; return the largest difference of onnxruntime from Python.

    The file gets its name only if the answers agree to 1e-4.
    """
    check_free(out, force)
    content, difference = (_network if model.predictor.blend is None else _blend)(model)
    if not difference <= TOLERANCE:
        raise InvalidStateError(
            f"onnxruntime differs from Python by {difference:.1g}, more than {TOLERANCE:g}, so nothing was written; "
            "please report it with the run's options."
        )
    write_file(out, content)
    return difference


def _network(model: RunModel) -> tuple[bytes, float]:
    """Return the graph of a network, and its largest difference from torch."""
    wrong = not_finite(model.network.state_dict())
    if wrong is not None:
        raise InvalidStateError(f"the network has NaN or infinity in {wrong!r}, so nothing was written; train again.")
    _need_packages()
    extractor, chosen = model.input.extractor, model.chosen
    answers = PredictionModule(model.network, model.calibrated, extractor=extractor, chosen=chosen)
    content = _graph(answers, example(model, 3), metadata(model))
    return content, max(_difference(answers, example(model, rows), content) for rows in CHECKED_BATCHES)


def _blend(model: RunModel) -> tuple[bytes, float]:
    """Return the graph of a blend, and its largest difference from Python."""
    _need_packages()
    if model.input.encoder is None:
        raise InvalidInputError("a blend behind a frozen backbone cannot be exported; train with --model network.")
    graph = blend_graph(model.predictor.estimator, model.calibrated, model.input.encoder.dtype, model.chosen)
    content = graph.content(metadata(model) | {"outputs": json.dumps(_meaning(model) | {"uncertainty": OF_BLEND})})
    differences = []
    for rows in CHECKED_BATCHES:
        x = graph.example(rows)
        found = model.predict_rows(x)
        expected = (found.probabilities, found.uncertainty, found.predicted)
        differences.append(_distance(_answers(content, x), expected))
    return content, max(differences)


def metadata(model: RunModel) -> dict[str, str]:
    """Return what a program needs to feed the graph and to read its answers, as JSON text by name."""
    found: dict[str, Any] = {
        "equipoise": __version__,
        "classes": list(model.classes),
        "multilabel": model.multilabel,
        "prior": model.calibrated.prior.tolist(),
        "decided_at": model.calibrated.aimed.tolist(),
        "outputs": _meaning(model),
    }
    if model.chosen is not None:
        found["decision"] = model.chosen.to_json()
    encoder = model.input.encoder
    if encoder is not None:
        kind = np.dtype(encoder.dtype).name
        found |= {"input": "table", "dtype": kind, "columns": encoder.column_names_, "encoder": encoder.to_json()}
    else:
        channels, height, width = model.input.image_shape
        backbone: Any = model.input.extractor or model.network.backbone
        first = backbone.input
        found |= {
            "input": "images: uint8 from 0 to 255, (batch, channels, height, width), RGB; scaling is in the graph",
            "channels": channels,
            "size": [height, width],
            "fit": "crop",
            "resize": "rotated by EXIF, transparency on white; the shorter side resized to size by Pillow's BILINEAR "
            "(which averages when it shrinks), then cropped at the centre",
            "mean": first.mean.flatten().tolist(),
            "std": first.std.flatten().tolist(),
        }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in found.items()}


def _meaning(model: RunModel) -> dict[str, str]:
    return MEANING if model.chosen is None else MEANING | {"predicted": OF_RULE}


def example(model: RunModel, rows: int) -> torch.Tensor:
    """Return random input of the right shape and range."""
    generator = torch.Generator().manual_seed(rows)
    if model.input.encoder is not None:
        first: Any = model.network.backbone[0]  # type: ignore[index]
        kind = torch.float64 if model.input.encoder.dtype is np.float64 else torch.float32
        drawn = torch.randn(rows, len(first.mean), generator=generator)
        return torch.addcmul(first.mean, first.scale, drawn.double()).to(kind)
    return torch.randint(0, 256, (rows, *model.input.image_shape), generator=generator, dtype=torch.uint8)


def _graph(answers: nn.Module, x: torch.Tensor, described: dict[str, str]) -> bytes:
    import onnx

    with _silence():
        program = torch.onnx.export(
            answers,
            (x,),
            dynamo=True,
            input_names=["x"],
            output_names=list(Prediction._fields),
            dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1)}},
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    graph = proto.graph
    for part in (proto, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]  # the exporter stores source lines with this machine's paths
    onnx.helper.set_model_props(proto, described)
    proto.producer_name, proto.producer_version = "equipoise", __version__
    return bytes(proto.SerializeToString())


@torch.inference_mode()
def _difference(answers: nn.Module, x: torch.Tensor, graph: bytes) -> float:
    return _distance(_answers(graph, x.numpy()), [tensor.numpy() for tensor in answers(x)])


def _answers(graph: bytes, x: NDArray[Any]) -> list[NDArray[Any]]:
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    found: list[NDArray[Any]] = session.run(list(Prediction._fields), {"x": x})
    return found


def _distance(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> float:
    if any(one.shape != other.shape for one, other in zip(found, expected, strict=True)):
        return float("inf")
    return max(float(np.abs(one - other).max()) for one, other in zip(found, expected, strict=True))


@contextmanager
def _silence() -> Iterator[None]:
    """Silence the exporter's warnings and log messages for developers."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _need_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InvalidInputError(
            f"exporting needs {error.name or 'onnx'}; install it with `pip install 'equipoise[export]'`."
        ) from error
