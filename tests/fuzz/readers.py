"""Each reader as a function of a file's bytes, with sound files of its kind to start from."""

import contextlib
import gzip
import io
import os
import pickle
import random
import shutil
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from equipoise.app.run_folder import read_run_record
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.runs.decision_file import Decision
from equipoise.app.runs.predict import human_threshold
from equipoise.app.runs.run_options import read_config
from equipoise.app.stored_run import read_run
from equipoise.data.encoder import TableEncoder
from equipoise.data.images import decode_image, read_images
from equipoise.data.images.decode import examine
from equipoise.data.splits import Split, load_split, save_split
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.estimators.pickle_free.member_files import MemberRecord, load_member, save_member
from equipoise.paper.faces.bin_pairs import read_bin_pairs
from equipoise.paper.faces.pair_files import read_lfw_pairs, read_pair_list, read_ytf_pairs
from equipoise.paper.sets.celeba import read_attributes, read_partition
from equipoise.paper.sets.cifar10 import read_binary_batch
from equipoise.paper.sets.mnist import read_idx
from equipoise.storage.archives import unpack
from equipoise.training.checkpoints import Checkpoints
from tests.paper.faces.faces_made import LFW_FACES, LFW_LINES, encoded, write_faces
from tests.paper.sets.layouts import cifar_arrays, idx

NUMBERS = tuple(number.to_bytes(4, order) for number in (0, 1, 2**31, 2**32 - 1) for order in ("little", "big"))
ROWS = 40
Seeds = Callable[[Path], list[bytes]]
Read = Callable[[Path, bytes], object]


@dataclass(frozen=True)
class Reader:
    """How bytes are read.

    Args:
        prepare: sound files; what the reader needs beside them is written into the folder.
        read: writes the bytes into the folder as a file, and reads it.
        inside: kinds of :data:`~tests.fuzz.mutations.MUTATORS` that know the format.
        tokens: words of the format.
    """

    prepare: Seeds
    read: Read
    inside: tuple[str, ...] = ()
    tokens: tuple[bytes, ...] = ()


def _of_file(name: str, *reads: Callable[[Path], object]) -> Read:
    """The bytes under a name, read by one function after another; the first that refuses them is the last."""

    def read(folder: Path, content: bytes) -> None:
        path = folder / name
        path.write_bytes(content)
        for each in reads:
            each(path)

    return read


def _idx_files(_: Path) -> list[bytes]:
    plain = [idx(np.arange(12).reshape(3, 2, 2)), idx(np.arange(10))]
    return [*plain, *map(gzip.compress, plain)]


def _read_idx(path: Path) -> None:
    content = path.read_bytes()
    images = b"\0\0\x08\x03" in (content[:4], gzip.decompress(content)[:4] if _is_gzip(content) else b"")
    read_idx(path, dimensions=3 if images else 1)


def _is_gzip(content: bytes) -> bool:
    try:
        return bool(gzip.decompress(content)) or True
    except Exception:
        return False


def _binary_batches(_: Path) -> list[bytes]:
    pixels, labels = next(iter(cifar_arrays().values()))
    records = np.concatenate([np.array(labels, np.uint8)[:, None], pixels], axis=1)
    return [records[:1].tobytes(), records.tobytes()]


def _lfw(folder: Path) -> list[bytes]:
    write_faces(folder / "faces", LFW_FACES)
    return ["\n".join(LFW_LINES).encode(), b"2\nAnn\t1\t2\nBob\t1\t2\nAnn\t1\tBob\t1\nCid\t1\tDee\t1\n"]


def _ytf(folder: Path) -> list[bytes]:
    write_faces(folder / "faces", ["Ann/0/1.jpg", "Ann/0/2.jpg", "Ann/1/1.jpg", "Bob/0/1.jpg", "Bob/1/7.jpg"])
    head = "split, pair, first, second, same\n"
    pairs = "1, 1, Ann/0, Ann/1, 1\n1, 2, Ann/0, Bob/0, 0\n2, 1, Bob/0, Bob/1, 1\n2, 2, Ann/1, Bob/1, 0\n"
    return [(head + pairs).encode(), pairs.encode()]


