"""Checkpoints that are cut off, or lead elsewhere."""

import json

import pytest
import safetensors.torch
import torch

from equipoise.errors import InvalidInputError
from equipoise.training.checkpoints import Checkpoints
from tests.training.digits_run import run, without_seconds


@pytest.fixture(scope="module")
def undisturbed():
    return run(None, epochs=3)


def cut(folder, number):
    """Cut off the newest few checkpoints; how many there were."""
    paths = sorted((folder / "checkpoints").glob("step-*"))
    for path in paths[len(paths) - number :]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return len(paths)


@pytest.mark.parametrize("number", [1, 2])
def test_a_run_goes_on_from_what_is_whole_or_from_the_beginning(tmp_path, undisturbed, number):
    run(tmp_path, epochs=3)
    assert cut(tmp_path, number) == 2
    with pytest.warns(UserWarning, match=r"step-\d+\.safetensors is damaged .*the checkpoint before it is used"):
        sha256, history = run(tmp_path, epochs=3)
    assert sha256 == undisturbed[0]
    assert without_seconds(history) == without_seconds(undisturbed[1])
    assert Checkpoints(tmp_path / "checkpoints").newest()[1]["position"]["epoch"] == 3


@pytest.mark.parametrize("state", ["[]", "{}", '{"position": 3}', "[" * 100_000])
def test_a_state_that_is_none_is_refused_or_passed_over(tmp_path, state):
    run(tmp_path, epochs=1)
    for path in (tmp_path / "checkpoints").glob("step-*"):
        tensors = safetensors.torch.load_file(path)
        path.write_bytes(safetensors.torch.save(tensors, metadata={"state": state}))
    if isinstance(json.loads(state) if len(state) < 100 else [], dict):
        with pytest.raises(InvalidInputError, match="is damaged, or its parts contradict each other; delete"):
            run(tmp_path, epochs=1)
    else:
        with pytest.warns(UserWarning, match="is damaged"):
            run(tmp_path, epochs=1)


def test_tensors_of_another_network_are_refused(tmp_path):
    run(tmp_path, epochs=1)
    for path in (tmp_path / "checkpoints").glob("step-*"):
        with safetensors.safe_open(path, framework="pt") as file:
            state = file.metadata()
        path.write_bytes(safetensors.torch.save({"network/x": torch.ones(2)}, metadata=state))
    with pytest.raises(InvalidInputError, match=r"checkpoints is damaged.*delete that folder to train from the"):
        run(tmp_path, epochs=1)


def test_a_folder_of_checkpoints_that_leads_elsewhere_is_refused(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".notes.123-0badcafe.part").write_text("a stranger's")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(outside)
    with pytest.raises(InvalidInputError, match="checkpoints is a link; put the folder itself there"):
        run(tmp_path / "run", epochs=1)
    assert [path.name for path in outside.iterdir()] == [".notes.123-0badcafe.part"]
