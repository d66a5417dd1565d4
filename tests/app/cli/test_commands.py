"""The commands that follow training, as a person meets them."""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from tests.app.runs.made import digits_frame, pictures

COMMANDS = ("demo", "train", "evaluate", "predict", "report", "export", "rebalance", "compare", "reproduce")


def test_evaluate_prints_a_table_or_json(equipoise, table_run, tmp_path):
    digits_frame().to_csv(tmp_path / "other.csv", index=False)
    done = equipoise("evaluate", table_run, "other.csv")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "On 600 samples"
    assert "<digit> 3" in done.out
    assert "balanced accuracy" in done.out
    found = equipoise("evaluate", table_run, "other.csv", "--json", "--quiet")
    assert found.err == ""
    assert json.loads(found.out)["scores"]["samples"] == 600
    verdict = json.loads(found.out)["verdict"]
    assert "the model separates the " in verdict["headline"].lower()
    assert verdict["headline"] in done.out.splitlines()
    assert all(f"  {sentence}" in done.out.splitlines() for sentence in verdict["sentences"])


@pytest.mark.parametrize("command", ["evaluate", "predict", "export"])
def test_a_folder_without_a_run_is_one_sentence(equipoise, tmp_path, command):
    (tmp_path / "empty").mkdir()
    done = equipoise(command, "empty", "x.csv")
    sentence = "error: empty is not a run; give a folder that `equipoise train` has written.\n"
    assert (done.code, done.out, done.err) == (1, "", sentence)


def test_predict_writes_a_file_once(equipoise, table_run, tmp_path):
    digits_frame().drop(columns="digit").to_csv(tmp_path / "new.csv", index=False)
    done = equipoise("predict", table_run, "new.csv", "--out", "answers.jsonl", "--human", 0.2)
    assert (done.code, done.out, done.err) == (0, "", "600 predictions are in answers.jsonl.\n")
    found = pd.read_json(tmp_path / "answers.jsonl", lines=True)
    with np.load(table_run / "held_out.npz") as stored:
        threshold = np.sort(stored["uncertainty"])[::-1][int(0.2 * len(stored["uncertainty"]))]
    np.testing.assert_array_equal(found["human"], found["uncertainty"].astype(np.float32) > threshold + 1e-7)
    again = equipoise("predict", table_run, "new.csv", "--out", "answers.jsonl")
    assert (again.code, again.err.count("\n")) == (1, 1)
    assert "answers.jsonl exists; pass --force" in again.err
    assert equipoise("predict", table_run, "new.csv", "--out", "answers.jsonl", "--force", "-q") == (0, "", "")


def test_predict_from_pipe_to_pipe(equipoise, table_run, monkeypatch):
    text = digits_frame().iloc[:3].to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    done = equipoise("predict", table_run, "-", "--out", "-")
    assert (done.code, done.err) == (0, "")
    assert pd.read_csv(io.StringIO(done.out))["row"].tolist() == [0, 1, 2]


def test_predict_names_broken_images_and_goes_on(equipoise, image_run, tmp_path):
    inbox = pictures(tmp_path / "inbox", {"x": 2})
    (inbox / "[bold].png").write_bytes(b"no image")
    done = equipoise("predict", image_run, "inbox", "--out", "a.csv")
    assert done.code == 0
    assert done.err.splitlines()[0].startswith("no prediction for [bold].png: ")
    assert done.err.splitlines()[1].startswith(
        "2 predictions are in a.csv, and 1 without a class because they could not"
    )
    assert pd.read_csv(tmp_path / "a.csv")["human"].tolist()[0]
    for path in inbox.rglob("*.png"):
        path.write_bytes(b"")
    done = equipoise("predict", image_run, "inbox")
    assert (done.code, done.out, done.err) == (
        1,
        "",
        "error: none of the 3 images in inbox can be read, the first, [bold].png: the file is empty; check "
        "the files.\n",
    )


def test_a_value_that_cannot_be_read_is_said_and_counted(equipoise, table_run, tmp_path):
    frame = digits_frame().iloc[:10].astype({"pixel 9": object})
    frame.loc[4, "pixel 9"] = "smudge"
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = equipoise("predict", table_run, "new.csv", "--out", "a.csv", "--human", 0, "--json")
    assert done.err.splitlines() == [
        "pixel 9: 1 value could not be read and counted as missing; a human should look.",
        "10 predictions are in a.csv.",
    ]
    assert json.loads(done.out) == {
        "out": "a.csv",
        "samples": 10,
        "broken": 0,
        "decision": None,
        "human": 1,
        "abstained": None,
        "prior": None,
        "unread_values": {"pixel 9": 1},
    }
    done = equipoise("predict", table_run, "new.csv", "--out", "b.csv", "--prior", "estimate", "--json")
    assert json.loads(done.out)["unread_values"] == {"pixel 9": 1}  # though the data are read twice
    assert sum(json.loads(done.out)["prior"].values()) == pytest.approx(1)


