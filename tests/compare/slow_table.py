"""A table of sleeping cells, as a program to be killed: ``slow_table.py FILE JOBS``."""

import os
import sys
import time
from pathlib import Path

from equipoise.compare.cells import Cell, CellStore
from equipoise.compare.running import run_cells

CELLS = [Cell("sleep", "wait", seed) for seed in range(8)]


def new_store(path):
    return CellStore(path, data={"none": "0"}, settings={})


class Sleeper:
    """Leaves a file for each cell it starts, with its process."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds = Path(folder), seconds

    def __call__(self, cell):
        with (self.folder / f"started-{cell.seed}").open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(self.seconds)
        return {"scores": {"accuracy": cell.seed / 10}}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with new_store(path) as store:
        run_cells(CELLS, store, Sleeper(path.parent, 0.3), jobs=int(sys.argv[2]))
