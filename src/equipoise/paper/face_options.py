"""Options of ``equipoise faces align`` and ``equipoise verify``, known before torch is imported."""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal, get_args

from equipoise.options import check_options, option

Choice = Literal["centre", "largest"]
Layer = Literal["pooled", "last"]
Protocol = Literal["lfw", "ytf", "list", "bin", "folder"]
MIN_FACE, SIDE, PAIRS = 0.1, 112, 6000


@dataclass(frozen=True, kw_only=True)
class AlignmentOptions:
    """``alignment.json``: how faces are found and aligned, and a checksum of the networks' weights."""

    format: Literal[1] = 1
    min_face: float = option(
        MIN_FACE, "Smallest face looked for, as a share of the image's shorter side.", least=0.001, most=1.0
    )
    choose: Choice = option(
        "centre",
        "Which of several faces: the largest near the centre, or the largest.",
        choices=lambda: get_args(Choice),
    )
    side: int = option(SIDE, "Side of the aligned faces in pixels.", flags=("--size",), least=16, most=1024, whole=True)
    lenient: bool = option(
        False,
        "Accept less certain faces where none is found; use it if every image is known to show one.",
        flags=("--lenient",),
    )
    steadied: bool = False  # folders of earlier versions are not
    weights: str = ""

    def __post_init__(self) -> None:
        """Raise an error for invalid options."""
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """Which pairs are verified, by which features, and which files are written."""

    pairs: Path = option(
        MISSING,
        "The list of pairs, or a .bin file; with --protocol folder the list to write.",
        flags=("--pairs",),
    )
    images: Path | None = option(None, "The folder, or an archive, of the faces.")
    model: Path | None = option(None, "Use an ONNX face recogniser instead of RUN, such as one for 112×112 pixels.")
    embeddings: Path | None = option(None, "Use stored features instead of RUN: a .npz file with names and embeddings.")
    protocol: Protocol | None = option(None, "Format of the pairs; default: inferred from the file.")
    skip_missing: bool = option(False, "Leave out pairs whose images are missing.", flags=("--skip-missing",))
    frames: int | None = option(None, "Maximum number of frames per video, evenly spaced.", least=1, whole=True)
    count: int = option(PAIRS, "Pairs to draw with --protocol folder.", least=20, whole=True)
    seed: int = option(0, "Seed of the drawn pairs.", least=0, whole=True)
    layer: Layer = option(
        "pooled", "Features of a run: after the pooling, as in the paper, or the last before the class vectors."
    )
    flip: bool = option(True, "Average with the features of the mirror image.")
    roc: Path | None = option(None, "Write the ROC into a .csv, .png or .svg file.")
    page: Path | None = option(None, "Write an .html page: scores, ROC, calibrated probability, hardest pairs.")
