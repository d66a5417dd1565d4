"""Two processes under torchrun count every sample once and end alike; compared with one process at the same weights."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from accelerate import Accelerator

from equipoise.training.batches import capped_sample
from equipoise.training.measurements import estimate_class_uncertainty
from tests.training.digits_run import digits_network, imbalanced_digits, without_seconds
from tests.training.processes import ENVIRONMENT, ROOT, shared_once
from tests.training.two_processes import BALANCED_EPOCHS, BATCH, CAP, SIZES, everything

pytestmark = pytest.mark.slow  # three processes that import torch and train


def launched(folder: Path) -> dict:
    launcher = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),  # on a free port
            *("--nproc_per_node", "2", "-m", "tests.training.two_processes", str(folder)),
        ],
        cwd=ROOT,
        env=ENVIRONMENT | {"PYTHONWARNINGS": "error::UserWarning,ignore:training is short"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert launcher.returncode == 0, launcher.stderr
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
    files = sorted(path.name for path in (folder / "run").iterdir())
    return {"ranks": ranks, "metrics": (folder / "run" / "metrics.jsonl").read_text(), "files": files}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    return shared_once(tmp_path_factory, "together", launched)


@pytest.fixture(scope="module")
def ranks(together):
    return together["ranks"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return shared_once(tmp_path_factory, "alone", everything)


def test_torchrun_makes_one_group_of_its_processes(ranks):
    assert [rank["processes"] for rank in ranks] == [2, 2]


def test_class_uncertainty_sees_every_sample_on_one_process_only(ranks):
    y = imbalanced_digits().train.y
    seen = [rank["seen"]["10000"] for rank in ranks]
    assert sorted(seen[0] + seen[1]) == list(range(len(y)))
    assert abs(len(seen[0]) - len(seen[1])) <= 1
    capped = [rank["seen"][str(CAP)] for rank in ranks]
    assert sorted(capped[0] + capped[1]) == capped_sample(y, CAP, seed=0)[0].tolist()


def test_class_uncertainty_is_that_of_one_process(ranks):
    """Both processes draw the same sub-networks, so the estimates differ by rounding alone."""
    assert ranks[0]["uncertainty"] == ranks[1]["uncertainty"]
    alone = estimate_class_uncertainty(
        Accelerator(cpu=True),
        digits_network(),
        imbalanced_digits().train,
        passes=100,
        cap=10_000,
        seed=0,
        kind="relative",
    )
    np.testing.assert_allclose(ranks[0]["uncertainty"], alone.numpy(), rtol=1e-4)


def test_a_loop_of_ones_own_measures_as_one_process_does(ranks, alone):
    for name in ("margins", "scale"):
        assert ranks[0]["own_loop"][name] == ranks[1]["own_loop"][name]
        np.testing.assert_allclose(ranks[0]["own_loop"][name], alone["own_loop"][name], rtol=1e-4, atol=1e-5)
    assert max(alone["own_loop"]["margins"]) == 3.0


def test_more_processes_than_samples_are_no_trouble(ranks):
    assert ranks[0]["few"] == ranks[1]["few"]
    assert np.isfinite(ranks[0]["few"]).all()


@pytest.mark.parametrize("size", SIZES)
def test_validation_features_come_back_whole_and_in_order(ranks, alone, size):
    for rank in ranks:
        found = rank["features"][str(size)]
        expected = alone["features"][str(size)]
        np.testing.assert_allclose(found["features"], expected["features"], rtol=1e-6, atol=1e-6)


def test_both_processes_end_with_the_same_weights_margins_and_strength(ranks):
    first, second = (dict(rank["trained"]) for rank in ranks)
    assert without_seconds(first.pop("history")) == without_seconds(second.pop("history"))
    assert first == second
    assert max(first["margins"]) > 1
    assert first["strength"] > 0


def test_training_in_two_processes_gives_about_the_margins_of_one(ranks, alone):
    """Other masks, so other weights: the same classes are the uncertain ones."""
    two, one = (np.array(found["trained"]["uncertainty"]) for found in (ranks[0], alone))
    assert np.corrcoef(np.log(two), np.log(one))[0, 1] > 0.9
    np.testing.assert_allclose(ranks[0]["trained"]["margins"], alone["trained"]["margins"], atol=0.5)


def test_one_process_writes(together):
    records = [json.loads(line) for line in together["metrics"].splitlines()]
    assert [record["epoch"] for record in records] == list(range(6))
    assert records == together["ranks"][0]["trained"]["history"]
    assert together["files"] == ["checkpoints", "metrics.jsonl", "run.json", "softmax.safetensors"]


def test_a_balanced_order_survives_distribution(ranks, alone):
    y = imbalanced_digits().train.y[:500].numpy()
    shares = [[row for batch in rank["batches"] for row in batch] for rank in ranks]
    whole = [row for batch in alone["batches"] for row in batch]
    joined = [row for pair in zip(*(rank["batches"] for rank in ranks), strict=True) for part in pair for row in part]
    assert joined == whole, "each batch is the single process's, cut in two"
    assert [len(batch) for batch in ranks[0]["batches"]] == [BATCH // 2] * (BALANCED_EPOCHS * 10)
    for share in shares:
        counts = np.bincount(y[share], minlength=10)  # 1,000 draws: 100 ± 9.5 a class
        assert np.abs(counts - len(share) / 10).max() < 4 * np.sqrt(len(share) * 0.1 * 0.9)
    assert np.bincount(y[shares[0]], minlength=10).min() > 5 * (y == rarest(y)).sum()
    assert shares[0] != shares[1]


def rarest(y: np.ndarray) -> int:
    return int(np.bincount(y).argmin())
