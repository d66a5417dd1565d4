"""SIGKILL at random moments of training, reproducing, extracting features and predicting, each resumed; writes JSON.

Every attempt is a process of its own, forked from one that has the packages loaded already. The moment is a share of
the CPU time that an undisturbed attempt takes, drawn evenly, and a few milliseconds more of the clock, so that
waiting for the disk has its share. After each kill every file that has its name must be whole; after the attempt that
follows the results must be those of the undisturbed one, work that was safe before must not have been done again, and
nothing must be left of the killed process.
"""

import argparse
import gzip
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
import safetensors
import torch

import equipoise
import equipoise.app.report.run_page
import equipoise.app.runs.predict
import equipoise.main
import equipoise.paper.tables
from equipoise.models import ImageBackbone, ImageInput, extract_features, feature_store, resnet18
from equipoise.storage.files import write_atomically

RESULT = Path(__file__).parent / "results/kill_points.json"
KILLS, SEED = 50, 0
LONGEST_WAIT, LONGEST_ATTEMPT = 0.02, 600.0  # seconds
PACE = ("seconds", "elapsed", "code")
TOOK = r"This took (less than )?[0-9.,]+ (s|min|h) of one core"
OLD = "answers of an earlier day\n"


@dataclass(frozen=True)
class Subject:
    """Something that is killed.

    Args:
        attempt: done in a process of its own, which it may end; beginning and resuming are the same call.
        result: what must be equal in the end, from the folder.
        safe: what must not be lost, from the folder at the moment of the kill; a count for the record, and what to
            look for in the end.
        kept: whether the end still has what was safe.
    """

    attempt: Callable[[Path], None]
    result: Callable[[Path], Any]
    safe: Callable[[Path], tuple[int, Any]]
    kept: Callable[[Path, Any], bool]


def command(*arguments: object) -> None:
    """The command line, as a person types it."""
    sys.argv = ["equipoise", *map(str, arguments)]
    equipoise.main.main()


def without_seconds(value: Any) -> Any:
    """JSON without what depends on the machine's pace."""
    if isinstance(value, dict):
        return {key: without_seconds(inner) for key, inner in value.items() if key not in PACE}
    return [without_seconds(inner) for inner in value] if isinstance(value, list) else value


def lines(path: Path) -> list[str]:
    """Whole lines of a file, none where it is not there."""
    return path.read_text().splitlines(keepends=True) if path.exists() else []


def train(folder: Path) -> None:
    """The same words each time, ``--resume`` among them; what the program itself then asks for is done as well."""
    run = folder / "run"
    if (run / "model.json").exists() and not (run / "report.html").exists():
        command("report", run)
        return
    table, options = folder.parent / "rows.csv", ("--target", "label", "--epochs", 12, "--quiet")
    command("train", table, *options, "--resume", "--out", run)


def train_result(folder: Path) -> Any:
    run = folder / "run"
    assert (run / "report.html").read_text().rstrip().endswith("</html>")
    found: dict[str, Any] = {}
    for name in ("run.json", "model.json", "scores.json", "before_scores.json", "gallery.json", "split.json"):
        found[name] = without_seconds(json.loads((run / name).read_text()))
    found["run.json"].pop("command")
    found["metrics"] = [without_seconds(json.loads(line)) for line in lines(run / "metrics.jsonl")]
    for name in ("model.safetensors", "softmax.safetensors"):
        found[name] = (run / name).read_bytes()
    with np.load(run / "held_out.npz") as arrays:
        found["held_out"] = {name: values.tobytes() for name, values in arrays.items()}
    return found


def train_safe(folder: Path) -> tuple[int, Any]:
    """Epochs with a checkpoint; their records have the seconds of the attempt that trained them."""
    saved = sorted((folder / "run/checkpoints").glob("step-*.safetensors"))
    if not saved:
        return 0, []
    with safetensors.safe_open(saved[-1], framework="np") as file:
        history = json.loads(file.metadata()["state"])["position"]["history"]
    return len(history), history


def train_kept(folder: Path, history: Any) -> bool:
    return [json.loads(line) for line in lines(folder / "run/metrics.jsonl")][: len(history)] == history


def reproduce(folder: Path) -> None:
    options = ("--smoke", "--seeds", 1, "--methods", "cross_entropy,uncertainty_margin", "--quiet")
    command("reproduce", "mnist", "--data", folder.parent / "data", "--out", folder, *options)


def reproduce_result(folder: Path) -> Any:
    records = [without_seconds(json.loads(line)) for line in lines(folder / "mnist-smoke.jsonl")]
    page = (folder / "mnist-smoke.md").read_text()
    assert len(page) > 500
    without, found = re.subn(TOOK, "", page)
    assert found == 1, "the page no longer says how long it took in these words"
    return records, without


