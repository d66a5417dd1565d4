"""Fitted classifiers of other libraries: the same bits after a round trip, a sentence for files that are not sound."""

import io
import json
import subprocess
import sys
import zipfile
from functools import partial

import imblearn.pipeline
import numpy as np
import pandas as pd
import pytest
from imblearn.ensemble import BalancedRandomForestClassifier
from imblearn.over_sampling import SMOTE
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from equipoise.errors import InvalidInputError
from equipoise.estimators.pickle_free import member_files
from equipoise.estimators.pickle_free.member_files import MemberRecord, load_member, save_member


def rows(classes=3, missing=True):
    """Six columns: the first holds eight categories, the second misses values."""
    X, y = make_classification(150, 6, n_informative=5, n_redundant=0, n_classes=classes, random_state=0)
    X[:, 0] = np.round(np.abs(X[:, 0]) * 2) % 8
    if missing:
        X[::7, 1] = np.nan
        X[::11, 0] = np.nan
    return X, y


def lightgbm(**options):
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1, **options)


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=3, n_jobs=1)


def catboost(**options):
    kind = pytest.importorskip("catboost").CatBoostClassifier
    return kind(iterations=4, depth=3, verbose=0, allow_writing_files=False, thread_count=1, **options)


forest = partial(RandomForestClassifier, 4, random_state=0)
hist = partial(HistGradientBoostingClassifier, max_iter=4, random_state=0)
one_hot = partial(OneHotEncoder, handle_unknown="infrequent_if_exist", max_categories=4)

WITH_MISSING = {
    "forest": forest,
    "hist": hist,
    "hist by category": lambda: hist(categorical_features=[0]),
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "CatBoost": catboost,
}
COMPLETE = {
    "extra trees": lambda: ExtraTreesClassifier(4, random_state=np.random.RandomState(0)),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3, random_state=0),
    "scaled regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "ufunc": lambda: make_pipeline(FunctionTransformer(np.abs), LogisticRegression(max_iter=1000)),
    "network": lambda: MLPClassifier((4,), solver="lbfgs", max_iter=2000, tol=1, random_state=0),
    "balanced forest": lambda: BalancedRandomForestClassifier(4, random_state=0),
    "bagging": lambda: BaggingClassifier(n_estimators=3, max_features=0.5, random_state=0),
    "vote": lambda: VotingClassifier([("a", forest()), ("b", hist())], voting="soft"),
    "calibrated": lambda: CalibratedClassifierCV(forest(), cv=2),
    "isotonic boosting": lambda: CalibratedClassifierCV(lightgbm(), cv=2, method="isotonic"),
    "resampled boosting": lambda: imblearn.pipeline.make_pipeline(SMOTE(random_state=0), StandardScaler(), lightgbm()),
    "imputed": lambda: make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), LogisticRegression()),
    "binned": lambda: make_pipeline(
        KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), LogisticRegression()
    ),
    "selected": lambda: make_pipeline(SelectKBest(f_classif, k=3), LogisticRegression()),
    "stack": lambda: StackingClassifier([("a", forest()), ("b", GaussianNB())], cv=2),
    "categories": lambda: make_pipeline(make_column_transformer((one_hot(), [0]), remainder="passthrough"), forest()),
}


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        *((name, classes) for name in WITH_MISSING for classes in (2, 3)),
        *((name, 2 + place % 2) for place, name in enumerate(COMPLETE)),
        *(pytest.param(name, 3 - place % 2, marks=pytest.mark.slow) for place, name in enumerate(COMPLETE)),
    ],
)
def test_a_round_trip_gives_the_same_bits(name, classes, tmp_path):
    X, y = rows(classes, missing=name in WITH_MISSING)
    model = (WITH_MISSING | COMPLETE)[name]().fit(X, y)
    record = save_member(model, tmp_path / "new folder", "member 1")
    loaded = load_member(record, tmp_path / "new folder")
    for table in (X, X.astype(np.float32), X[:1]):
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
        np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert type(loaded) is type(model)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.n_features_in_ == model.n_features_in_ == 6
    assert [path.name for path in (tmp_path / "new folder").iterdir()] == ["member 1.skops"]


@pytest.mark.parametrize(
    "columns", [pd.Index(["x0", "x1"]), ["x0", "x1"], make_column_selector(dtype_include=np.number)]
)
def test_columns_of_a_frame_are_chosen_in_any_way(columns, tmp_path):
    X, y = rows(missing=False)
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(6)])
    prepared = make_column_transformer((StandardScaler(), columns), remainder="drop")
    model = make_pipeline(prepared, LogisticRegression()).fit(frame, y)
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))


