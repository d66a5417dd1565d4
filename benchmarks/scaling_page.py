"""docs/results/scaling.md: what was measured on this scale, and a cost model from measured constants.

python benchmarks/scaling_page.py
"""

import textwrap
from pathlib import Path

from cost_model import model, read

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/results/scaling.md"
GUIDE, MARKS = ROOT / "docs/scaling-out.md", ("<!-- measured -->", "<!-- end of what was measured -->")


def streaming() -> list[str]:
    """Measured: Parquet on disk."""
    found = read("streaming")
    if found is None:
        return []
    rows = [
        f"| {name} | {run['file_mb']:,} | {run['above_interpreter_mb']:,} | {run['processor_seconds']:,} | "
        f"{run['balanced_accuracy']:.3f} |"
        for name, run in found["rows"].items()
    ]
    return [
        "## Tables on disk",
        "",
        f"`equipoise train` on Parquet of {found['columns']} columns in row groups of {found['row_group']:,}, one "
        f"pass over the data, batches of {found['batch']:,}, hidden layers of {found['width']}, one thread (`python "
        "benchmarks/streaming.py`).",
        "",
        "| rows | files, MB | memory above the interpreter, MB | CPU seconds in total | balanced accuracy |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def class_parallel() -> list[str]:
    """Measured: classes shared by processes."""
    found = read("class_parallel")
    if found is None:
        return []
    rows = []
    for name, own in found.items():
        if name not in ("versions", "shape"):
            (_, whole), (label, shared), (_, ratios) = own.items()
            rows.append(
                f"| `{name}` | {whole['mb_per_process']:,} | {shared['mb_per_process']:,} | "
                f"{ratios['mb_per_process']:.2f} | {ratios['processor_seconds_per_step']:.2f} |"
            )
    return [
        "## Classes shared by four processes",
        "",
        f"{label}, compared with 100,000 classes in one process: 512 features, a batch of "
        f"{found['shape']['batch']}, SGD (`python benchmarks/class_parallel.py`). In theory, ten times the classes on "
        "four processes need 2.5 times the memory in each process and ten times the work in total.",
        "",
        "| loss | MB, one process | MB, each of four | ratio of memory | ratio of CPU time |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def sharding() -> list[str]:
    """Measured: a network shared by processes."""
    found = read("sharded_memory")
    if found is None:
        return []
    shape, one = found["shape"], found["processes"]["1"]
    rows = [
        f"| {processes} | {own['held_mb']:,.0f} | {own['held_mb'] / one['held_mb']:.2f} | {own['peak_mb']:,.0f} | "
        f"{own['peak_mb'] / one['peak_mb']:.2f} |"
        for processes, own in found["processes"].items()
    ]
    return [
        "## A network shared by processes",
        "",
        f"{shape['layers']} layers of {shape['width']:,}, AdamW, shared by FSDP2 (`equipoise.training.sharding`), a "
        f"batch of {shape['batch']} in all (`python benchmarks/sharded_memory.py`). Each process holds its "
        "share of weights, gradients and optimiser state. The peak is its resident memory minus that of the "
        "interpreter with torch; it also contains the layers that FSDP2 has gathered for their computation, and "
        "gloo's buffers. We set `MALLOC_MMAP_THRESHOLD_=1048576`, so that glibc returns freed layers at once. "
        "Without it, each process keeps more memory than a single process would need for the whole network.",
        "",
        "| processes | held by each, MB | ratio | peak, MB | ratio |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def measured() -> str:
    """What the guide tells of all this, a bullet each."""
    tables, heads, shards, steps = (
        read(n) for n in ("streaming", "class_parallel", "sharded_memory", "training_speed")
    )
    small, *_, large = sorted(tables["rows"], key=lambda name: float(name.split()[0]))
    first, last = tables["rows"][small], tables["rows"][large]
    ratios = [own["ratios"] for name, own in heads.items() if name not in ("versions", "shape")]
    held = {count: own["held_mb"] / shards["processes"]["1"]["held_mb"] for count, own in shards["processes"].items()}
    spread = {name: f"{min(r[name] for r in ratios):.1f} to {max(r[name] for r in ratios):.1f}" for name in ratios[0]}
    shares = ", ".join(f"{own['share']:.0%} ({name})" for name, own in steps["steps"].items())
    bullets = [
        f"Training from disk on {large} rows of {tables['columns']} columns needs {last['above_interpreter_mb']:,} MB "
        "beyond the interpreter, and "
        f"{last['processor_seconds'] / first['processor_seconds']:.1f} times the CPU time of {small} rows.",
        "A million classes of 512 features on four processes, compared with 100,000 classes on one, need "
        f"{spread['mb_per_process']} times the memory per process and {spread['processor_seconds_per_step']} times the "
        "CPU time per step.",
        f"With FSDP2, each of two processes holds {held['2']:.2f} of the memory that a single process holds, and each "
        f"of four {held['4']:.2f}.",
        f"Matrix products take this share of the time of a training step: {shares}.",
    ]
    return "\n".join(textwrap.fill(each, 128, initial_indent="- ", subsequent_indent="  ") for each in bullets)


def with_measured(guide: str) -> str:
    """Return the guide with these bullets between its marks."""
    before, rest = guide.split(MARKS[0])
    return f"{before}{MARKS[0]}\n{measured()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


def lines() -> list[str]:
    """The page, line by line."""
    return [
        "# Beyond one machine",
        "",
        "What was measured, and what follows for data that do not fit here. [Scaling out](../scaling-out.md) says how "
        "to use it, [speed of training](training-speed.md) how fast a step is. Repeat the page with `python "
        "benchmarks/scaling_page.py`.",
        "",
        *streaming(),
        *class_parallel(),
        *sharding(),
        *model(),
    ][:-1]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    GUIDE.write_text(with_measured(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