def test_another_class_mix_and_sets_of_classes(equipoise, table_run, tmp_path):
    digits_frame().to_csv(tmp_path / "new.csv", index=False)
    done = equipoise("predict", table_run, "new.csv", "--prior", "estimate", "--abstain", 0.2, "--out", "a.csv")
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert lines[0].startswith("estimated class prior: <digit> ")
    assert " of 600 samples (" in lines[1]
    assert lines[-1] == "600 predictions are in a.csv."
    assert list(pd.read_csv(tmp_path / "a.csv").columns)[-2:] == ["set", "abstain"]
    done = equipoise("evaluate", table_run, "new.csv", "--prior", "balanced", "--abstain", 0.2)
    assert done.err.startswith("class prior: <digit> 0 10.0%, ")
    assert "Sets of possible classes at 0.8: " in done.out
    found = json.loads(equipoise("evaluate", table_run, "new.csv", "--abstain", 0.2, "--json").out)
    assert found["prior"] is None
    assert set(found["sets"]["classes"]) == set(found["classes"])
    for command in (("predict", "--out", "b.csv"), ("evaluate",)):
        done = equipoise(command[0], table_run, "new.csv", *command[1:], "--prior", "a=1")
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "unknown class 'a'; " in done.err
    assert not (tmp_path / "b.csv").exists()


def test_json_beside_predictions_on_standard_output_is_an_error_of_use(equipoise, table_run):
    done = equipoise("predict", table_run, "new.csv", "--json")
    assert (done.code, done.out) == (2, "")
    assert "name a file with --out" in " ".join(done.err.split())


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(table_run, tmp_path):
    pd.concat([digits_frame()] * 4).to_csv(tmp_path / "new.csv", index=False)
    line = f"{shlex.quote(sys.executable)} -m equipoise predict {table_run} new.csv | head -1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.startswith("row,class,")
    assert done.stderr == ""


@pytest.mark.slow
def test_an_export_gives_the_same_answers(equipoise, table_run, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    done = equipoise("export", table_run, "model.onnx", "--json")
    assert done.code == 0, done.err
    assert done.err.startswith("model.onnx is written; onnxruntime and Python differ by ")
    assert (tmp_path / "model.onnx").is_file()
    assert json.loads(done.out)["difference"] <= 1e-4


@pytest.mark.slow
def test_reports_of_one_run_and_of_several(equipoise, table_run, tmp_path):
    run = shutil.copytree(table_run, tmp_path / "run")
    before = (run / "report.html").read_bytes()
    done = equipoise("report", run)
    assert (done.code, done.out, done.err) == (0, "", f"Open {run / 'report.html'} in a browser.\n")
    found = json.loads(equipoise("report", run, "--json", "--quiet").out)
    assert found == {"runs": [str(run)], "report": str(run / "report.html")}
    assert (run / "report.html").read_bytes()[:200] == before[:200]
    assert equipoise("report", run, "--out", "page.html", "--quiet") == (0, "", "")
    again = equipoise("report", run, "--out", "page.html")
    assert (again.code, again.err) == (
        1,
        "error: page.html exists; pass --force to replace it, or name another file.\n",
    )
    assert equipoise("report", run, "--out", "page.html", "--force", "--quiet").code == 0
    assert (tmp_path / "page.html").is_file()
    assert "which is a folder; name a file in it" in equipoise("report", run, "--out", tmp_path).err
    done = equipoise("report", tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


def test_compare_ranks_and_recommends(equipoise, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90)})
    frame["y"] = np.where(frame["a"] + 0.3 * rng.normal(size=90) > 0.8, "rare", "common")
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("compare", "t.csv", "--methods", "cross_entropy, weighted", "--seeds", 1, "--folds", 2, "--epochs", 2)
    done = equipoise(*arguments, "--out", "fits.jsonl")
    assert done.code == 0, done.err
    assert done.out.startswith("2 fits of each method are too few to tell whether a remedy is needed: ")
    assert "Means over 1 seed × 2 folds" in done.out
    for heading in ("balanced", "behind", "average", "log"):
        assert heading in done.out
    assert (tmp_path / "fits.jsonl").is_file()
    found = json.loads(equipoise(*arguments, "--out", "fits.jsonl", "--json", "-q").out)
    assert {place["method"] for place in found["places"]} == {"cross_entropy", "weighted"}
    assert found["verdict"] in done.out
    assert found["recommendation"].removeprefix(found["verdict"]).strip() in done.out
    assert found["baseline"] == "cross_entropy"
    scores = found["places"][0]["scores"]
    assert 0 < scores["macro_average_precision"] <= 1
    assert scores["log_loss"] > 0
    wrong = equipoise("compare", "t.csv", "--methods", "magic")
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)
    assert "methods must be some of" in wrong.err