def reproduce_safe(folder: Path) -> tuple[int, Any]:
    written = [line for line in lines(folder / "mnist-smoke.jsonl") if line.endswith("\n")]
    return max(0, len(written) - 1), written


def reproduce_kept(folder: Path, written: Any) -> bool:
    return lines(folder / "mnist-smoke.jsonl")[: len(written)] == written


def extract(folder: Path) -> None:
    feature_store.SECONDS_BETWEEN_RECORDS = 0.05
    torch.manual_seed(0)
    pixels = np.random.default_rng(0).integers(0, 256, (300, 3, 32, 32), dtype=np.uint8)
    started = []

    def progress(done: int, total: int) -> None:  # noqa: ARG001
        if not started:
            started.append(done)
            (folder / "begun").write_text(str(done))

    extract_features(pixels, ImageBackbone(ImageInput(3), resnet18()), cache=folder, batch_size=5, progress=progress)


def extract_result(folder: Path) -> Any:
    (path,) = folder.glob("*.npy")
    return path.read_bytes()


def extract_safe(folder: Path) -> tuple[int, Any]:
    """Rows that the record promises."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    rows = sum(number for number, _ in found[0]["parts"]) if found else 0
    return rows, rows


def extract_kept(folder: Path, rows: Any) -> bool:
    return int((folder / "begun").read_text()) >= rows


def predict(folder: Path) -> None:
    source, out = folder.parent / "many.csv", folder / "answers.csv"
    if not out.exists():
        out.write_text(OLD)
    command("predict", folder.parent / "trained/run", source, "--out", out, "--force", "--quiet")


def predict_result(folder: Path) -> Any:
    return (folder / "answers.csv").read_bytes()


def predict_safe(folder: Path) -> tuple[int, Any]:
    """The file is the earlier one, or all of the new one."""
    found = lines(folder / "answers.csv")
    assert found in ([], [OLD]) or len(found) == MANY + 1, f"answers.csv has {len(found)} lines"
    return max(0, len(found) - 1), None


def predict_kept(folder: Path, nothing: Any) -> bool:  # noqa: ARG001
    return True


SUBJECTS = {
    "train": Subject(train, train_result, train_safe, train_kept),
    "reproduce": Subject(reproduce, reproduce_result, reproduce_safe, reproduce_kept),
    "features": Subject(extract, extract_result, extract_safe, extract_kept),
    "predict": Subject(predict, predict_result, predict_safe, predict_kept),
}
MANY = 60_000


def prepare(root: Path) -> None:
    """Small data for all: a table, a longer one, and digits in the layout of MNIST."""
    rng = np.random.default_rng(SEED)
    for name, rows in (("rows.csv", 600), ("many.csv", MANY)):
        frame = pd.DataFrame(rng.normal(size=(rows, 8)).round(4), columns=[f"column {place}" for place in range(8)])
        frame["label"] = np.where(frame["column 0"] + frame["column 1"] > 1.5, "rare", "common")
        frame.to_csv(root / name, index=False)
    folder = root / "data/mnist"
    folder.mkdir(parents=True)
    for part, each in (("train", 30), ("t10k", 12)):
        labels = np.repeat(np.arange(10), each)
        pixels = (rng.integers(0, 60, (len(labels), 28, 28)) + 19 * labels[:, None, None]).astype(np.uint8)
        for kind, array in (("images-idx3", pixels), ("labels-idx1", labels.astype(np.uint8))):
            head = bytes([0, 0, 8, array.ndim]) + b"".join(side.to_bytes(4, "big") for side in array.shape)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))


def start(subject: Subject, folder: Path) -> int:
    """An attempt in a process of its own; what it says is kept beside the folder."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        said = os.open(folder.with_suffix(".said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1), os.dup2(said, 2)
        os.environ |= {"EQUIPOISE_CACHE": str(folder.parent / "cache"), "TERM": "dumb"}
        torch.set_num_threads(1)
        try:
            subject.attempt(folder)
        finally:
            folder.with_suffix(".modules").write_text("\n".join(sys.modules))
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


def load_what_it_loaded(folder: Path) -> None:
    """The modules of an earlier attempt, so that the next ones spend their time on the work itself."""
    for name in folder.with_suffix(".modules").read_text().split():
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def processor_seconds(process: int) -> float:
    """Return the CPU seconds of a child process that has not been waited for."""
    return time.clock_gettime((~process << 3) | 2)  # as clock_getcpuclockid(3) has it on Linux


