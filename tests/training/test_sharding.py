"""A network shared by two or four processes trains as one process does, and its checkpoints fit any number of them."""

import pytest

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.training.sharding import load_sharded, shard_network
from tests.marks import mostly_nightly
from tests.training.groups import Groups
from tests.training.sharded_network import new_network, optimizer_of


@pytest.fixture(scope="module")
def groups():
    with Groups() as found:
        yield found


@pytest.mark.parametrize("processes", mostly_nightly([2, 4]))
def test_processes_share_a_network_and_train_it_as_one(groups, tmp_path, processes):
    found = groups.answers(processes, "tests.training.sharded_network:compare", folder=str(tmp_path))
    for each in found:
        assert each["names"]
        assert each["moved"] > 0.01
        assert each["difference"] < 1e-5
        assert all(name.endswith((".safetensors", ".json")) for name in each["files"]), "nothing that can run code"
    assert sum(each["share"] for each in found) == pytest.approx(1)
    assert max(each["share"] for each in found) < 1.3 / processes
    again = groups.answers(6 - processes, "tests.training.sharded_network:compare", folder=str(tmp_path), resume=True)
    assert max(each["difference"] for each in again) < 1e-5, "by another number of processes"


@pytest.mark.nightly
def test_accelerate_shares_nothing_between_cpus_which_is_why_this_module_exists(groups):
    found = groups.answers(2, "tests.training.sharded_network:by_accelerate")
    assert found == [{"kind": "MULTI_CPU", "wrapper": "DistributedDataParallel", "sharded": False}] * 2


def test_one_process_is_not_enough_and_a_folder_must_hold_a_checkpoint(tmp_path):
    network = new_network()
    with pytest.raises(InvalidStateError, match="needs several processes; start them with torchrun"):
        shard_network(network)
    with pytest.raises(InvalidInputError, match="is not a finished checkpoint of a sharded network"):
        load_sharded(tmp_path, network, optimizer_of(network))