def test_what_cannot_be_read_back_is_not_written(tmp_path, monkeypatch):
    X, y = rows(missing=False)
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(X, y)
    monkeypatch.setattr(member_files, "PLAIN", frozenset())
    with pytest.raises(InvalidInputError, match=r"Pipeline cannot be stored without pickle .*numpy\.dtype"):
        save_member(model, tmp_path, "member")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [forest, hist, lightgbm, catboost])
def test_labels_that_are_words(make, tmp_path):
    X, y = rows()
    model = make().fit(X, np.array(["rare", "usual", "älter"])[y])
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    assert loaded.classes_.tolist() == ["rare", "usual", "älter"]
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_several_labels_a_row(tmp_path):
    X, y = rows()
    model = forest().fit(X, np.stack([y, y % 2], axis=1))
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    for one, other in zip(loaded.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_early_stopping_of_lightgbm_is_kept(tmp_path):
    X, y = rows(2)
    model = lightgbm().set_params(n_estimators=60, learning_rate=0.9)
    stop = pytest.importorskip("lightgbm").early_stopping(2, verbose=False)
    model.fit(X[:100], y[:100], eval_X=X[100:], eval_y=y[100:], callbacks=[stop])
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    assert 0 < loaded.best_iteration_ == model.best_iteration_ < 60
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "options",
    [
        {"tree_method": "exact", "gamma": 2},  # leaves pruned nodes behind
        {"num_parallel_tree": 2, "subsample": 0.5},
        {"enable_categorical": True, "feature_types": ["c", *"qqqqq"], "max_cat_to_onehot": 1},
    ],
)
def test_xgboost_with_other_trees(options, tmp_path):
    X, y = rows(missing=False)
    y = np.where(X[:, 0] % 3 == 1, y, 2)
    y[:3] = range(3)
    model = xgboost().set_params(**options).fit(X, y)
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    text = model.get_booster().save_raw("json")
    assert "enable_categorical" not in options or b'"categories":[]' not in text[: text.index(b'"id":1,')]
    assert "gamma" not in options or b'"num_deleted":"0"' not in text[: text.index(b'"id":1,')]


def test_lightgbm_splits_by_category(tmp_path):
    X, y = rows()
    y = np.where(np.nan_to_num(X[:, 0]) % 3 == 1, y, 2)
    model = lightgbm(min_child_samples=2, min_data_per_group=1, cat_smooth=0).fit(X, y, categorical_feature=[0])
    assert "num_cat=1" in model.booster_.model_to_string()
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_the_model_itself_is_left_as_it_was(tmp_path):
    X, y = rows()
    model = VotingClassifier([("a", forest()), ("b", hist(categorical_features=[0]))], voting="soft").fit(X, y)
    before = model.predict_proba(X)
    random_state = model.estimators_[1]._feature_subsample_rng
    save_member(model, tmp_path, "member")
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.estimators_[1]._feature_subsample_rng is random_state


def test_training_rows_of_a_resampler_are_not_stored(tmp_path):
    X, y = rows(missing=False)
    X[0, 2] = 123.4567891
    model = imblearn.pipeline.make_pipeline(SMOTE(random_state=0), LogisticRegression(max_iter=1000)).fit(X, y)
    loaded = load_member(save_member(model, tmp_path, "member"), tmp_path)
    assert vars(model[0])["nn_k_"] is not None
    assert "nn_k_" not in vars(loaded[0])
    assert all(np.float64(123.4567891).tobytes() not in content for content in members(tmp_path).values())


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    X, y = rows()
    record = save_member(forest().fit(X, y), tmp_path, "member")
    before = (tmp_path / record.file).read_bytes()

    def full(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(member_files, "write_atomically", full)
    with pytest.raises(InvalidInputError, match="cannot hold a model"):
        save_member(hist().fit(X, y), tmp_path, "member")
    assert (tmp_path / record.file).read_bytes() == before


class Own(ClassifierMixin, BaseEstimator):
    """A class of the user's."""

    def fit(self, X, y):
        self.n_features_in_, self.classes_ = X.shape[1], np.unique(y)
        return self


class OwnForest(RandomForestClassifier):
    """So is a subclass."""


def fitted(model):
    return model.fit(*rows(missing=False))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: fitted(Own()),
            r"an object of the type tests\.estimators\.pickle_free\.test_member_files\.Own, which cannot be stored",
        ),
        (
            lambda: make_pipeline(StandardScaler(), Own()),
            r"of the type tests\.estimators\.pickle_free\.test_member_files\.Own",
        ),
        (lambda: fitted(OwnForest(2)), r"of the type tests\.estimators\.pickle_free\.test_member_files\.OwnForest"),
        (lambda: fitted(SVC()), r"of the type sklearn\.svm\._classes\.SVC"),
        (lambda: FunctionTransformer(rows), r"of the type tests\.estimators\.pickle_free\.test_member_files\.rows"),
        (lambda: FunctionTransformer(partial(np.add, 1)), r"contains a functools\.partial"),
        (lambda: lightgbm(objective=print), "the parameter 'objective' is of the type builtin_function"),
        (lambda: fitted(catboost(grow_policy="Lossguide")), "grow_policy='SymmetricTree' only"),
    ],
)
def test_what_is_not_stored(make, sentence, tmp_path):
    with pytest.raises(InvalidInputError, match=sentence):
        save_member(make(), tmp_path, "member")
    assert list(tmp_path.iterdir()) == []


