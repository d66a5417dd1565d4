"""Small files made to take gigabytes or minutes: 5 s of CPU time and 300 MB are the most that any may take.

The seconds are those of an idle machine; on a slower or busier one, which the pace of plain work shows, they are more.
"""

import bz2
import gzip
import json
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow  # a minute of reading, all told, on a busy machine

SECONDS, MEGABYTES = 5, 300
IDLE_PACE = 0.035
"""CPU seconds of :func:`within_limits.pace` where nothing else runs."""
UNPACKS = r"unpacks to more than [\d,]+ bytes from [\d,]+; "


def write_repeated(path, values, *, rows):
    """A column of one value, which is in the file once, and labels."""
    column = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), values)
    labels = pa.array([str(row % 2) for row in range(rows)])
    pq.write_table(pa.table({"x": column, "y": labels}), path, compression="zstd", store_schema=False)


def cells(text):
    return lambda path: path.write_text("x,y\n" + "".join(f"{text}{row},{row % 2}\n" for row in range(200)))


def packed(pack, head, block, blocks):
    """Streams one after another, which the readers take for one."""
    return lambda path: path.write_bytes(pack(head) + pack(block) * blocks)


def long_cells(path):
    write_repeated(path, ["x" * 6 * 10**7], rows=2)


def repeated_cells(path):
    write_repeated(path, ["x" * 10**5], rows=4000)


def cells_within_lists(path):
    values = pa.array([["x" * 10**5]] * 1000)
    pq.write_table(pa.table({"x": values, "y": pa.array(["a", "b"] * 500)}), path, compression="zstd")


def many_rows(path):
    rows = pa.table({"x": pa.array(np.zeros(10**6)), "y": pa.array(np.zeros(10**6, dtype=np.int64))})
    with pq.ParquetWriter(path, rows.schema) as file:
        for _ in range(6):
            file.write_table(rows)


def zeros(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, shape in (("X", (10**6, 6)), ("y", (10**6, 1))):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
                for _ in range(shape[1]):
                    file.write(bytes(8 * 10**6))


def tensors(header):
    return lambda path: path.write_bytes(struct.pack("<Q", len(header)) + header)


def empty_tensors(path):
    one = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    tensors(json.dumps({str(number): one for number in range(100_000)}).encode())(path)


def pickled(path):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("archive/data/0", "w") as file,
    ):
        for _ in range(5):
            file.write(bytes(10**7))


def text(content):
    return lambda path: path.write_text(content)


FILES = {
    "options/dots.toml": (text("a." * 30_000 + "b=1"), "a line has more than 100 dots"),
    "options/table.toml": (text(f"[{'a.' * 30_000}b]\nx=1"), "a line has more than 100 dots"),
    "options/tables.toml": (text("\n".join(f"[{'a.' * 99}b{number}]" for number in range(300))), "unknown option 'a'"),
    "options/large.toml": (text("# comment\n" * 10**6), r"it has 10,000,000 characters, more than the limit of 65,536"),
    "options/lists.toml": (text("a=" + "[" * 60_000), "nested too deeply"),
    "options/inline.toml": (text("a=" + "{b=" * 20_000), "nested too deeply"),
    "options/lists.json": (text("[" + "[]," * 10**6 + "[]]"), "it has more than 1,000,000 lists and objects"),
    "run/run.json": (
        text('{"options": [' + "{}," * 10**6 + "{}]}"),
        "it has more than 1,000,000 lists and objects",
    ),
    "table/months.csv": (cells("jan " * 2000), "read"),  # words, hence text; the limits are what counts
    "table/spaces.csv": (cells("1" + " " * 8000 + "x"), "no column is left to learn from: x: ignored"),
    "table/digits.csv": (cells("1," * 8000 + ";"), r"instead of|more than one|column names"),
    "table/blanks.csv": (text("x y\n1 0\n" + " " * 2**21 + "z\n" * 3), r"line 3|fields"),
    "table/tabs.csv": (text("x\ty\n1\t0\n" + "\t" * 2**21 + "z\n"), r"line 3|fields"),
    "table/same.csv": (text("a," * 10**6 + "y\n1,2\n"), "1,000,001 columns, more than the limit of 100,000"),
    "table/wide.csv": (text(",".join(map(str, range(10**5))) + "y\n1,2\n"), r"has \d fields|has no column 'y'|lacks"),
    "table/twice.csv": (text("a," * 90_000 + "y\n1,2\n"), "has more than one column named 'a'"),
    "table/rows.csv.gz": (
        packed(gzip.compress, b"x,y\n", b"1,a\n2,b\n" * 10**5, 60),
        UNPACKS + "if that is right, unpack",
    ),
    "table/rows.csv.bz2": (packed(bz2.compress, b"x,y\n", b"1,a\n2,b\n" * 10**5, 60), UNPACKS),
    "table/line.csv.gz": (packed(gzip.compress, b"x,y\n", b"1" * 10**6, 60), UNPACKS),
    "table/quote.csv.gz": (packed(gzip.compress, b'x,y\n1,"', b"text\n" * 10**5, 120), UNPACKS),
    "parts/line.csv.gz": (packed(gzip.compress, b"x,y\n", b"1" * 10**6, 60), UNPACKS),
    "table/long.parquet": (long_cells, UNPACKS + "leave out columns of long text, or save the table as CSV"),
    "table/repeated.parquet": (repeated_cells, UNPACKS),
    "table/lists.parquet": (cells_within_lists, UNPACKS + "leave out the column 'x', whose cells hold several values"),
    "table/rows.parquet": (many_rows, UNPACKS),
    "parts/repeated.parquet": (repeated_cells, UNPACKS),
    "parts/rows.parquet": (many_rows, "read"),
    "table/zeros.npz": (zeros, UNPACKS + r"write it with numpy\.savez instead of savez_compressed"),
    "weights/empty.safetensors": (empty_tensors, "is not a file of weights, or is damaged; fetch it again"),
    "weights/header.safetensors": (tensors(b" " * 2**25), "is not a file of weights, or is damaged"),
    "weights/zeros.pth": (pickled, UNPACKS + r"save it with torch\.save"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """All files, read one after another by processes that start with everything imported."""
    root, paths = tmp_path_factory.mktemp("limits"), []
    for name, (write, _) in FILES.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        write(path)
        paths.append(path)
    command = [sys.executable, "-m", "tests.faults.within_limits", *map(str, paths)]
    told = subprocess.run(command, capture_output=True, check=True, text=True, cwd=Path(__file__).parents[2])
    for path in paths:
        path.unlink()
    return dict(zip(FILES, map(json.loads, told.stdout.splitlines()), strict=True))


def test_a_small_file_takes_little(outcomes):
    """All in one test, so that the files are written and read by one process of the tests."""
    slow = {
        name: outcome
        for name, outcome in outcomes.items()
        if outcome["seconds"] >= SECONDS * max(1.0, outcome["pace"] / IDLE_PACE) or outcome["megabytes"] >= MEGABYTES
    }
    assert slow == {}
    said = {name: outcome["said"] for name, outcome in outcomes.items()}
    assert {name: text for name, text in said.items() if "\n" in text or not re.search(FILES[name][1], text)} == {}
