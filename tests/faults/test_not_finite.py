"""NaN and infinity, wherever they come from: counted as missing, or refused in a sentence; never in an answer."""

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise import UncertaintyBalancedClassifier
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.errors import InvalidInputError
from equipoise.models import ImageBackbone, ImageInput, LeNet, extract_features

HOLES = (float("nan"), float("inf"), float("-inf"), 1e300, -1e300)


def frame(rows: int = 120) -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(rows, 3)).round(3)
    found = pd.DataFrame(x, columns=list("abc")).assign(y=np.where(x[:, 0] > 0.7, "rare", "common"))
    for place, value in enumerate(HOLES):
        found.loc[7 * place, "b"] = value
    return found


def test_a_table_with_holes_trains_and_answers_in_numbers(tmp_path):
    frame().to_csv(tmp_path / "t.csv", index=False)
    folder = train_run(RunOptions(str(tmp_path / "t.csv"), target="y", epochs=2), tmp_path / "run").folder
    model = RunModel.load(folder)
    hostile = pd.DataFrame(dict.fromkeys("abc", HOLES))
    probabilities, uncertainty = model.predictions(hostile)[:2]
    assert np.isfinite(probabilities).all()
    assert np.isfinite(uncertainty).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("value", HOLES[:3])
def test_the_estimator_refuses_them_in_a_sentence(value):
    data = frame()
    x, y = data[["a", "b", "c"]].to_numpy(), data["y"].to_numpy()
    good = np.nan_to_num(x, nan=0, posinf=0, neginf=0).clip(-9, 9).astype(np.float32)
    spoilt = good.copy()
    spoilt[3, 1] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        UncertaintyBalancedClassifier(epochs=1).fit(spoilt, y)
    model = UncertaintyBalancedClassifier("cross_entropy", epochs=1).fit(good, y)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.predict_proba(spoilt)


@pytest.mark.parametrize("value", HOLES[:3])
def test_features_that_are_not_finite_are_never_kept(tmp_path, value):
    torch.manual_seed(0)
    network = ImageBackbone(ImageInput(1), LeNet())
    pixels = np.random.default_rng(0).integers(0, 256, (20, 1, 28, 28), dtype=np.uint8)
    with torch.no_grad():
        next(iter(network.body.parameters())).view(-1)[0] = value
    with pytest.raises(InvalidInputError, match="returned non-finite features; check its weights"):
        extract_features(pixels, network, cache=tmp_path)
    assert not list(tmp_path.glob("*.npy"))
