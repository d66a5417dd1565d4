"""The recipes for other libraries' training loops, where these libraries are installed."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

import equipoise

RECIPES = Path(__file__).parent.parent / "examples" / "adapters"
STAGES = ["softmax"] + ["class"] * 3 + ["sample"] * 2
RARE = [2, 3, 4, 5, 7]  # the digits that `step` thins out with its seed 0
OUTDATED = "ignore:.*LeafSpec.*is deprecated:FutureWarning"  # Lightning's own use of torch
WORKERS = "ignore:.*does not have many workers"
BATCHES = "ignore:The number of training batches"


def recipe(name: str, library: str) -> dict:
    """A recipe's names, or a skip without its library."""
    pytest.importorskip(library, reason=f"{library} is not installed")
    return runpy.run_path(str(RECIPES / f"{name}.py"))


def assert_driven(stages, strengths, loss):
    """The three stages in their order; no margins in the first, and at the end those of the rare classes largest."""
    assert list(stages) == STAGES
    assert strengths[0] == 0.0
    assert min(strengths[1:]) > 0.3
    assert float(loss.sample_strength) == 1.0
    assert float(loss.margins.min()) == 1.0
    assert float(loss.margins.max()) == 3.0
    assert float(loss.strength) == pytest.approx(strengths[-1])


def test_skorch_goes_through_the_stages_and_finds_rare_digits():
    net, recall = recipe("skorch_net", "skorch")["main"](epochs=6)
    assert_driven(net.history[:, "stage"], net.history[:, "strength"], net.criterion_)
    common = [digit for digit in range(10) if digit not in RARE]
    assert float(net.criterion_.margins[RARE].min()) > float(net.criterion_.margins[common].max())
    assert recall[RARE].mean() > 0.6
    x = torch.rand(5, 64).numpy()
    assert net.predict_proba(x).sum(1) == pytest.approx([1] * 5, abs=1e-5)
    assert (net.predict(x) == net.predict_proba(x).argmax(1)).all()


def test_skorch_without_held_out_samples_corrects_nothing():
    names = recipe("skorch_net", "skorch")
    x, y = torch.rand(60, 4).numpy(), (torch.arange(60) % 6 == 0).long().numpy()
    net = names["make_net"](4, 2, epochs=3, callback=names["CurriculumCallback"]()).fit(x, y)
    assert net.history[:, "stage"] == ["softmax", "class", "sample"]
    assert float(net.criterion_.shift.abs().max()) == 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings(OUTDATED, WORKERS, BATCHES)
def test_lightning_goes_through_the_stages_and_finds_rare_digits():
    module, callback, recall = recipe("lightning_module", "lightning")["main"](epochs=6)
    stages, strengths = zip(*callback.seen, strict=True)
    head = module.loss
    assert_driven(stages, strengths, head)
    common = [digit for digit in range(10) if digit not in RARE]
    assert float(head.margins[RARE].min()) > float(head.margins[common].max())
    assert float(recall[RARE].mean()) > 0.6


@pytest.mark.slow
@pytest.mark.filterwarnings(OUTDATED, WORKERS, BATCHES)
def test_a_lightning_checkpoint_goes_on_in_its_stage(tmp_path):
    names = recipe("lightning_module", "lightning")
    x, y = torch.rand(64, 64), (torch.arange(64) % 8 == 0).long()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32)

    def callback():
        return names["CurriculumCallback"](names["Curriculum"](6))

    module, first = names["make_module"](), callback()
    trainer = names["make_trainer"](first, epochs=3)
    trainer.fit(module, loader)
    trainer.save_checkpoint(tmp_path / "third.ckpt")
    resumed, second = names["make_module"](), callback()
    names["make_trainer"](second, epochs=6).fit(resumed, loader, ckpt_path=tmp_path / "third.ckpt", weights_only=True)
    assert [stage for stage, _ in first.seen + second.seen] == STAGES
    torch.testing.assert_close(second.curriculum.uncertainty, first.curriculum.uncertainty)
    torch.testing.assert_close(resumed.loss.margins, module.loss.margins)


@pytest.mark.slow
def test_the_hugging_face_trainer_goes_through_the_stages():
    model, callback, recall = recipe("huggingface_trainer", "transformers")["main"](epochs=6)
    stages, strengths = zip(*callback.seen, strict=True)
    assert_driven(stages, strengths, model.head)
    assert model.head.margins.argmax() == 2  # the rarest class
    assert float(model.head.shift.max()) > 0
    assert float(recall[2]) > 0.5


@pytest.mark.slow
def test_a_hugging_face_checkpoint_goes_on_in_its_stage(tmp_path):
    names = recipe("huggingface_trainer", "transformers")
    data = names["sentences"]((40, 12, 6), seed=0)
    first, second = (names["CurriculumCallback"](names["Curriculum"](3)) for _ in range(2))
    whole = names["make_model"](3)
    names["train"](whole, first, data, str(tmp_path))
    checkpoint = min(tmp_path.glob("checkpoint-*"), key=lambda folder: int(folder.name.partition("-")[2]))
    resumed = names["make_model"](3)
    names["train"](resumed, second, data, str(tmp_path), resume=str(checkpoint))
    assert [stage for stage, _ in second.seen] == ["class", "sample"]
    torch.testing.assert_close(second.curriculum.uncertainty, first.curriculum.uncertainty)
    torch.testing.assert_close(resumed.head.margins, whole.head.margins)
    assert second.seen == first.seen[1:]


def test_a_model_logged_to_mlflow_comes_back_as_it_was(tmp_path):
    before, after = recipe("mlflow_model", "mlflow")["main"](str(tmp_path))
    np.testing.assert_array_equal(before, after)


def test_no_library_of_a_recipe_is_imported_by_the_package():
    sources = list(Path(equipoise.__file__).parent.rglob("*.py"))
    # transformers serves backbones and sentence encoders too: imported where it is used, never at the top
    imports = re.compile(r"^(?:\s*(?:from|import) (?:lightning|skorch)|(?:from|import) transformers)\b", re.MULTILINE)
    assert len(sources) > 50
    assert [path.name for path in sources if imports.search(path.read_text(encoding="utf-8"))] == []
