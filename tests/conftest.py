"""One thread, one seed, and no machine-dependent example counts: the suite runs alike everywhere."""

import gc
import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("EQUIPOISE_TEXT_ENCODER", "none")  # whatever is installed
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")  # some virtual machines offer AMX and crash on it

import pytest
import torch
from hypothesis import HealthCheck, settings

gc.disable()  # until everything is imported and collected, all of which stays
torch.set_num_threads(1)
os.fsync = lambda _: None  # no test cuts the power, and waiting for the disk takes as long as a small fit
sys.dont_write_bytecode = False  # else each worker, and each command in a process of its own, compiles everything anew
settings.register_profile(
    "fast", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fast")
if sys.platform == "win32":  # limits, locks and signals of POSIX
    collect_ignore_glob = ["faults/*", "fuzz/*"]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
