"""A table whose later fits never end, as a program to be killed: ``slow_table.py FILE JOBS``."""

import os
import sys
import time
from pathlib import Path

from equipoise.app.compare.fit_store import Fit, ResultStore
from equipoise.app.compare.runner import run_fits

FITS = [Fit("sleep", "wait", seed) for seed in range(8)]
ENDING = 3
"""How many fits of the program end before it is killed."""


def new_store(path):
    return ResultStore(path, data={"none": "0"}, settings={})


class Noted:
    """Write the process of each fit it starts to a file; fits from number ``ending`` on never end."""

    def __init__(self, folder, ending=99):
        self.folder, self.ending = Path(folder), ending

    def __call__(self, fit):
        with (self.folder / f"started-{fit.seed}").open("a") as file:
            file.write(f"{os.getpid()}\n")
        while fit.seed >= self.ending:
            time.sleep(60)
        return {"scores": {"accuracy": fit.seed / 10}}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with new_store(path) as store:
        run_fits(FITS, store, Noted(path.parent, ENDING), jobs=int(sys.argv[2]))