def test_compare_writes_a_page(equipoise, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "y": np.repeat(["common", "rare"], [45, 15])})
    frame.to_csv(tmp_path / "t.csv", index=False)
    some = ("compare", "t.csv", "--methods", "logistic_regression,logistic_regression_balanced", "--seeds", 1)
    done = equipoise(*some, "--page", "methods.html", "--json")
    assert json.loads(done.out)["page"] == "methods.html"
    assert "Open methods.html in a browser." in done.err
    assert equipoise(*some, "--page", "methods.html", "-q").code == 0  # its own page is replaced
    done = equipoise(*some, "--page", "methods.md")
    assert "The table is in methods.md." in done.err
    assert json.loads(equipoise(*some, "--json", "-q").out)["verdict"] in (tmp_path / "methods.md").read_text("utf-8")
    (tmp_path / "notes.md").write_text("my own")
    for page, sentence in {
        "notes.md": "notes.md exists and is not a page of equipoise; name another file",
        "page.pdf": "the page must end in .html or .md, got page.pdf",
        ".": "which is a folder; name a file in it",
    }.items():
        refused = equipoise(*some, "--page", page)
        assert (refused.code, refused.err.count("\n")) == (1, 1), page
        assert sentence in refused.err
    assert (tmp_path / "notes.md").read_text() == "my own"


def test_compare_takes_estimators_of_ones_own(equipoise, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_trees.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "linear = LogisticRegression(class_weight='balanced')\n"
        "def forest():\n"
        "    return RandomForestClassifier(5)\n"
        "def broken():\n"
        "    raise KeyError('no model here')\n"
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["north", "south"], size=60)})
    frame["y"] = np.where(frame["a"] > 0.8, "rare", "common")
    frame.to_csv(tmp_path / "t.csv", index=False)
    some = ("compare", "t.csv", "--seeds", 1, "--folds", 2, "--epochs", 1, "-q", "--methods")
    own = "trees=my_trees:forest,line=my_trees:linear,kind=my_trees:LogisticRegression"
    done = equipoise(*some, f"weighted, {own}", "--json")
    assert done.code == 0, done.err
    assert {place["method"] for place in json.loads(done.out)["places"]} == {"weighted", "trees", "line", "kind"}
    for own, sentence in {
        "x=nowhere_at_all:forest": "nowhere_at_all:forest cannot be used as an estimator (ModuleNotFoundError: No",
        "x=my_trees:bush": "my_trees:bush cannot be used as an estimator (AttributeError: module 'my_trees' has",
        "x=my_trees:broken": "my_trees:broken cannot be used as an estimator (KeyError: 'no model here')",
        "cross_entropy,cross_entropy": "--methods names 'cross_entropy' twice; give each a name of its own",
        "x=my_trees": "your own estimator must be given as NAME=MODULE:OBJECT, got x=my_trees",
        "focal=my_trees:forest": "a method 'focal' exists already; give yours another name",
        "magic,x=my_trees:forest": "methods must be some of",
    }.items():
        refused = equipoise(*some, own)
        assert (refused.code, refused.err.count("\n")) == (1, 1), own
        assert sentence in refused.err


