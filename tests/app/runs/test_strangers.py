"""A run's folder that a stranger has made: it runs nothing, and nothing is written outside of where it was asked to.

The commands run in a process whose every opened file, started program and connection is written down.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from equipoise.app.runs.run_options import read_config
from equipoise.errors import InvalidInputError
from equipoise.models import build_backbone
from tests.app.runs.made import once, table_run
from tests.training.processes import ENVIRONMENT

WATCHED = """
import json, os, sys
from pathlib import Path
import matplotlib.font_manager
import equipoise.main, equipoise.app.report.run_page, equipoise.app.runs.predict
equipoise.app.report.drawing.inline_svg = lambda *_, **__: "<svg></svg>"
root, done = Path(sys.argv[1]), []
seen = []

def look(event, arguments):
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        path, mode, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            seen.append(("write", os.path.realpath(os.fsdecode(path))))
    elif event in ("os.rename", "os.link", "os.symlink"):
        seen.append(("write", os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(arguments[1]))))))
    elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod"):
        where = os.path.abspath(os.fsdecode(arguments[0]))
        seen.append(("write", os.path.realpath(os.path.dirname(where)) + "/" + os.path.basename(where)))
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect",
                   "socket.getaddrinfo", "pickle.find_class"):
        seen.append((event, str(arguments)[:200]))

watching = False
sys.addaudithook(lambda event, arguments: look(event, arguments) if watching else None)

def run(*arguments):
    global watching
    sys.argv = ["equipoise", *arguments]
    seen.clear()
    watching, code = True, 0
    try:
        equipoise.main.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        watching = False
    return code, list(seen)

for line in sys.stdin:
    arguments = json.loads(line)
    code, events = run(*arguments)
    print(json.dumps({"arguments": arguments, "code": code, "events": events}), flush=True)
"""
TRAVERSALS = (
    "../../outside/x",
    "{outside}/x",
    "..\\..\\outside\\x",
    "file://{outside}/x",
    "~/x\x00/../x",
    "$(touch {outside}/x)",
)


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    return once(table_run, tmp_path_factory)


@pytest.fixture(scope="module")
def place(tmp_path_factory, original):
    """A folder with the stranger's runs, one for what the user asks for, and one that nobody may touch."""
    tmp_path = tmp_path_factory.mktemp("place")
    for name in ("strangers", "mine", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "victim").write_text("mine")
    (tmp_path / "mine" / "rows.csv").write_text("\n".join((original.parent / "digits.csv").read_text().split("\n")[:9]))
    return tmp_path


def a_copy(place, original, name):
    folder = place / "strangers" / name
    shutil.copytree(original, folder, ignore=shutil.ignore_patterns("checkpoints"))
    return folder


