"""Small data, and finished runs of them, for the tests of runs and of the command line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup
from PIL import Image
from sklearn.datasets import load_digits

from equipoise.app.runs import RunOptions, train_run
from equipoise.data.imbalance import step
from tests.training.processes import shared_once

EPOCHS = 6


def digits_frame() -> pd.DataFrame:
    """Imbalanced digits with a column of words, a few holes and class names that want escaping."""
    x, y = load_digits(return_X_y=True)
    kept = step(y, rng=0)[:600]
    frame = pd.DataFrame(x[kept], columns=[f"pixel {place}" for place in range(64)])
    frame["half"] = np.where(y[kept] < 5, "low & <b>slow</b>", "007")
    frame.loc[:20, "pixel 20"] = np.nan
    frame["digit"] = [f"<digit> {label}" for label in y[kept]]
    return frame


def table_run(folder: Path) -> Path:
    """A run of :func:`digits_frame`; the CSV lies beside it."""
    digits_frame().to_csv(folder / "digits.csv", index=False)
    options = RunOptions(str(folder / "digits.csv"), target="digit", epochs=EPOCHS)
    return train_run(options, folder / "run", command="equipoise train digits.csv").folder


def several_run(folder: Path) -> Path:
    """A run with two labels a sample; the CSV lies beside it."""
    x = np.random.default_rng(0).normal(size=(400, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame = frame.assign(up=(x[:, 0] > 1).astype(int), right=(x[:, 1] > 0).astype(int))
    frame.to_csv(folder / "several.csv", index=False)
    return train_run(RunOptions(str(folder / "several.csv"), target="up,right", epochs=8), folder / "run").folder


def patients_frame(rows: int = 240) -> pd.DataFrame:
    """Rare, ill patients with words and holes, in families of three."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    frame = pd.DataFrame(x.round(3), columns=["age", "dose", "weight"])
    frame["city"] = np.where(x[:, 1] > 0.5, "Bern", np.where(x[:, 2] > 0, "Basel", None))
    frame.loc[::9, "dose"] = np.nan
    frame["family"] = np.arange(rows) // 3
    frame["state"] = np.where(x[:, 0] + 0.6 * rng.normal(size=rows) > 1.2, "ill", "well")
    return frame


def blend_run(folder: Path) -> Path:
    """A run of :func:`patients_frame` by random forests; the CSV lies beside it."""
    patients_frame().to_csv(folder / "patients.csv", index=False)
    options = RunOptions(str(folder / "patients.csv"), target="state", group="family", model="forest")
    return train_run(options, folder / "run", command="equipoise train patients.csv --model forest").folder


def pictures(root: Path, counts: dict[str, int], *, side: int = 14) -> Path:
    """Grey pictures, a folder per class; the classes differ in brightness, with noise."""
    rng = np.random.default_rng(0)
    for number, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for place in range(count):
            pixels = rng.integers(0, 80, size=(side, side), dtype=np.uint8) + np.uint8(170 * (number % 2))
            Image.fromarray(pixels).save(root / name / f"{place:02}.png")
    return root


def image_run(folder: Path) -> Path:
    """A run of grey pictures, with the network that is trained along; the pictures lie beside it."""
    photos = pictures(folder / "photos", {"night": 30, "day": 12})
    return train_run(RunOptions(str(photos), epochs=4, batch_size=8), folder / "run").folder


FIGURES = {
    "before_after": ("_lines", "_scatter"),
    "hardness": ("hardness_figure",),
    "human_review": ("class_coverage_figure",),
    "reliability_diagrams": ("reliability_figure",),
    "training_curves": ("training_figure",),
    "uncertainty_frequency": ("uncertainty_figure",),
}
"""Functions that draw, by their section."""


def plain_pages(patch: pytest.MonkeyPatch) -> None:
    """Let pages have empty pictures, intervals of few resamples, and corrections of few folds: each takes longer than
    training so small a network. The tests of the report draw; those of the evaluation resample.
    """
    plain_pictures(patch)
    fewer_pictures(patch)
    patch.setattr("equipoise.evaluation.bootstrap.RESAMPLES", 100)
    patch.setattr("equipoise.app.runs.rebalance.FOLDS", 3)


def fewer_pictures(patch: pytest.MonkeyPatch) -> None:
    """Let pages have empty pictures but for the one that a script draws on."""
    for section, names in FIGURES.items():
        for name in names:
            patch.setattr(f"equipoise.app.report.sections.{section}.{name}", _undrawn)
    patch.setattr("equipoise.app.report.rebalance_page.reliability_figure", _undrawn)


def plain_pictures(patch: pytest.MonkeyPatch) -> None:
    """Let pictures be drawn, but not written."""
    patch.setattr("equipoise.app.report.drawing.inline_svg", _undrawn)


def _undrawn(*_: object, **__: object) -> Markup:
    return Markup("<svg></svg>")


def once(make: Callable[[Path], Path], factory: pytest.TempPathFactory) -> Path:
    """A finished run, trained once for all tests and all their processes; they must leave it as it is."""

    def trained(folder: Path) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("EQUIPOISE_CACHE", str(folder / "cache"))
            plain_pages(patch)
            return str(make(folder))

    return Path(shared_once(factory, make.__name__, trained))