def _list(folder: Path) -> list[bytes]:
    write_faces(folder / "faces", LFW_FACES)
    pairs = [("Ann_0001", "Ann_0002", 1), ("Ann_0001", "Bob_0001", 0), ("Bob_0001", "Bob_0002", 1)]
    pairs += [("Cid_0001", "Cid_0002", 1), ("Cid_0001", "Dee_0001", 0), ("Dee_0001", "Dee_0002", 1)]
    lines = [f"{one}.jpg {other}.jpg {same}" for one, other, same in pairs]
    folds = [f"{line} {1 + place // 3}" for place, line in enumerate(lines)]
    return ["\n".join(lines).encode(), "\n".join(folds).replace(" ", "\t").encode()]


def _bin_files(_: Path) -> list[bytes]:
    images, same = [encoded(level, side=2) for level in range(8)], [True, False] * 2
    arrays = [np.frombuffer(image, dtype=np.uint8) for image in images]
    return [
        *(pickle.dumps((images, same), protocol=protocol) for protocol in range(6)),
        *(pickle.dumps((arrays, np.array(same)), protocol=protocol) for protocol in (2, 4, 5)),
    ]


def _read_bin(path: Path) -> None:
    pairs = read_bin_pairs(path)
    pairs.images((4, 4), 3)[0:1]


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=ROWS).round(2), "town": rng.choice(["Oslo", "Rome, Italy"], ROWS)})
    frame["seen"] = pd.date_range("2020-01-01", periods=ROWS).strftime("%d.%m.%Y")
    frame["price"] = [f"{1000 + place},50" for place in range(ROWS)]
    frame.loc[3:6, "size"] = np.nan
    return frame.assign(label=np.where(rng.random(ROWS) < 0.3, "rare", "common"))


