"""Restarted processes find each other in a store where those that were killed left their addresses."""

import json
import os
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from equipoise.errors import InvalidStateError
from equipoise.training.processes import init_method, store_of_this_attempt
from tests.training.groups import Groups

SOON = timedelta(seconds=60)


def meet(store: dist.Store, order: list[int]) -> list[str]:
    """One attempt: processes arrive in this order, each once the one before has been in the store; their parts."""
    found: dict[int, str] = {}

    def arrive(rank: int) -> None:
        own = store_of_this_attempt(store.clone(), rank, len(order), SOON)
        own.set(f"address of {rank}", str(time.monotonic_ns()))
        found[rank] = str([own.get(f"address of {each}") for each in range(len(order))])

    threads = [threading.Thread(target=arrive, args=(rank,)) for rank in order]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    return [found[rank] for rank in sorted(found)]


def test_processes_of_every_attempt_see_each_other_and_nobody_from_before():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=SOON)
    attempts = [meet(store, order) for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0])]
    assert all(len(set(seen)) == 1 for seen in attempts)
    assert len({seen[0] for seen in attempts}) == 3


def test_one_that_stays_alone_says_so():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=SOON)
    store.set("word/1", "of a process that was killed")
    with pytest.raises(InvalidStateError, match=r"process 0 of 2 waited 0\.2 seconds for the others"):
        store_of_this_attempt(store, 0, 2, timedelta(seconds=0.2))


def test_only_processes_of_torchrun_meet_by_their_own_method(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    assert init_method() is None
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert init_method() == "equipoise://"


def restarted(port: int, attempt: int) -> float:
    """Join an attempt that uses torchrun's store, the second process a while after the first; the sum of the ranks."""
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": str(port)}
    rank = int(os.environ["RANK"])
    time.sleep(0.3 * ((rank + attempt) % 2))
    dist.init_process_group("gloo", init_method=init_method(), timeout=SOON)
    total = torch.tensor(float(rank))
    dist.all_reduce(total)
    return float(total)


@pytest.mark.slow
def test_gloo_connects_to_the_processes_of_its_own_attempt():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=SOON)
    with Groups() as groups:
        for attempt in range(3):  # none of them leaves its group in good order
            found = groups.answers(2, "tests.training.test_meeting:restarted", port=store.port, attempt=attempt)
            assert found == [1.0, 1.0], json.dumps(found)
