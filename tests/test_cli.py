"""The command line as a person meets it."""

import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise import __version__, cli
from equipoise.cli import app
from equipoise.errors import InvalidInputError

PLAIN = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


def equipoise(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "equipoise", *arguments], capture_output=True, text=True, env=PLAIN, check=False
    )


def test_the_version():
    done = equipoise("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"equipoise {__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_the_commands(flag):
    done = equipoise(flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" in done.stdout
    assert "Learning from imbalanced data" in done.stdout


def test_an_unknown_command_is_an_error_of_use():
    done = equipoise("undo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'undo'" in done.stderr


def test_an_unknown_option_is_an_error_of_use():
    result = CliRunner().invoke(app, ["demo", "--sead", "1"])
    assert result.exit_code == 2
    assert "--sead" in result.output


@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_out_of_range_is_an_error_of_use(seed):
    result = CliRunner(env=PLAIN).invoke(app, ["demo", "--seed", seed])
    assert result.exit_code == 2
    assert "Invalid value for '--seed'" in result.output


def test_an_error_is_one_line_with_its_brackets(monkeypatch, capsys):
    message = "TensorBoard is missing; " + "so that the line is long, " * 5 + "pip install equipoise[tracking]."

    def refuse():
        raise InvalidInputError(message)

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert capsys.readouterr() == ("", f"error: {message}\n")


@pytest.mark.parametrize("argument", ["--version", "--help"])
@pytest.mark.parametrize(
    ("target", "sentence"),
    [(">/dev/full", "the output could not be written: No space left on device"), (">&-", "standard output is closed")],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's full device")
def test_an_output_that_takes_nothing_is_one_sentence(argument, target, sentence):
    line = f"{shlex.quote(sys.executable)} -m equipoise {argument} {target}"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, env=PLAIN, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {sentence}; ")
    assert done.stderr.count("\n") == 1


def test_an_error_of_a_file_is_no_error_of_the_output(monkeypatch):
    monkeypatch.setattr(cli, "app", Path("/no/such/file").read_bytes)
    with pytest.raises(FileNotFoundError, match="/no/such/file"):
        cli.main()


def test_help_needs_neither_torch_nor_scikit_learn():
    code = "import sys, equipoise.cli; sys.exit(bool({'torch', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_demo_compares_softmax_with_equipoise():
    result = CliRunner(env=PLAIN).invoke(app, ["demo", "--seed", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    for part in ("Recall on an untouched, balanced test set", "softmax", "equipoise", "rare, mean", "all, mean"):
        assert part in result.stdout
    assert "training softmax ..." in result.stderr
    assert result.stdout.count("rare") == 5 + 1  # five classes, one mean


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "equipoise", *arguments]
    own = PLAIN | {"EQUIPOISE_CACHE": str(folder / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=own, cwd=folder, check=False)


def test_a_csv_trains_with_one_command(tmp_path):
    lines = [f"{place % 7},{'hot' if place % 7 > 4 else 'cold'},{place % 7 > 4}" for place in range(140)]
    (tmp_path / "weather.csv").write_text("degrees,word,summer\n" + "\n".join(lines))
    done = run_in(tmp_path, "train", "weather.csv", "--target", "summer", "--epochs", "6")
    assert done.returncode == 0, done.stderr
    assert "imbalance 2.5" in done.stderr
    assert "balanced accuracy    100.0%" in done.stdout
    assert "The run is in runs/weather." in done.stderr
    assert (tmp_path / "runs" / "weather" / "model.safetensors").is_file()


def test_a_wrong_target_is_one_sentence_that_helps(tmp_path):
    (tmp_path / "t.csv").write_text("age,sick\n1,yes\n2,no\n3,yes\n")
    done = run_in(tmp_path, "train", "t.csv", "--target", "sik")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: t.csv has no column 'sik'; did you mean 'sick'? Its columns are: age, sick.\n"
    assert not (tmp_path / "runs").exists()


def test_a_folder_is_summed_up_and_trains_with_one_command(tmp_path):
    from PIL import Image

    for name, count, shade in (("night & day", 30, 20), ("[bold]noon", 12, 220)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for place in range(count):
            Image.new("L", (12, 12), shade + place % 5).save(tmp_path / "photos" / name / f"{place}.png")
    (tmp_path / "photos" / "night & day" / "Thumbs.db").write_bytes(b"x")
    summary = run_in(tmp_path, "data", "summary", "photos")
    assert summary.returncode == 0, summary.stderr
    assert "[bold]noon" in summary.stdout  # the name as it is, not as markup
    assert "2 classes, imbalance 2.5" in summary.stdout
    assert "Thumbs.db" in summary.stderr
    done = run_in(tmp_path, "train", "photos", "--epochs", "3", "--out", "run", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[bold]noon" in done.stdout
    again = run_in(tmp_path, "train", "photos", "--out", "run")
    assert (again.returncode, "run holds a finished run; choose another folder" in again.stderr) == (1, True)


def test_one_epoch_ends_before_there_is_an_uncertainty(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n" + "\n".join(f"{place},{place % 2}" for place in range(40)))
    done = run_in(tmp_path, "train", "t.csv", "--epochs", "1")
    assert done.returncode == 0, done.stderr


def test_fetching_from_a_server_without_the_file_is_one_sentence(tmp_path):
    import http.server
    import threading

    (tmp_path / "served").mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mirror = f"http://127.0.0.1:{server.server_address[1]}/"
        done = run_in(tmp_path, "data", "fetch", "mnist", "--mirror", mirror)
        server.shutdown()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: could not fetch {mirror}train-images-idx3-ubyte.gz")
    assert done.stderr.count("\n") == 1
    assert "yourself" in done.stderr