def _tables(_: Path) -> list[bytes]:
    frame = _frame()
    texts = [frame.to_csv(index=False, sep=sep, decimal="," if sep == ";" else ".") for sep in (",", ";", "\t", "|")]
    spaces = frame[["size", "label"]].fillna(0).to_csv(index=False, sep=" ")
    several = frame.assign(y=[0, 1] * (ROWS // 2)).drop(columns="label").to_csv(index=False)
    return [*(text.encode() for text in (*texts, spaces, several)), texts[1].encode("utf-16")]


def _packed_tables(folder: Path) -> list[bytes]:
    return [gzip.compress(content) for content in _tables(folder)[:3]]


def _read_table(path: Path) -> None:
    for _ in iterate_table(path, rows=7):
        pass
    samples = read_table(path)
    TableEncoder().fit(samples.x).transform(samples.x)


def _parquet(_: Path) -> list[bytes]:
    buffer = io.BytesIO()
    _frame().to_parquet(buffer)
    return [buffer.getvalue()]


def _arrays(_: Path) -> list[bytes]:
    rng = np.random.default_rng(0)
    found = []
    for save in (np.savez, np.savez_compressed):
        for x in (rng.normal(size=(8, 2)), rng.integers(0, 9, (8, 3, 2, 2), dtype=np.uint8)):
            buffer = io.BytesIO()
            save(buffer, X=x, y=np.array(list("aabbaabb")))
            found.append(buffer.getvalue())
    parts = io.BytesIO()
    np.savez(parts, x_train=rng.normal(size=(4, 2)), y_train=[0, 1] * 2, x_test=np.ones((2, 2)), y_test=[0, 1])
    return [*found, parts.getvalue()]


def _read_arrays(path: Path) -> None:
    x = read_table(path).x
    if getattr(x, "ndim", 2) == 2:
        TableEncoder().fit(x)


def _images(_: Path) -> list[bytes]:
    rng, found = np.random.default_rng(0), []
    for kind in ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP"):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(buffer, format=kind)
        found.append(buffer.getvalue())
    deep = io.BytesIO()
    Image.fromarray(rng.integers(0, 2**16, (5, 5), dtype=np.uint16)).save(deep, format="PNG")
    return [*found, deep.getvalue()]


def _read_image(_: Path, content: bytes) -> None:
    examine(content)
    decode_image(content, size=(4, 6), channels=1)
    decode_image(content, size=(3, 3), channels=3, fit="pad")


def _photos(folder: Path) -> Path:
    names = [f"{label}/{place}.png" for label in ("cat", "dog") for place in range(6)]
    return write_faces(folder / "photos", names)


def _folder(folder: Path) -> list[bytes]:
    _photos(folder)
    return [encoded(99), encoded(98, kind="JPEG"), encoded(1)]


def _read_folder(folder: Path, content: bytes) -> None:
    (folder / "photos/cat/new.png").write_bytes(content)
    _own_cache(folder)
    samples = read_images(folder / "photos", size=8)
    samples.x[0 : len(samples)]


def _own_cache(folder: Path) -> None:
    """Nothing is remembered from the file before, and nothing of it stays."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    os.environ["EQUIPOISE_CACHE"] = str(folder / "cache")


def _label_tables(folder: Path) -> list[bytes]:
    _photos(folder)
    names = [f"{label}/{place}.png" for label in ("cat", "dog") for place in range(6)]
    rows = "".join(f"{name},{name[:3]},p{place // 3}\n" for place, name in enumerate(names))
    signs = "".join(f"{name};{place % 2};{place % 3 % 2};train\n" for place, name in enumerate(names))
    return [f"file,label,patient\n{rows}".encode(), f"image;furry;small;split\n{signs}".encode()]


def _read_labels(path: Path) -> None:
    _own_cache(path.parent)
    read_images(path.parent / "photos", labels=path, size=8, check=False)


def _archives(folder: Path) -> list[bytes]:
    photos = _photos(folder)
    zipped, packed, plain = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for path in sorted(photos.rglob("*.png"))[:4]:
            archive.write(path, path.relative_to(photos))
    for buffer, mode in ((packed, "w:gz"), (plain, "w")):
        with tarfile.open(fileobj=buffer, mode=mode) as tar:
            tar.add(photos / "cat", "cat")
    return [zipped.getvalue(), packed.getvalue(), plain.getvalue()]


def _read_archive(folder: Path, content: bytes) -> None:
    """By its first bytes under the name that such a file would have."""
    ending = ".zip" if content[:2] == b"PK" else ".tar.gz" if content[:2] == b"\x1f\x8b" else ".tar"
    path = folder / f"photos{ending}"
    path.write_bytes(content)
    _own_cache(folder)
    unpack(path, limit_bytes=2**24, limit_members=100)


def _celeba(_: Path) -> list[bytes]:
    names = " ".join(f"Attribute_{place}" for place in range(40))
    rows = "".join(f"{row:06d}.jpg {' '.join(random.Random(row).choices(['1', '-1'], k=40))}\n" for row in range(4))
    return [f"4\n{names}\n{rows}".encode()]


def _partitions(_: Path) -> list[bytes]:
    return ["".join(f"{row:06d}.jpg {row % 3}\n" for row in range(6)).encode()]


_MEMBER: dict[str, MemberRecord] = {}


def _members(folder: Path) -> list[bytes]:
    """Pipelines all, for the class is one thing that the record tells."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] = np.arange(60) % 5
    found = []
    for steps in (
        [RandomForestClassifier(1, max_depth=3, random_state=0)],
        [HistGradientBoostingClassifier(max_iter=1, categorical_features=[0], max_bins=8, random_state=0)],
        [GradientBoostingClassifier(n_estimators=1, max_depth=1)],
        [OneHotEncoder(max_categories=4, handle_unknown="infrequent_if_exist"), LogisticRegression()],
    ):
        _MEMBER["record"] = save_member(make_pipeline(*steps).fit(X, y), folder, "member")
        found.append((folder / _MEMBER["record"].file).read_bytes())
    return found


def _read_member(folder: Path, content: bytes) -> None:
    """What is read may answer or refuse the rows it is given, but must not end the process."""
    (folder / _MEMBER["record"].file).write_bytes(content)
    model = load_member(_MEMBER["record"], folder)
    with contextlib.suppress(Exception):
        model.predict_proba(np.zeros((5, 3)))


def _splits(folder: Path) -> list[bytes]:
    path = folder / "sound split.json"
    path.unlink(missing_ok=True)
    save_split(Split(range(20), [20, 21], range(22, 30)), path, samples=30)
    return [path.read_bytes()]


def _configs(_: Path) -> list[bytes]:
    return [
        b'data = "a.csv"\ntarget = "sick"\nepochs = 3\nlearning-rate = 1e-3\naugment = false\nout = "runs/a"\n',
        b'# all of it\ndata = """a\nb"""\nseed = 0x1F\ntest-share = 0.25\nfreeze = true\nmethod = "ldam_drw"\n',
    ]


def _decisions(folder: Path) -> list[bytes]:
    p = np.random.default_rng(0).dirichlet([4, 2, 1], 60)
    y = np.array([np.random.default_rng(row).choice(3, p=each) for row, each in enumerate(p)])
    fitted = BalancedClassifier.from_predictions(p, y)
    Decision.of(fitted, ("a", "b", "c"), ("p_a", "p_b", None), fitted.uncertainty(p)).save(folder / "sound.json")
    return [(folder / "sound.json").read_bytes()]


def _read_decision(path: Path) -> None:
    """What is not refused answers with numbers."""
    decision = Decision.load(path)
    size = len(decision.classes)
    found = decision.predictions(np.concatenate((np.eye(size), np.full((1, size), 1 / size))))
    assert found.finite.all()
    decision.calibrated.sets(found.logits, 0.9)
    decision.human_threshold(0.1)


def _read_options(path: Path) -> None:
    told = read_config(path)
    told.pop("out", None)
    RunOptions(**({"data": "a.csv"} | told))


_RUN: dict[str, Path] = {}


def _run(folder: Path) -> Path:
    """A finished run, trained once a process and copied into the folder."""
    if not _RUN:
        made = folder.parent / f"{folder.name} trained"
        made.mkdir(exist_ok=True)
        _frame().to_csv(made / "table.csv", index=False)
        options = RunOptions(str(made / "table.csv"), epochs=3, batch_size=8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _RUN["run"] = train_run(options, made / "run").folder
    if not (folder / "run").exists():
        shutil.copytree(_RUN["run"], folder / "run")
    return folder / "run"


def _run_file(name: str) -> Seeds:
    def prepare(folder: Path) -> list[bytes]:
        _run(folder)
        return [(_RUN["run"] / name).read_bytes()]  # the folder's own may be damaged by now

    return prepare


def _of_run(name: str, *reads: Callable[[Path], object]) -> Read:
    """The bytes as one file of a run that is sound else."""

    def read(folder: Path, content: bytes) -> None:
        (folder / "run" / name).write_bytes(content)
        for each in reads:
            each(folder / "run")

    return read


def _threshold(run: Path) -> float:
    return human_threshold(run, 0.1)


def _checkpoints(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((_run(folder) / "checkpoints").glob("*.safetensors"))[-1:]]


def _read_checkpoint(folder: Path, content: bytes) -> None:
    """A damaged one is passed over with a warning, which is no fault."""
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints/step-000000001.safetensors").write_bytes(content)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).* is damaged ")
        Checkpoints(folder / "checkpoints").newest()


PICKLE = (
    *(b"cnumpy\ndtype\n", b"cos\nsystem\n", b"R", b"b", b"\x85", b"\x87", b"(", b"t", b"]", b"e", b"}", b"u", b"."),
    *(b"r\xff\xff\xff\x7f", b"j\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 8, b"X\xff\xff\xff\x7f", b"\x94", b"N", b"\x88"),
)
WORDS = (
    *(b"label", b"target", b"?", b"NA", b"1.234,5", b"31/12/2020", b"2020-13-45", b"9999-12-31T99:99", b"0x1F"),
    *(b"007", b"12 %", b"-1", b"True", b'"a\nb"', b"1e400", b"file", b"../photos/cat/1.png"),
)
TOML = (
    *(b"[a]\n", b"[[a]]\n", b"data = 1979-05-27\n", b"seed = 99999999999999999999\n", b'"""', b"a.b = 1\n"),
    *(b"= [1,]\n", b"test-share = nan\n", b"learning-rate = inf\n", b"epochs = 0o17\n"),
)
HEADER = (
    *(b"'<f8'", b"'|O'", b"'<U3'", b"'descr'", b"(1099511627776,)", b"(-1,)", b"True", b"NUMPY", b"'<M8[ns]'"),
    *(b"[('a','<f8')]", b"'|S3'", b"'<f2'", b"'<c8'", b"(0, 2)", b"(2, 0)", b"()"),
)

READERS: dict[str, Reader] = {
    "idx": Reader(_idx_files, _of_file("images-idx", _read_idx), ("gzip",), NUMBERS),
    "cifar binary batch": Reader(_binary_batches, _of_file("batch.bin", read_binary_batch)),
    "lfw pairs": Reader(_lfw, _of_file("pairs.txt", lambda path: read_lfw_pairs(path, path.parent / "faces"))),
    "ytf pairs": Reader(_ytf, _of_file("splits.txt", lambda path: read_ytf_pairs(path, path.parent / "faces"))),
    "pair list": Reader(_list, _of_file("list.txt", lambda path: read_pair_list(path, path.parent / "faces"))),
    "bin pairs": Reader(_bin_files, _of_file("agedb.bin", _read_bin), tokens=PICKLE),
    "delimited table": Reader(_tables, _of_file("table.csv", _read_table), tokens=WORDS),
    "packed table": Reader(_packed_tables, _of_file("table.csv.gz", _read_table), ("gzip",), WORDS),
    "parquet": Reader(_parquet, _of_file("table.parquet", _read_table)),
    "npz": Reader(_arrays, _of_file("arrays.npz", _read_arrays), ("zip",), HEADER),
    "image": Reader(_images, _read_image, tokens=NUMBERS),
    "image folder": Reader(_folder, _read_folder),
    "image labels": Reader(_label_tables, _of_file("labels.csv", _read_labels), tokens=WORDS),
    "archive": Reader(_archives, _read_archive, ("zip", "gzip")),
    "celeba attributes": Reader(_celeba, _of_file("list_attr_celeba.txt", read_attributes)),
    "celeba partition": Reader(_partitions, _of_file("list_eval_partition.txt", read_partition)),
    "split": Reader(_splits, _of_file("split.json", lambda path: load_split(path, samples=30)), ("json",)),
    "toml options": Reader(_configs, _of_file("options.toml", _read_options), tokens=TOML),
    "json options": Reader(_run_file("run.json"), _of_file("options.json", _read_options), ("json",)),
    "decision.json": Reader(_decisions, _of_file("decision.json", _read_decision), ("json",)),
    "run.json": Reader(_run_file("run.json"), _of_run("run.json", read_run_record, read_run, RunModel.load), ("json",)),
    "model.json": Reader(_run_file("model.json"), _of_run("model.json", RunModel.load), ("json",)),
    "scores.json": Reader(_run_file("scores.json"), _of_run("scores.json", read_run), ("json",)),
    "metrics.jsonl": Reader(_run_file("metrics.jsonl"), _of_run("metrics.jsonl", read_run), ("json",)),
    "held_out.npz": Reader(_run_file("held_out.npz"), _of_run("held_out.npz", _threshold, read_run), ("zip",), HEADER),
    "model.safetensors": Reader(
        _run_file("model.safetensors"), _of_run("model.safetensors", RunModel.load), ("safetensors",)
    ),
    "checkpoint": Reader(_checkpoints, _read_checkpoint, ("safetensors",)),
    "member": Reader(_members, _read_member, ("zip",), HEADER),
}
"""By the name of the format."""