def ended(process: int, until: Callable[[], bool]) -> int | None:
    """The exit code of a process, or None where ``until`` was true before its end."""
    end = time.monotonic() + LONGEST_ATTEMPT
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if until():
            return None
        time.sleep(0.004)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError(f"an attempt did not end within {LONGEST_ATTEMPT:.0f} seconds")


def through(subject: Subject, folder: Path) -> float:
    """An attempt to its end; the CPU seconds it took."""
    process, spent = start(subject, folder), 0.0

    def look() -> bool:
        nonlocal spent
        spent = processor_seconds(process)
        return False

    code = ended(process, look)
    assert code == 0, f"exit code {code}: {folder.with_suffix('.said').read_text()[-2000:]}"
    return spent


def half_written(folder: Path) -> list[str]:
    """Files that have their name and cannot be read to the end."""
    found = []
    for path in folder.rglob("*"):
        if path.is_dir() or path.name.startswith(".") or path.name.endswith((".npy.part", ".lock")):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".jsonl":
                [json.loads(line) for line in path.read_text().splitlines()]
            elif path.suffix == ".safetensors":
                with safetensors.safe_open(path, framework="np") as file:
                    [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
            elif path.suffix in (".npz", ".npy"):
                np.load(path)
            elif path.suffix == ".html":
                assert path.read_text().rstrip().endswith("</html>")
        except Exception as error:
            found.append(f"{path.relative_to(folder)} is half written ({type(error).__name__})")
    return found


def left_over(folder: Path) -> list[str]:
    return [f"{path.relative_to(folder)} is left over" for path in folder.rglob("*") if path.name.endswith(".part")]


def kill_once(subject: Subject, folder: Path, moment: float, expected: Any, draw: random.Random) -> dict[str, Any]:
    """Begin, kill, look, resume, compare. An attempt that was over before its moment is told as such."""
    folder.mkdir()
    process = start(subject, folder)
    code = ended(process, lambda: processor_seconds(process) >= moment)
    if code is not None:
        shutil.rmtree(folder)
        return {"over": True}
    time.sleep(draw.uniform(0, LONGEST_WAIT))
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        shutil.rmtree(folder)
        return {"over": True}
    parts = sorted(path.name.split(".")[1] for path in folder.rglob(".*.part"))
    problems = half_written(folder)
    safe, wanted = subject.safe(folder)
    try:
        through(subject, folder)
        if subject.result(folder) != expected:
            problems.append("the results differ")
        if not subject.kept(folder, wanted):
            problems.append("what was safe was done again")
        problems += left_over(folder)
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}")
    if not problems:
        shutil.rmtree(folder)
    return {"safe": safe, "being_written": parts, "problems": problems}


def kill(name: str, root: Path, kills: int, seed: int, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """So many kills of one subject; what is known so far is kept after each."""
    subject, draw = SUBJECTS[name], random.Random(f"{name} {seed}")
    first, undisturbed = root / "first", root / "undisturbed"
    for folder in (first, undisturbed):
        folder.mkdir()
        seconds = through(subject, folder)
        load_what_it_loaded(folder)
    expected, found = subject.result(undisturbed), []
    while len(found) < kills:
        share = draw.random()
        one = kill_once(subject, root / f"{name}-{len(found)}", share * seconds, expected, draw)
        if "over" not in one:
            found.append({"share": round(share, 4), **one})
            keep({"processor_seconds": round(seconds, 2), "kills": found})
            print(name, len(found), found[-1], file=sys.stderr, flush=True)
    for folder in (first, undisturbed):
        shutil.rmtree(folder)
    return {"processor_seconds": round(seconds, 2), "kills": found}


def keep(path: Path, seed: int, subject: str, found: dict[str, Any]) -> None:
    """Into the JSON; subjects that were killed another time stay."""
    versions = {"equipoise": equipoise.__version__, "torch": str(torch.__version__), "python": sys.version.split()[0]}
    known = json.loads(path.read_text())["subjects"] if path.exists() else {}
    result = {"versions": versions, "seed": seed, "subjects": known | {subject: found}}
    write_atomically(path, json.dumps(result, indent=1).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="of each subject")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--subjects", default=",".join(SUBJECTS))
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        prepare(root)
        (root / "trained").mkdir()
        through(SUBJECTS["train"], root / "trained")
        load_what_it_loaded(root / "trained")
        for subject in asked.subjects.split(","):
            found[subject] = kill(subject, root, asked.kills, asked.seed, partial(keep, asked.out, asked.seed, subject))
    wrong = [problem for subject in found.values() for one in subject["kills"] for problem in one["problems"]]
    print(f"{sum(len(subject['kills']) for subject in found.values())} kills, {len(wrong)} problems", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
