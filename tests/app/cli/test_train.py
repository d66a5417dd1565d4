"""``equipoise train`` as a person meets it."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import safetensors.torch
import torch

from equipoise.models.backbones import build_backbone
from equipoise.training.resumable_run import Run
from tests.app.runs.made import pictures
from tests.marks import mostly_nightly

WEATHER = "degrees,word,summer\n" + "\n".join(
    f"{place % 7},{'hot' if place % 7 > 4 else 'cold'},{place % 7 > 4}" for place in range(140)
)


@pytest.fixture
def weather(tmp_path):
    (tmp_path / "weather.csv").write_text(WEATHER)
    return tmp_path / "weather.csv"


def test_the_class_table_comes_first_and_the_scores_last(equipoise, weather, tmp_path):
    done = equipoise("train", weather, "--target", "summer", "--epochs", 6)
    assert done.code == 0, done.err
    assert "imbalance 2.5" in done.err
    short = r"training is short: margins get \d+ optimiser steps but need about \d+ to act; set epochs to \d+ or more"
    assert re.search(short, " ".join(done.err.split()))
    lines = done.out.splitlines()
    assert lines[0] == "On 28 samples held out"
    assert "balanced accuracy    100.0%" in lines
    assert "AUC                  100.0%" in lines
    assert "average precision    100.0%" in lines  # the rare class's, not the mean of both
    few = "No intervals: only 8 samples of the rarest class were tested; one more or less moves its recall by 12.5%."
    assert few in lines
    headline = lines[lines.index("") + 1]  # 8 rare samples cannot show how good a model is
    assert headline.startswith(
        "Check for a leak first: the column 'degrees' alone decides the target. If it stays: Better than guessing, but "
        "8 held-out samples of the rare class True cannot show how good"
    )
    assert lines[-1].startswith("  ")
    assert done.err.splitlines()[-2:] == ["The run is in runs/weather.", "Open runs/weather/report.html in a browser."]
    record = json.loads((tmp_path / "runs" / "weather" / "run.json").read_text())
    assert record["command"] == f"equipoise train {weather} --target summer --epochs 6"
    assert "<html" in (tmp_path / "runs" / "weather" / "report.html").read_text()


def test_json_is_one_object_and_quiet_says_nothing_else(equipoise, weather):
    done = equipoise("train", weather, "--target", "summer", "--epochs", 3, "--json", "--quiet", "--out", "run")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["run"], found["report"], found["classes"]) == ("run", "run/report.html", ["False", "True"])
    assert found["scores"]["samples"] == 28
    assert found["before"]["samples"] == 28
    assert found["verdict"]["headline"]
    assert any("held-out samples" in sentence for sentence in found["verdict"]["sentences"])


def test_options_from_a_file_and_flags_before_it(equipoise, weather, tmp_path):
    (tmp_path / "options.toml").write_text(
        f'data = "{weather}"\ntarget = "summer"\nepochs = 3\nlearning-rate = 0.01\nout = "from-file"\nseed = 7\n'
    )
    assert equipoise("train", "--config", "options.toml", "--epochs", 2, "--quiet").code == 0
    options = json.loads((tmp_path / "from-file" / "run.json").read_text())["options"]
    assert {
        "epochs": 2,
        "learning_rate": 0.01,
        "seed": 7,
        "dropout": 0.5,
        "target": "summer",
    }.items() <= options.items()
    # a run's own record is such a file; a flag that says what the default says is still a flag
    again = equipoise("train", "--config", "from-file/run.json", "--out", "again", "--seed", 0, "--quiet")
    assert again.code == 0, again.err
    assert json.loads((tmp_path / "again" / "run.json").read_text())["options"] == options | {"seed": 0}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epoch = 3", "options.toml has an unknown option 'epoch'; did you mean 'epochs'?"),
        ("epochs = 'three'", "options.toml: epochs must be a whole number, got 'three'."),
        ("epochs = 0", "--epochs must be a whole number of at least 1, got 0."),
    ],
)
def test_a_wrong_option_in_a_file_is_one_sentence(equipoise, weather, tmp_path, text, sentence):
    (tmp_path / "options.toml").write_text(text)
    done = equipoise("train", weather, "--config", "options.toml")
    assert (done.code, done.out, done.err) == (1, "", f"error: {sentence}\n")


def test_no_data_is_an_error_of_use(equipoise, tmp_path):
    done = equipoise("train")
    assert (done.code, done.out) == (2, "")
    assert "give the data to train on, or a --config that names them" in done.err
    assert equipoise("train", "x.csv", "--epochs", "0").code == 2
    assert equipoise("train", "x.csv", "--epochs", "many").code == 2
    assert list(tmp_path.iterdir()) == []


def test_errors_are_one_sentence_and_debug_shows_where(equipoise, tmp_path):
    (tmp_path / "t.csv").write_text("age,sick\n1,yes\n2,no\n3,yes\n")
    sentence = "error: t.csv has no column 'sik'; did you mean 'sick'? Its columns are: age, sick.\n"
    assert equipoise("train", "t.csv", "--target", "sik") == (1, "", sentence)
    for arguments in (["--debug", "train"], ["train", "--debug"]):
        with pytest.raises(Exception, match="has no column 'sik'"):
            equipoise(*arguments, "t.csv", "--target", "sik")
    assert not (tmp_path / "runs").exists()
    missing = equipoise("train", "gone.csv")
    assert missing.code == 1
    assert missing.err.startswith("error: no such file or folder: 'gone.csv'; give a table, a folder of images")


def test_resuming_what_is_not_there(equipoise, tmp_path):
    sentence = "error: gone is not a run; give a folder that `equipoise train` has written.\n"
    assert equipoise("train", "--resume", "--out", "gone") == (1, "", sentence)
    done = equipoise("train", "--resume")
    assert done == (1, "", "error: --resume needs the folder of the unfinished run; add --out RUN.\n")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "run.json").write_text("{}")
    done = equipoise("train", "--resume", "--out", "gone")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "run.json has no valid field 'options': it is missing; train again into another folder" in done.err


def test_control_c_leaves_a_run_that_goes_on_with_the_command_it_names(equipoise, weather, tmp_path, monkeypatch):
    write = Run.record

    def interrupted(self, record):
        write(self, record)
        if record["epoch"] == 1:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "record", interrupted)
        done = equipoise("train", weather, "--target", "summer", "--epochs", 6, "--out", "run")
    assert done.code == 130, done.err
    sentence = "stopped; finished work is kept. Resume with: equipoise train --resume --out run"
    assert done.err.splitlines()[-1] == sentence
    assert "Traceback" not in done.err
    metrics = tmp_path / "run" / "metrics.jsonl"
    assert len(metrics.read_text().splitlines()) == 2
    done = equipoise("train", "--resume", "--out", "run", "--json", "--quiet")
    assert done.code == 0, done.err
    assert len(metrics.read_text().splitlines()) == 6
    assert json.loads(done.out)["before"] is not None
    undisturbed = equipoise("train", weather, "--target", "summer", "--epochs", 6, "--out", "b", "--json", "--quiet")
    assert json.loads(undisturbed.out)["scores"] == json.loads(done.out)["scores"]
    assert json.loads(undisturbed.out)["before"] == json.loads(done.out)["before"]
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["command"].endswith("--epochs 6 --out run")  # as it was begun


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_control_c_while_the_data_are_read_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "never.csv")
    process = subprocess.Popen(
        [sys.executable, "-m", "equipoise", "train", "never.csv", "--target", "y"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # background jobs ignore it
    )
    with (tmp_path / "never.csv").open("wb"):  # returns once the program has opened it too
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "stopped before training began; nothing was written.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("plain", "command"),
    mostly_nightly([(True, "data summary"), (False, "data summary"), (True, "train --epochs 2 --out run")], slow=2),
)
def test_no_colour_on_a_terminal_that_wants_none(weather, plain, command):
    import pty

    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "100"} | ({"NO_COLOR": "1"} if plain else {})
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-m", "equipoise", *command.split(), str(weather), "--target", "summer"]
    with subprocess.Popen(
        arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=weather.parent
    ) as process:
        os.close(theirs)
        written = b""
        with suppress(OSError):  # the terminal's end
            while part := os.read(ours, 65536):
                written += part
    os.close(ours)
    assert process.returncode == 0, written.decode()
    assert b"rare" in written
    coloured = re.search(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m", written)
    assert (coloured is None) == plain


def test_control_c_before_training_writes_nothing(equipoise, weather, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.app.runs.choose_split.open_data", interrupted)
    done = equipoise("train", weather, "--target", "summer", "--out", "run")
    assert (done.code, done.out, done.err) == (130, "", "stopped before training began; nothing was written.\n")
    assert not (tmp_path / "run").exists()


def test_control_c_while_the_report_is_drawn_leaves_a_finished_run(equipoise, weather, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.app.report.write_report", interrupted)
    done = equipoise("train", weather, "--target", "summer", "--epochs", 1, "--out", "run", "--quiet")
    sentence = "stopped; the run is finished. Write its report with: equipoise report run\n"
    assert (done.code, done.out, done.err) == (130, "", sentence)


def test_a_folder_is_summed_up_and_trains(equipoise, tmp_path):
    photos = pictures(tmp_path / "photos", {"night & day": 30, "[bold]noon": 12})
    (photos / "night & day" / "Thumbs.db").write_bytes(b"x")
    summary = equipoise("data", "summary", "photos")
    assert summary.code == 0, summary.err
    assert "[bold]noon" in summary.out  # the name as it is, not as markup
    assert "2 classes, imbalance 2.5" in summary.out
    assert "Thumbs.db" in summary.err
    done = equipoise("train", "photos", "--epochs", 2, "--out", "run", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert "[bold]noon" in done.out
    again = equipoise("train", "photos", "--out", "run")
    assert (again.code, "run holds a finished run; choose another folder" in again.err) == (1, True)


def test_images_to_test_on_may_have_labels_of_their_own(equipoise, tmp_path):
    for part, counts in (("train", {"night": 12, "day": 6}), ("test", {"night": 3, "day": 2})):
        root = pictures(tmp_path / f"{part}-sorted", counts)
        (tmp_path / part).mkdir()
        lines = ["file,label"]
        for path in sorted(root.rglob("*.png")):
            name = f"{part}-{path.parent.name}-{path.name}"
            path.rename(tmp_path / part / name)
            lines.append(f"{name},{path.parent.name}")
        (tmp_path / f"{part}.csv").write_text("\n".join(lines))
    arguments = ("train", "train", "--labels", "train.csv", "--test", "test", "--epochs", 1, "--out", "run", "-q")
    done = equipoise(*arguments)
    assert (done.code, done.err.count("\n")) == (1, 1)
    done = equipoise(*arguments, "--test-labels", "test.csv", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["scores"]["support"] == [2, 3]
    wrong = equipoise("train", "train", "--labels", "train.csv", "--test-labels", "test.csv")
    assert wrong.err == "error: --test-labels requires --test; give both, or leave it out.\n"


def test_one_epoch_ends_before_there_is_an_uncertainty(equipoise, tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n" + "\n".join(f"{place},{place % 2}" for place in range(40)))
    done = equipoise("train", "t.csv", "--epochs", 1, "--json", "--quiet")
    assert done.code == 0, done.err
    assert json.loads(done.out)["before"] is None


@pytest.mark.parametrize("rate", [0.1, 0.0])
def test_fine_tuning_gives_pretrained_layers_a_rate_of_their_own(equipoise, tmp_path, monkeypatch, rate):
    monkeypatch.setattr("equipoise.models.image_network.PRETRAINED_RATE", rate)
    photos = pictures(tmp_path / "photos", {"night": 14, "day": 8}, side=32)
    before = build_backbone("lenet").state_dict()
    torch.save(before, tmp_path / "lenet.pth")
    known = ("--backbone", "lenet", "--weights", tmp_path / "lenet.pth")
    done = equipoise("train", photos, *known, "--fine-tune", "--epochs", 2, "--out", "run")
    assert done.code == 0, done.err
    assert not json.loads((tmp_path / "run" / "run.json").read_text())["input"]["backbone"].get("frozen")
    after = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    moved = [float((after[f"network/backbone.body.{name}"] - tensor).abs().max()) for name, tensor in before.items()]
    assert (min(moved) > 0) == (rate > 0)
    assert max(moved) < 0.1
    assert equipoise("predict", "run", photos, "--out", "answers.csv").code == 0
