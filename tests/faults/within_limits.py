"""Read files in processes of their own, and print what came of each, its CPU time and memory, and the pace."""

import io
import json
import os
import resource
import sys
import time
from pathlib import Path

import pandas as pd
from torch import nn

from equipoise.app.run_folder import read_run_record
from equipoise.app.runs.run_options import read_config
from equipoise.data.encoder import TableEncoder
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.errors import EquipoiseError
from equipoise.models.pretrained_weights import load_weights

MOST_SECONDS, MOST_BYTES = 60, 3 * 2**30
ENDED = json.dumps({"said": "the process was ended", "seconds": 1e9, "megabytes": 1e9, "pace": 0.0})
PLAIN = "".join(f"{row},{row / 7:.4f},name {row % 9}\n" for row in range(20_000))


def read(path: Path) -> None:
    """By the name of the file's folder."""
    kind = path.parent.name
    if kind == "options":
        read_config(path)
    elif kind == "weights":
        load_weights(nn.Linear(2, 2), path)
    elif kind == "run":
        read_run_record(path.parent)
    elif kind == "parts":
        for _ in iterate_table(path, rows=20_000):
            pass
    else:
        TableEncoder().fit(read_table(path, target="y").x)


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def pace() -> float:
    """CPU seconds for plain work of the same kind, a measure of how fast the machine is just now."""
    begun = time.process_time()
    for _ in range(3):
        pd.read_csv(io.StringIO(PLAIN), header=None)
        json.loads(json.dumps(PLAIN.split("\n")))
    return time.process_time() - begun


def in_a_child(path: Path, out: int) -> None:
    """Fork, read, and tell; a child that takes far too much is ended by the system."""
    if os.fork():
        return
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    slowest = pace()
    before = megabytes()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    used = resource.getrusage(resource.RUSAGE_SELF)
    try:
        read(path)
        said = "read"
    except EquipoiseError as error:
        said = str(error)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    now = resource.getrusage(resource.RUSAGE_SELF)
    seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    told = {"said": said, "seconds": seconds, "megabytes": megabytes() - before, "pace": max(slowest, pace())}
    os.write(out, json.dumps(told).encode())
    os._exit(0)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        source, sink = os.pipe()
        in_a_child(Path(name), sink)
        os.close(sink)
        with os.fdopen(source, "rb") as answer:
            told = answer.read()
        os.wait()
        print(told.decode() or ENDED)