def leaves(value, path=()):
    """Every place of a text in JSON, one for each kind of place: entries of a list are alike."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:1]):
            yield from leaves(inner, (*path, number))


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.fixture(scope="module")
def watched(place):
    """Run commands one after another, all in one process, for what each of them did."""
    environment = ENVIRONMENT | {"EQUIPOISE_CACHE": str(place / "mine/cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"TERM": "dumb", "TMPDIR": str(place / "mine")}
    line, pipe, said = [sys.executable, "-c", WATCHED, place], subprocess.PIPE, place / "said"
    with (
        said.open("w") as err,
        subprocess.Popen(
            line, cwd=place / "mine", env=environment, stdin=pipe, stdout=pipe, stderr=err, text=True
        ) as process,
    ):

        def run(commands):
            found = []
            for command in commands:
                process.stdin.write(json.dumps([str(word) for word in command]) + "\n")
                process.stdin.flush()
                told = next((line for line in process.stdout if line.startswith("{")), None)
                assert told is not None, said.read_text()[-2000:]
                found.append(json.loads(told))
            assert "unexpected error" not in said.read_text(), said.read_text()[-2000:]
            return found

        yield run


def assert_harmless(place, found, folder=None):
    """Written was only below the user's folder and, for a report without --out, in the run's own."""
    allowed = [str(place / "mine"), os.devnull] + ([str(folder)] if folder else [])
    for one in found:
        for event, where in one["events"]:
            assert event == "write", one
            assert any(where == root or where.startswith(root + os.sep) for root in allowed), (one["arguments"], where)
    assert [path.name for path in (place / "outside").iterdir()] == ["victim"]
    assert (place / "outside" / "victim").read_text() == "mine"


@pytest.mark.slow
def test_a_path_in_any_text_of_the_record_leads_nowhere(place, original, watched):
    commands, number = [], 0
    for name in ("run.json", "model.json"):
        for path in leaves(json.loads((original / name).read_text())):
            attack = TRAVERSALS[number % len(TRAVERSALS)].replace("{outside}", str(place / "outside"))
            folder = a_copy(place, original, f"{number}")
            record = json.loads((folder / name).read_text())
            put(record, path, attack)
            (folder / name).write_text(json.dumps(record))
            commands.append(("predict", folder, "rows.csv", "--out", f"answers {number}.csv", "--quiet"))
            commands.append(("evaluate", folder, "rows.csv", "--quiet"))
            number += 1
    assert number > 30
    found = watched(commands)
    assert_harmless(place, found)
    assert any(one["code"] == 0 for one in found)
    assert any(one["code"] == 1 for one in found)


@pytest.mark.slow
def test_links_in_the_folder_are_replaced_not_followed(place, original, watched):
    victim, folder = place / "outside" / "victim", a_copy(place, original, "links")
    for name in ("report.html", "answers.csv"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
    for part in range(3):  # names that a process could have had
        (folder / f".report.html.{part}.part").symlink_to(victim)
    commands = [
        ("report", folder),
        ("predict", folder, "rows.csv", "--out", folder / "answers.csv", "--force", "--quiet"),
    ]
    found = watched(commands)
    assert [one["code"] for one in found] == [0, 0]
    assert_harmless(place, found, folder)
    assert not (folder / "report.html").is_symlink()
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_and_devices_in_the_place_of_files_keep_nobody_waiting(place, original, watched):
    commands = []
    for name in ("run.json", "model.json", "model.safetensors", "held_out.npz", "scores.json", "metrics.jsonl"):
        for kind in ("pipe", "device"):
            folder = a_copy(place, original, f"{kind} {name}")
            (folder / name).unlink()
            if kind == "pipe":
                os.mkfifo(folder / name)
            else:
                (folder / name).symlink_to("/dev/zero")
            commands.append(("predict", folder, "rows.csv", "--out", f"{kind} {name}.csv", "--quiet"))
            if name not in ("model.json", "model.safetensors", "metrics.jsonl"):
                commands.append(("report", folder, "--out", f"{kind} {name}.html", "--quiet"))
    found = watched(commands)
    assert_harmless(place, found)
    for one in found:
        needed = ("run.json", "model.json", "model.safetensors", "held_out.npz")
        if one["arguments"][0] == "predict":
            assert one["code"] == int(any(name in one["arguments"][1] for name in needed)), one["arguments"]


@pytest.mark.parametrize("name", ["hf-hub:someone/model", "local-dir:/tmp/model", "../model", "hf_hub:x", ""])
def test_a_network_that_timm_would_look_for_elsewhere_is_refused(name):
    with pytest.raises(
        InvalidInputError, match=r"is not the name of one of timm's own networks; see timm\.list_models"
    ):
        build_backbone(f"timm:{name}")


def test_a_record_used_as_options_names_no_folder_to_write_to(original, tmp_path):
    record = json.loads((original / "run.json").read_text())
    record["options"]["out"] = "/tmp/elsewhere"
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match="has an unknown option 'out'"):
        read_config(tmp_path / "run.json")
    (tmp_path / "options.toml").write_text('data = "x.csv"\nout = "runs/x"\n')
    assert read_config(tmp_path / "options.toml")["out"] == "runs/x"


def test_a_file_larger_than_any_record_is_not_read(original, tmp_path, equipoise_error):
    folder = tmp_path / "run"
    shutil.copytree(original, folder, ignore=shutil.ignore_patterns("checkpoints"))
    for name in ("run.json", "model.json", "scores.json", "gallery.json", "metrics.jsonl"):
        kept = (folder / name).read_bytes()
        with (folder / name).open("r+b") as file:
            file.truncate(2**36)  # no block of the disk is taken
        assert "more than the" in equipoise_error(folder, name)
        (folder / name).write_bytes(kept)


@pytest.fixture
def equipoise_error():
    from equipoise.app.runs import RunModel
    from equipoise.app.stored_run import read_run

    def error(folder, name):
        call = RunModel.load if name == "model.json" else read_run
        with pytest.raises(InvalidInputError) as caught:
            call(folder)
        return str(caught.value)

    return error