@pytest.mark.slow
def test_the_demo_compares_and_keeps_a_run(equipoise, tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.training.settings.LEAST_STEPS", 400)
    done = equipoise("demo", "--seed", 1)
    assert done.code == 0, done.err
    for part in ("Recall on an untouched, balanced test set", "softmax", "Equipoise", "rare, mean", "all, mean"):
        assert part in done.out
    table, _, verdict = done.out.partition("\n\n")
    assert table.count("rare") == 5 + 1  # five classes, one mean
    assert verdict.startswith("Good: the model separates the rare classes well from the rest (mean AUC ")
    said = done.err.splitlines()
    assert "training softmax ..." in said
    assert said[-2:] == ["The run is in runs/demo.", "Open runs/demo/report.html in a browser."]
    gallery = json.loads((tmp_path / "runs" / "demo" / "gallery.json").read_text())
    assert gallery["kind"] == "images"
    assert all(item["thumbnail"] for item in gallery["uncertain"])
    frame = pd.DataFrame(np.full((2, 64), 3.0), columns=[f"pixel {r},{c}" for r in range(1, 9) for c in range(1, 9)])
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert equipoise("predict", "runs/demo", "new.csv", "--out", "a.csv").code == 0


def test_fetching_from_a_server_without_the_file_is_one_sentence(equipoise, tmp_path):
    import http.server
    import threading

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    (tmp_path / "served").mkdir()
    handler = partial(Silent, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mirror = f"http://127.0.0.1:{server.server_address[1]}/"
        done = equipoise("data", "fetch", "mnist", "--mirror", mirror, "--out", str(tmp_path / "mnist"))
        server.shutdown()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: could not fetch {mirror}train-images-idx3-ubyte.gz")
    assert done.err.count("\n") == 1
    assert "yourself" in done.err


def test_a_summary_as_json(equipoise, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,no\n2,no\n3,no\n4,yes\n")
    done = equipoise("data", "summary", "t.csv", "--json", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert [row["count"] for row in json.loads(done.out)["rows"]] == [3, 1]


@pytest.mark.parametrize("command", [*COMMANDS, "data summary", "data fetch"])
def test_help_has_examples_that_fit_their_lines(equipoise, command):
    done = equipoise(*command.split(), "--help")
    assert done.code == 0
    examples = [line for line in done.out.splitlines() if line.startswith("      ") and "equipoise " in line]
    assert any(f"equipoise {command}" in line for line in examples)
    assert all(len(line) <= 120 for line in done.out.splitlines())


def test_help_lists_the_commands_whole(equipoise):
    done = equipoise("--help")
    for name in (*COMMANDS, "data"):
        line = next(line for line in done.out.splitlines() if line.strip().startswith(f"{name} "))
        assert not line.endswith("...")


def test_an_error_that_nobody_foresaw_is_one_sentence(equipoise, table_run, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a tensor\nof the wrong size")

    monkeypatch.setattr("equipoise.app.runs.trained_run.finished_record", broken)
    done = equipoise("predict", table_run, table_run.parent / "digits.csv")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: unexpected error (RuntimeError: a tensor of the wrong size); "
        "add --debug to see where, and please report it.\n"
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [("run.json", "[" * 100_000), ("run.json", '{"options": {}, "classes": 3}'), ("model.json", "null")],
)
@pytest.mark.parametrize("command", ["evaluate", "predict", "export"])
def test_a_damaged_run_is_one_sentence(equipoise, table_run, tmp_path, command, file, content):
    shutil.copytree(table_run, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    (tmp_path / "run" / file).write_text(content)
    done = equipoise(command, "run", table_run.parent / "digits.csv" if command != "export" else "m.onnx")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("error: run")
    assert "unexpected error" not in done.err


def test_control_c_is_one_sentence_and_a_code_of_its_own(equipoise, table_run, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.app.runs.trained_run.finished_record", interrupted)
    assert equipoise("predict", table_run, table_run.parent / "digits.csv") == (
        130,
        "",
        "stopped before it was finished.\n",
    )
    (tmp_path / "t.csv").write_text("a,y\n1,no\n2,yes\n")
    monkeypatch.setattr("equipoise.app.compare.compare", interrupted)
    done = equipoise("compare", "t.csv", "--out", "fits.jsonl")
    assert (done.code, done.err) == (
        130,
        "stopped; finished fits are kept in fits.jsonl: the same command continues.\n",
    )


def test_a_file_that_may_not_be_read_is_one_sentence(equipoise, table_run, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "/secret")

    monkeypatch.setattr("equipoise.app.runs.trained_run.finished_record", refused)
    done = equipoise("predict", table_run, table_run.parent / "digits.csv")
    assert (done.code, done.err) == (1, "error: /secret: Permission denied; check the path and its permissions.\n")


def test_shell_completion_is_offered(tmp_path):
    environment = os.environ | {
        "_EQUIPOISE_COMPLETE": "complete_bash",
        "COMP_WORDS": "equipoise pre",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv = ['equipoise']; from equipoise.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert "predict" in done.stdout
