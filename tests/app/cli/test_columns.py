"""Tables as people have them, from the command line: columns chosen, rows named, leaks found, text learnt."""

import io
import json
import sys

import numpy as np
import openpyxl
import pandas as pd
import pytest

from equipoise.data.columns.sentence_encoder import load_encoder
from tests.data.columns.tiny_encoder import save_tiny_encoder
from tests.estimators.test_frames import churn

ID = [10**16 + 7919 * i for i in range(240)]


@pytest.fixture
def table(tmp_path):
    frame, y = churn()
    frame.insert(0, "customer_id", ID)
    frame = frame.assign(left=np.where(y == "left", "yes", "no"), closed=np.where(y == "left", "x", "-"))
    frame.to_csv(tmp_path / "churn.csv", index=False)
    return frame


@pytest.mark.usefixtures("table")
def test_the_summary_shows_the_columns(equipoise):
    done = equipoise("data", "summary", "churn.csv", "--target", "left", "--drop", "member")
    assert done.code == 0, done.err
    assert "identifier, ignored" in done.out
    assert "member" not in done.out
    lines = {
        line.split("│")[1].strip(): line for line in done.out.splitlines() if line.count("│") == 8 and "│ text" in line
    }
    assert [cell.strip() for cell in lines["notes"].split("│")[2:5]] == ["text", "", "240"]
    assert lines["notes"].split("│")[6].strip() == "1.00"
    assert "the column 'closed' alone decides the target" in done.err
    told = json.loads(equipoise("data", "summary", "churn.csv", "--target", "left", "--json", "--quiet").out)
    kinds = {column["name"]: column["kind"] for column in told["columns"]}
    assert kinds["paid"] == "number"
    assert kinds["closed"] == "category"
    assert len(told["columns"][1]["histogram"]) == 8
    assert any("'closed' alone decides" in note for note in told["notes"])


@pytest.mark.usefixtures("table")
def test_reasons_stand_on_wide_terminals(equipoise, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    done = equipoise("data", "summary", "churn.csv", "--target", "left", "--kind", "town=identifier")
    assert "because" in done.out
    assert "as requested" in done.out
    assert "town: identifier" not in done.out


@pytest.mark.usefixtures("table")
def test_reasons_stand_below_the_table_on_narrow_terminals(equipoise, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = equipoise("data", "summary", "churn.csv", "--target", "left", "--kind", "town=identifier")
    assert "because" not in done.out
    assert "town: identifier, as requested." in done.out.splitlines()


def test_the_summary_suggests_to_test_on_the_latest_rows(equipoise, tmp_path):
    days = pd.date_range("2021-01-01", periods=60, freq="D").astype(str)
    pd.DataFrame({"seen": days, "x": np.arange(60) % 7, "label": ["a", "b", "a"] * 20}).to_csv(tmp_path / "t.csv")
    done = equipoise("data", "summary", "t.csv")
    assert "the rows are in the order of 'seen'; --time seen would test on the latest ones." in done.err


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--drop", "memer"), "--drop names 'memer', which is not a column to learn from; did you mean 'member'?"),
        (("--keep", "age,left"), "--keep names 'left', which is not a column to learn from"),
        (("--kind", "notes=words"), "--kind must be COLUMN=KIND, KIND one of number, date, category, text,"),
        (("--kind", "notes"), "--kind must be COLUMN=KIND"),
        (("--kind", "notes=text", "--drop", "notes"), "--kind names 'notes', which is left out"),
        (
            ("--id", "customer"),
            "--id names 'customer', which is not a column to learn from; did you mean 'customer_id'?",
        ),
        (("--keep", "customer_id", "--id", "customer_id"), "leave no column to learn from"),
    ],
)
def test_columns_are_checked_before_anything_is_read(equipoise, arguments, sentence):
    done = equipoise("train", "churn.csv", "--target", "left", *arguments)
    assert done.code == 1
    assert sentence in done.err


def test_a_name_that_predictions_have_is_refused(equipoise, table, tmp_path):
    table.rename(columns={"customer_id": "class"}).to_csv(tmp_path / "t.csv", index=False)
    done = equipoise("train", "t.csv", "--target", "left", "--id", "class")
    assert "--id class clashes with a column of the predictions; rename the column" in done.err


def test_images_have_no_columns(equipoise, tmp_path):
    np.savez(tmp_path / "t.npz", X=np.zeros((30, 2)), y=np.arange(30) % 2)
    done = equipoise("train", "t.npz", "--drop", "a")
    assert done.code == 1
    assert "--drop, --keep, --kind and --id name columns; give a table with named columns" in done.err


TRAIN = ("train", "churn.csv", "--target", "left", "--model", "boosting", "--out", "run")