def test_coefficients_that_are_no_numbers(tmp_path):
    X, y = rows(missing=False)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    record = save_member(model, tmp_path, "member")
    model[1].coef_[0, 0] = np.nan
    with pytest.raises(InvalidInputError, match="holds a LogisticRegression that has coefficients that are NaN"):
        save_member(model, tmp_path, "member")
    stored = members(tmp_path)
    name = next(name for name, content in stored.items() if b"(3, 6)" in content)
    changed = array(stored[name])
    changed[1, 1] = np.inf
    rewrite(tmp_path, {name: npy(changed)})
    with pytest.raises(InvalidInputError, match="holds a LogisticRegression that has coefficients that are NaN"):
        load_member(record, tmp_path)


def members(folder):
    with zipfile.ZipFile(folder / "member.skops") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(folder, changes):
    """Change some members of the file, the checksums set right; None leaves a member out."""
    contents = members(folder) | changes
    with zipfile.ZipFile(folder / "member.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            if content is not None:
                archive.writestr(name, content)


def array(content):
    return np.load(io.BytesIO(content))


def npy(value):
    buffer = io.BytesIO()
    np.save(buffer, value)
    return buffer.getvalue()


def set_field(field, value, node=0):
    def change(nodes):
        nodes[field][node] = value

    return change


FOREST_FAULTS = {
    "a child far away": ("nodes", set_field("left_child", 10**9)),
    "a negative child": ("nodes", set_field("left_child", -5)),
    "a cycle": ("nodes", set_field("left_child", 0)),
    "two parents": ("nodes", set_field("left_child", 2)),
    "one child": ("nodes", set_field("right_child", -1)),
    "a feature beyond": ("nodes", set_field("feature", 6)),
    "a negative feature": ("nodes", set_field("feature", -2)),
    "a threshold": ("nodes", set_field("threshold", np.nan)),
    "fewer nodes": ("nodes", lambda nodes: nodes[:-1]),
    "more nodes": ("nodes", lambda nodes: np.concatenate([nodes, nodes[:3]])),
    "nodes of another type": ("nodes", lambda nodes: nodes["threshold"].copy()),
    "fewer values": ("values", lambda values: values[:-1]),
    "a value": ("values", set_field(slice(0, 1), np.inf)),
    "values of another type": ("values", lambda values: values.astype(np.float32)),
    "no nodes": ("sizes", lambda sizes: sizes * [0, 1, 1, 1]),
    "many nodes": ("sizes", lambda sizes: sizes * [10**6, 1, 1, 1]),
    "more features": ("sizes", lambda sizes: sizes + np.array([0, 1, 0, 0])),
    "many outputs": ("sizes", lambda sizes: sizes * [1, 1, 10**9, 1]),
    "no outputs": ("sizes", lambda sizes: sizes * [1, 1, -1, 1]),
    "a depth": ("sizes", lambda sizes: sizes * [1, 1, 1, 10**6]),
    "a tree fewer": ("sizes", lambda sizes: sizes[1:]),
    "flat sizes": ("sizes", lambda sizes: sizes.ravel()),
    "other classes": ("classes", lambda classes: classes + 1),
    "no classes": ("classes", lambda classes: classes * 0),
}
HIST_FAULTS = {
    "a child far away": ("nodes", set_field("left", 2**32 - 1)),
    "a cycle": ("nodes", set_field("left", 0)),
    "a feature beyond": ("nodes", set_field("feature_idx", 6)),
    "a feature far away": ("nodes", set_field("feature_idx", 2**62)),
    "a negative feature": ("nodes", set_field("feature_idx", -1)),
    "a leaf in the middle": ("nodes", set_field("is_leaf", 1)),
    "an odd leaf": ("nodes", set_field("is_leaf", 7)),
    "a number as a category": ("nodes", lambda nodes: set_field("feature_idx", 3, nodes["is_categorical"] == 1)(nodes)),
    "a category set far away": (
        "nodes",
        lambda nodes: set_field("bitset_idx", 10**6, nodes["is_categorical"] == 1)(nodes),
    ),
    "a threshold": ("nodes", set_field("num_threshold", np.nan, slice(None))),
    "a value": ("nodes", set_field("value", np.inf, slice(None))),
    "fewer nodes": ("nodes", lambda nodes: nodes[:-1]),
    "fewer category sets": ("raw_left_cat_bitsets", lambda sets: sets[:-1]),
    "narrow category sets": ("raw_left_cat_bitsets", lambda sets: sets[:, :4].copy()),
    "category sets of another type": ("raw_left_cat_bitsets", lambda sets: sets.astype(np.int64)),
    "no nodes": ("sizes", lambda sizes: sizes * [0, 1]),
    "a tree fewer": ("sizes", lambda sizes: sizes[1:]),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A forest and a boosted model with categories, each in a folder of its own."""
    X, _ = rows()
    y = (np.nan_to_num(X[:, 0]).astype(int) * 5) % 7 % 3  # no order of the categories tells it
    found = {}
    for kind, model in (("trees", forest()), ("boosting", hist(categorical_features=[0]))):
        folder = tmp_path_factory.mktemp(kind)
        found[kind] = folder, save_member(model.fit(X, y), folder, "member")
    assert array(members(folder)["boosting/nodes.npy"])["is_categorical"].any()
    return found


@pytest.mark.parametrize(
    ("kind", "name"), [*(("trees", name) for name in FOREST_FAULTS), *(("boosting", name) for name in HIST_FAULTS)]
)
def test_a_hostile_tree_is_refused(kind, name, stored, tmp_path):
    source, record = stored[kind]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    place, change = (FOREST_FAULTS if kind == "trees" else HIST_FAULTS)[name]
    found = array(members(tmp_path)[f"{kind}/{place}.npy"])
    changed = change(found)
    rewrite(tmp_path, {f"{kind}/{place}.npy": npy(found if changed is None else changed)})
    with pytest.raises(InvalidInputError, match=r"^[^\n]*member\.skops [^\n]*again\.$"):
        load_member(record, tmp_path)


HOSTILE = """
import sys
from pathlib import Path
import numpy as np
from equipoise.errors import InvalidInputError
from equipoise.estimators.pickle_free.member_files import MemberRecord, load_member
for folder in map(Path, sys.argv[1:]):
    record = MemberRecord(file="member.skops", class_path=(folder / "class").read_text(), version="any")
    try:
        load_member(record, folder).predict_proba(np.zeros((1000, 6)))
    except InvalidInputError as error:
        print(error)
"""


@pytest.mark.slow
def test_hostile_files_do_not_end_the_process(stored, tmp_path):
    """In a process of their own: a crash would show in its return code."""
    folders = []
    for kind, name in (("trees", "a child far away"), ("trees", "a feature beyond"), ("boosting", "a child far away")):
        source, record = stored[kind]
        folder = tmp_path / str(len(folders))
        folder.mkdir()
        (folder / record.file).write_bytes((source / record.file).read_bytes())
        place, change = (FOREST_FAULTS if kind == "trees" else HIST_FAULTS)[name]
        found = array(members(folder)[f"{kind}/{place}.npy"])
        change(found)
        rewrite(folder, {f"{kind}/{place}.npy": npy(found)})
        (folder / "class").write_text(record.class_path)
        folders.append(str(folder))
    ran = subprocess.run([sys.executable, "-c", HOSTILE, *folders], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 3


def schema_of(folder):
    return json.loads(members(folder)["schema.json"])


def named(entry, **fields):
    return {"__class__": "x", "__module__": "x", "__loader__": entry, "__id__": 99, "content": None} | fields


EVIL = {
    "a function": named("FunctionNode", __module__="os", __class__="system"),
    "a type": named("TypeNode", __module__="os", __class__="system"),
    "an object": named("ObjectNode", __module__="subprocess", __class__="Popen"),
    "a method": named("MethodNode", __module__="builtins", __class__="str"),
    "an operator": named("OperatorFuncNode", __module__="operator", __class__="methodcaller"),
    "a reduced object": named("ConstructorFromReduceNode", __module__="numpy", __class__="ndarray"),
    "a tree": named("TreeNode", __module__="sklearn.tree._tree", __class__="Tree"),
    "a function of numpy": named("FunctionNode", __module__="numpy", __class__="fromfile"),
    "numpy's own memory": named("NdArrayNode", __module__="numpy", __class__="void", type="numpy", file="x"),
}


@pytest.mark.parametrize("name", EVIL)
def test_a_description_that_names_anything_else_is_refused(name, stored, tmp_path):
    source, record = stored["trees"]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    schema = schema_of(tmp_path)
    schema["content"]["content"]["evil"] = EVIL[name]
    rewrite(tmp_path, {"schema.json": json.dumps(schema).encode()})
    kind = f"{EVIL[name]['__module__']}.{EVIL[name]['__class__']}"
    sentence = "damaged" if name == "a function of numpy" else f"contains an object of the type {kind}, "
    with pytest.raises(InvalidInputError, match=sentence):
        load_member(record, tmp_path)


def test_attributes_in_place_of_methods_are_refused(stored, tmp_path):
    """A forest that no longer checks its input would read beyond it."""
    source, record = stored["trees"]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    schema = schema_of(tmp_path)
    attributes = schema["content"]
    ufunc = named("FunctionNode", __module__="numpy", __class__="positive")
    attributes["content"]["_validate_X_predict"] = ufunc
    attributes["key_types"]["content"].append(attributes["key_types"]["content"][0])
    rewrite(tmp_path, {"schema.json": json.dumps(schema).encode()})
    with pytest.raises(InvalidInputError, match="replaces its method '_validate_X_predict'"):
        load_member(record, tmp_path)


def attribute(schema, name):
    return schema["content"]["content"][name]


@pytest.mark.parametrize(
    ("kind", "name", "value", "sentence"),
    [
        ("trees", "n_features_in_", "7", "has trees of another number of features"),
        ("trees", "n_features_in_", "null", "has trees of another number of features"),
        ("trees", "n_classes_", "2", "has trees of other classes"),
        ("trees", "estimators_", "[]", "holds something else than trees"),
        ("boosting", "_n_features", "7", "does not say how many features"),
        ("boosting", "n_trees_per_iteration_", "1", "has another number of trees than classes"),
        ("boosting", "_predictors", '[["equipoise part: trees 0"]]', "damaged|another number of trees"),
    ],
)
def test_an_estimator_that_contradicts_its_trees_is_refused(kind, name, value, sentence, stored, tmp_path):
    source, record = stored[kind]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    schema = schema_of(tmp_path)
    attribute(schema, name).clear()
    attribute(schema, name).update(named("JsonNode", __id__=7, content=value))
    rewrite(tmp_path, {"schema.json": json.dumps(schema).encode()})
    with pytest.raises(InvalidInputError, match=sentence):
        load_member(record, tmp_path)


@pytest.mark.parametrize("change", [{"nodes": None}, {"nodes": b""}, {"nodes": npy(np.zeros(3))[:-1]}])
def test_lost_arrays(change, stored, tmp_path):
    source, record = stored["trees"]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    rewrite(tmp_path, {f"trees/{name}.npy": content for name, content in change.items()})
    with pytest.raises(InvalidInputError, match="is damaged, or its parts contradict each other; save the model again"):
        load_member(record, tmp_path)


def test_files_that_are_cut_off_or_missing(stored, tmp_path):
    source, record = stored["trees"]
    whole = (source / record.file).read_bytes()
    for content in (b"", b"PK", whole[: len(whole) // 2], whole[:-30]):
        (tmp_path / record.file).write_bytes(content)
        with pytest.raises(InvalidInputError, match="is damaged"):
            load_member(record, tmp_path)
    (tmp_path / record.file).unlink()
    with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file or directory\)"):
        load_member(record, tmp_path)
    (tmp_path / record.file).mkdir()
    with pytest.raises(InvalidInputError, match="not a regular file"):
        load_member(record, tmp_path)


def test_small_files_that_unpack_to_much_are_refused(stored, tmp_path):
    source, record = stored["trees"]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    rewrite(tmp_path, {"zeros.npy": bytes(2**26)})
    with pytest.raises(InvalidInputError, match="unpacks to more than"):
        load_member(record, tmp_path)


def test_one_array_many_times_is_refused(stored, tmp_path):
    source, record = stored["trees"]
    (tmp_path / record.file).write_bytes((source / record.file).read_bytes())
    schema = schema_of(tmp_path)
    again = named("NdArrayNode", __module__="numpy", __class__="ndarray", type="numpy", file="zeros.npy")
    schema["many"] = [again | {"__id__": place} for place in range(100)]
    rewrite(tmp_path, {"zeros.npy": npy(np.zeros(2**18)), "schema.json": json.dumps(schema).encode()})
    with pytest.raises(InvalidInputError, match="is damaged"):
        load_member(record, tmp_path)


@pytest.mark.parametrize("name", ["../member.skops", "/etc/passwd", "..", ""])
def test_a_record_cannot_lead_out_of_its_folder(name, tmp_path):
    with pytest.raises(InvalidInputError, match="must lie in the folder of its model"):
        load_member(MemberRecord(file=name, class_path="x", version="x"), tmp_path)


def test_records_that_tell_of_another_class_or_version(stored):
    folder, record = stored["trees"]
    other = MemberRecord(file=record.file, class_path="sklearn.svm._classes.SVC", version=record.version)
    with pytest.raises(InvalidInputError, match="holds a RandomForestClassifier, but its record names another class"):
        load_member(other, folder)
    older = MemberRecord(file=record.file, class_path=record.class_path, version="scikit-learn 1.0")
    with pytest.warns(UserWarning, match=r"was saved with scikit-learn 1\.0, and scikit-learn 1.* is installed"):
        load_member(older, folder)


BOOSTER_FAULTS = {
    "lightgbm": [
        (b"left_child=1", b"left_child=9999"),
        (b"split_feature=", b"split_feature=-"),
        (b"num_leaves=", b"num_leaves=9"),
        (b"max_feature_idx=5", b"max_feature_idx=9"),
        (b"num_class=3", b"num_class=300"),
        (b"leaf_value=", b"leaf_value=nan "),
        (b"num_cat=0", b"num_cat=1"),
        (b"decision_type=", b"decision_type=9"),
        (b"objective=multiclass", b"objective=custom"),
        (b"tree\n", b"\xff\xfe"),
    ],
    "xgboost": [
        (b'"left_children": [1', b'"left_children": [99999'),
        (b'"left_children": [1', b'"left_children": [0'),
        (b'"split_indices": [', b'"split_indices": [77, '),
        (b'"num_feature": "6", "num_target"', b'"num_feature": "60", "num_target"'),
        (b'"name": "gbtree"', b'"name": "gblinear"'),
        (b'"tree_info": [0', b'"tree_info": [44'),
        (b'"base_score": "[', b'"base_score": "[nan,'),
        (b'"name": "multi:softprob"', b'"name": "rank:ndcg"'),
        (b"{", b"["),
    ],
    "catboost": [
        (b'"float_feature_index": ', b'"float_feature_index": 9'),
        (b'"border": ', b'"border": 9'),
        (b'"nan_value_treatment": "', b'"nan_value_treatment": "x'),
        (b'"flat_feature_index": 3', b'"flat_feature_index": 300'),
        (b'"leaf_values": [', b'"leaf_values": [0.5, '),
        (b'"oblivious_trees"', b'"trees"'),
        (b"{", b"["),
    ],
}


@pytest.mark.parametrize(
    ("kind", "old", "new"), [(kind, *change) for kind, changes in BOOSTER_FAULTS.items() for change in changes]
)
def test_hostile_text_of_boosted_models_is_refused(kind, old, new, tmp_path):
    X, y = rows()
    model = {"lightgbm": lightgbm, "xgboost": xgboost, "catboost": catboost}[kind]().fit(X, y)
    record = save_member(model, tmp_path, "member")
    text = members(tmp_path)[f"{kind}/0.txt"]
    assert old in text
    rewrite(tmp_path, {f"{kind}/0.txt": text.replace(old, new, 1)})
    with pytest.raises(InvalidInputError, match="is damaged, or its parts contradict each other"):
        load_member(record, tmp_path)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    X, y = rows()
    record = save_member(lightgbm().fit(X, y), tmp_path, "member")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InvalidInputError, match="lightgbm is not installed; pip install lightgbm"):
        load_member(record, tmp_path)