@pytest.mark.slow
def test_rows_are_named_in_predictions(equipoise, table, tmp_path, monkeypatch):
    done = equipoise(*TRAIN, "--id", "customer_id", "--drop", "closed", "--kind", "town=identifier")
    assert done.code == 0, done.err
    assert "notes: free text (192 different texts" in done.err
    assert "town: ignored, as requested." in done.err
    assert "customer_id" not in done.err
    assert "alone decides" not in done.err
    table.drop(columns=["left", "closed", "town"]).iloc[::-1].to_csv(tmp_path / "new.csv", index=False)
    assert equipoise("predict", "run", "new.csv", "--out", "answers.csv").code == 0
    answers = pd.read_csv(tmp_path / "answers.csv", dtype={"customer_id": str})
    assert list(answers)[:3] == ["row", "customer_id", "class"]
    assert answers["customer_id"].tolist() == [str(number) for number in ID[::-1]]  # with all of their digits
    joined = answers.merge(table.assign(customer_id=table["customer_id"].astype(str)), on="customer_id")
    assert (joined["class"] == joined["left"]).mean() > 0.95
    lines = "\n".join(
        table.drop(columns=["left", "customer_id"])
        .to_json(orient="records", lines=True, date_format="iso")
        .splitlines()[:3]
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    done = equipoise("predict", "run", "-", "--format", "jsonl")
    assert done.code == 0, done.err
    assert [json.loads(line)["row"] for line in done.out.splitlines()] == [0, 1, 2]  # where no id is given


@pytest.mark.slow
@pytest.mark.usefixtures("table")
def test_leaks_are_told_before_training(equipoise, tmp_path):
    done = equipoise(*TRAIN, "--keep", "age,closed", "--test", "churn.csv")
    assert done.code == 0, done.err
    assert "the column 'closed' alone decides the target" in done.err
    assert "240 of 240 test rows also appear in the training rows" in done.err
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    assert any("alone decides the target" in note for note in notes)


@pytest.mark.slow
def test_the_future_is_tested(equipoise, tmp_path):
    frame, y = churn()
    frame = frame.assign(left=y).sort_values("since")
    frame.to_csv(tmp_path / "churn.csv", index=False)
    done = equipoise(*TRAIN, "--time", "since", "--drop", "since")
    assert done.code == 0, done.err
    assert "earlier rows by 'since', tested on the" in done.err
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    days = frame["since"].to_numpy()
    assert days[split["train"]].max() < days[split["test"]].min()
    assert 0.15 < len(split["test"]) / 240 < 0.25
    done = equipoise(*TRAIN[:-1], "other")
    assert "the rows are in the order of 'since'; --time since would test on the latest ones." in done.err
    done = equipoise(*TRAIN[:-1], "third", "--time", "since", "--group", "town")
    assert "--time and --group both choose the rows to hold out; leave one of them out" in done.err


@pytest.mark.usefixtures("table")
def test_comparisons_tell_of_leaks_too(equipoise):
    done = equipoise(
        *("compare", "churn.csv", "--target", "left", "--keep", "notes,closed", "--methods", "logistic_regression"),
        *("--seeds", "1", "--folds", "2"),
    )
    assert done.code == 0, done.err
    assert "the column 'closed' alone decides the target" in done.err


@pytest.mark.slow
def test_a_workbook_of_texts_and_labels(equipoise, tmp_path):
    frame, y = churn()
    book = openpyxl.Workbook()
    for row in [("text", "label"), *zip(frame["notes"], y, strict=True)]:
        book.active.append(row)
    book.save(tmp_path / "texts.xlsx")
    done = equipoise("train", "texts.xlsx", "--model", "forest", "--out", "run", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["scores"]["balanced_accuracy"] > 0.95
    assert "text: words that speak for 'left':" in done.err
    page = (tmp_path / "run" / "report.html").read_text().partition("Words that speak for a class")[2]
    kept = json.loads((tmp_path / "run" / "gallery.json").read_text())
    assert kept["uncertain"][0]["texts"]["text"] in set(frame["notes"])
    assert {each["label"] for each in kept["words"]} == {"left", "stayed"}
    words = next(each["words"] for each in kept["words"] if each["label"] == "left")
    assert f"<span>{words[0]}</span>" in page
    assert page.index('<th scope="row">left</th>') < page.index('<th scope="row">stayed</th>')


@pytest.mark.slow
def test_sentences_go_through_training_prediction_and_export(equipoise, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    frame, y = churn()
    encoder = save_tiny_encoder(tmp_path, sorted({word for text in frame["notes"] for word in text.split()}))
    frame.assign(label=y).to_csv("texts.csv", index=False)
    options = ("--model", "forest", "--text-encoder", str(encoder), "--out", "run", "--json")
    done = equipoise("train", "texts.csv", "--keep", "notes", *options)
    assert done.code == 0, done.err
    assert f"by n-grams and the sentence encoder {encoder}" in done.err
    done = equipoise("predict", "run", "texts.csv", "--quiet")
    assert done.code == 0, done.err
    assert (pd.read_csv(io.StringIO(done.out))["class"] == y).mean() > 0.9
    done = equipoise("export", "run", "model.onnx")
    assert done.code == 0, done.err
    encoder.rename(tmp_path / "elsewhere")
    load_encoder.cache_clear()
    done = equipoise("predict", "run", "texts.csv", "--quiet")
    assert done.code != 0
    assert "is not on this machine or cannot be loaded" in done.err or "modules.json" in done.err
