"""A run's features of pairs, and the figures that follow."""

import csv
import io
import pickle
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image
from torch import nn

from equipoise.app.run_folder import BackboneRecord
from equipoise.app.runs import RunModel
from equipoise.app.runs.preprocessing import FeaturesInput
from equipoise.errors import InvalidInputError
from equipoise.models import ImageBackbone, ImageInput
from equipoise.paper.faces.face_encoders import (
    Embedding,
    OnnxEncoder,
    RunEncoder,
    StoredEmbeddings,
    face_features,
    known_people,
    similarities,
)
from equipoise.paper.faces.pair_files import guessed_protocol, read_pair_list, read_pairs, read_ytf_pairs
from equipoise.paper.faces.verification_page import CURVE, output_file, write_roc
from equipoise.paper.faces.verification_scores import cosines, roc, verification
from equipoise.training import Network
from tests.app.runs import made
from tests.paper.faces.faces_made import LFW_FACES, LFW_LINES, write_faces, write_list


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return RunModel.load(made.once(made.image_run, tmp_path_factory))


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Twelve people, each of a brightness of their own, three images each with noise."""
    root, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(0)
    for person in range(12):
        (root / f"p{person:02}").mkdir()
        face = rng.integers(0, 256, (4, 4)).repeat(4, 0).repeat(4, 1)
        for number in range(3):
            pixels = (face + rng.normal(0, 25, face.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / f"p{person:02}" / f"{number}.png")
    return root


class Pixels(nn.Module):
    """The image itself as its feature."""

    in_channels, out_features = 1, 32 * 32

    def forward(self, x):
        return x.flatten(1)


class Halved(nn.Module):
    out_features = 512

    def forward(self, x):
        return x[:, ::2]


@pytest.fixture(scope="module")
def pixel_model(model):
    """A run whose pooled features are the pixels, and whose last ones are half of them."""
    backbone = ImageBackbone(ImageInput(1), Pixels(), Halved())
    return replace(model, predictor=replace(model.predictor, network=Network(backbone, model.network.head)))


def test_features_are_pooled_or_last_and_averaged_with_the_mirror_images(pixel_model, people, tmp_path):
    lines = ["p00/0.png p00/1.png 1", "p00/0.png p01/0.png 0"] * 2
    pairs = read_pair_list(write_list(tmp_path / "list.txt", *lines), people)
    images = pairs.images((32, 32), 1)[0:3] / 255
    mirrored = (images + images[..., ::-1]) / 2
    found = face_features(RunEncoder(pixel_model), pairs)
    np.testing.assert_allclose(found, mirrored.reshape(3, -1), atol=1e-6)
    np.testing.assert_allclose(
        face_features(RunEncoder(pixel_model, flip=False), pairs), images.reshape(3, -1), atol=1e-6
    )
    np.testing.assert_allclose(face_features(RunEncoder(pixel_model, layer="last"), pairs), found[:, ::2], atol=1e-6)


def test_videos_are_averaged_over_their_frames_whatever_the_batch(pixel_model, tmp_path, monkeypatch):
    root = write_faces(tmp_path / "ytf", [f"{video}/{n}.png" for video in ("A/0", "A/1", "B/0") for n in range(5)])
    lines = ["1, 1, A/0, A/1, 1", "1, 2, A/0, B/0, 0", "2, 1, A/1, A/0, 1", "2, 2, A/1, B/0, 0"]
    pairs = read_ytf_pairs(write_list(tmp_path / "splits.txt", *lines), root)
    images = pairs.images((32, 32), 1)[0:15].reshape(15, -1) / 255
    expected = np.stack([images[pairs.face == face].mean(0) for face in range(3)])
    told = []
    whole = face_features(RunEncoder(pixel_model, flip=False), pairs)
    monkeypatch.setattr("equipoise.paper.faces.face_encoders.MOST_AT_ONCE", 4)
    parts = face_features(
        RunEncoder(pixel_model, flip=False), pairs, progress=lambda done, total: told.append((done, total))
    )
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    np.testing.assert_allclose(parts, expected, atol=1e-6)
    assert told == [(4, 15), (8, 15), (12, 15), (15, 15)]


def test_the_networks_modes_and_weights_stay(model, people, tmp_path):
    before = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    pairs = read_pair_list(
        write_list(tmp_path / "list.txt", *["p00/0.png p00/1.png 1", "p00/0.png p01/0.png 0"] * 2), people
    )
    first, again = face_features(RunEncoder(model), pairs), face_features(RunEncoder(model), pairs)
    np.testing.assert_array_equal(first, again)  # no dropout, no augmentation
    assert all(torch.equal(before[name], tensor) for name, tensor in model.network.state_dict().items())


def test_dropout_is_off():
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(Embedding(nn.Sequential(nn.Flatten(), nn.Dropout(0.5)), flip=False)(images), images.flatten(1))


def test_a_frozen_backbone_gives_pooled_features_and_the_layers_behind_it_the_last(model):
    extractor = ImageBackbone(ImageInput(1), Pixels())
    frozen = RunModel(
        FeaturesInput(extractor, BackboneRecord("lenet", 1, (32, 32)), None, cache=False),
        replace(model.predictor, network=Network(Halved(), model.network.head)),
        model.classes,
        False,
        {},
        model.calibrated,
    )
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 32, 32), dtype=np.uint8)
    assert RunEncoder(frozen, layer="pooled")(images).shape == (2, 1024)
    assert RunEncoder(frozen, layer="last")(images).shape == (2, 512)


def test_a_folder_of_people_is_told_apart_and_its_pairs_are_kept(pixel_model, people, tmp_path):
    protocol, pairs = read_pairs(tmp_path / "pairs.txt", people, protocol="folder", count=60)
    assert protocol == "folder"
    similarity = similarities(face_features(RunEncoder(pixel_model), pairs), pairs)
    found = verification(similarity, pairs.same, pairs.fold)
    assert found.accuracy > 0.9
    assert found.roc.area > 0.95
    protocol, again = read_pairs(tmp_path / "pairs.txt", people)
    assert protocol == "list"
    np.testing.assert_array_equal(similarities(face_features(RunEncoder(pixel_model), again), again), similarity)
    np.testing.assert_array_equal(again.same, pairs.same)
    np.testing.assert_array_equal(again.fold, pairs.fold)


def test_similarities_are_cosines(pixel_model, people, tmp_path):
    pairs = read_pairs(tmp_path / "pairs.txt", people, protocol="folder", count=40)[1]
    pixels = pairs.images((32, 32), 1)[0 : len(pairs.files)].reshape(len(pairs.files), -1).astype(float)
    expected = cosines(pixels[pairs.first], pixels[pairs.second])
    np.testing.assert_allclose(
        similarities(face_features(RunEncoder(pixel_model, flip=False), pairs), pairs), expected, atol=1e-6
    )


def test_people_who_were_trained_on_are_named(model, tmp_path):
    root = write_faces(tmp_path / "faces", ["night/1.png", "night/2.png", "noon/1.png"])
    lines = ["night/1.png night/2.png 1", "night/1.png noon/1.png 0"] * 2
    pairs = read_pairs(write_list(tmp_path / "list.txt", *lines), root)[1]
    assert known_people(model.classes, pairs) == [
        "1 of the 2 people in the pairs were trained on ('night'): the figures are not those of unknown people."
    ]


@pytest.mark.parametrize(
    ("name", "first", "protocol"),
    [
        ("pairs.txt", "10\t300", "lfw"),
        ("pairs.txt", "500", "lfw"),
        ("splits.txt", "split number, pair number, first, second, same", "ytf"),
        ("splits.txt", "1, 1, A/0, A/1, 1", "ytf"),
        ("list.txt", "a.png b.png 1", "list"),
        ("list.csv", "a.png,b.png,1,1", "list"),
        ("list.txt", "", "list"),
        ("agedb_30.BIN", "whatever", "bin"),
    ],
)
def test_the_protocol_is_told_from_the_file(tmp_path, name, first, protocol):
    assert guessed_protocol(write_list(tmp_path / name, first)) == protocol


def test_every_protocol_is_read(tmp_path):
    listed, faces = write_list(tmp_path / "pairs.txt", *LFW_LINES), write_faces(tmp_path / "lfw", LFW_FACES)
    assert read_pairs(listed, faces)[0] == "lfw"
    image = (tmp_path / "lfw" / LFW_FACES[0]).read_bytes()
    (tmp_path / "x.bin").write_bytes(pickle.dumps(([image] * 8, [True, False] * 2)))
    protocol, pairs = read_pairs(tmp_path / "x.bin")
    assert (protocol, len(pairs)) == ("bin", 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pairs": "gone.txt", "images": "."}, r"gone\.txt cannot be read \(No such file"),
        ({"pairs": "list.txt"}, "--protocol list needs --images"),
        (
            {"pairs": "list.txt", "images": ".", "protocol": "ijbc"},
            "--protocol must be one of lfw, ytf, list, bin, folder",
        ),
        ({"pairs": "x.bin", "images": "."}, r"a \.bin file holds its own images"),
        ({"pairs": "list.txt", "images": ".", "frames": 3}, "--frames is for videos"),
        ({"pairs": "x.bin", "frames": 3}, "--frames is for videos, and the protocol is bin"),
        ({"pairs": "list.txt", "images": ".", "protocol": "folder"}, r"list\.txt exists; name a new file"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    write_list(tmp_path / "list.txt", "a.png b.png 1")
    with pytest.raises(InvalidInputError, match=said):
        read_pairs(**options)


def test_a_run_of_a_table_has_no_faces(tmp_path_factory):
    table = RunModel.load(made.once(made.table_run, tmp_path_factory))
    with pytest.raises(InvalidInputError, match="needs a run trained on images, got one trained on a table"):
        RunEncoder(table)
    with pytest.raises(InvalidInputError, match="layer must be 'pooled' or 'last', got 'first'"):
        RunEncoder(table, layer="first")


def test_a_curve_is_written_as_a_table_or_a_picture(tmp_path):
    curve = roc([0.9, 0.8, 0.3, 0.2], [1, 0, 1, 0])
    write_roc(curve, tmp_path / "roc.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "roc.csv").read_text())))
    assert rows[0] == ["threshold", "far", "tar"]
    assert [tuple(map(float, row)) for row in rows[1:]] == [
        (float("inf"), 0, 0),
        (0.9, 0, 0.5),
        (0.8, 0.5, 0.5),
        (0.3, 0.5, 1),
        (0.2, 1, 1),
    ]
    write_roc(curve, tmp_path / "roc.png")
    with Image.open(tmp_path / "roc.png") as picture:
        assert picture.size == (600, 480)
    with pytest.raises(InvalidInputError, match=r"roc\.csv exists; pass --force"):
        write_roc(curve, tmp_path / "roc.csv")
    write_roc(curve, tmp_path / "roc.csv", force=True)
    with pytest.raises(InvalidInputError, match=r"must end in \.csv, \.png or \.svg"):
        output_file(tmp_path / "roc.txt", CURVE)
    with pytest.raises(InvalidInputError, match="cannot be written; name a file in a folder that exists"):
        output_file(tmp_path / "gone" / "roc.csv", CURVE)


def save_graph(path, nodes, shape, kind=TensorProto.FLOAT, constants=()):
    taken = helper.make_tensor_value_info("face", kind, shape)
    given = helper.make_tensor_value_info("feature", TensorProto.FLOAT, [shape[0], None])
    graph = helper.make_graph(nodes, "recogniser", [taken], [given], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def linear_recogniser(path, *, subtract=False, whole=False, batch="n"):
    """An ONNX graph whose feature is the image's pixels, flattened; 8×8 pixels, grey."""
    nodes, last, constants = [], "face", []
    if whole:
        nodes.append(helper.make_node("Cast", [last], ["cast"], to=TensorProto.FLOAT))
        last = "cast"
    if subtract:
        constants.append(helper.make_tensor("middle", TensorProto.FLOAT, [], [100.0]))
        nodes.append(helper.make_node("Sub", [last, "middle"], ["moved"]))
        last = "moved"
    nodes.append(helper.make_node("Flatten", [last], ["feature"], axis=1))
    kind = TensorProto.UINT8 if whole else TensorProto.FLOAT
    return save_graph(path, nodes, [batch, 1, 8, 8], kind, constants)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lambda x: (x - 127.5) / 127.5),
        ({"batch": 1}, lambda x: (x - 127.5) / 127.5),
        ({"subtract": True}, lambda x: x - 100),
        ({"whole": True}, lambda x: x),
    ],
)
def test_a_recogniser_gets_pixels_as_its_graph_takes_them(tmp_path, options, expected):
    encoder = OnnxEncoder(linear_recogniser(tmp_path / "r.onnx", **options), flip=False)
    images = np.random.default_rng(0).integers(0, 256, (3, 1, 8, 8), dtype=np.uint8)
    assert (encoder.channels, encoder.size) == (1, (8, 8))
    np.testing.assert_allclose(encoder(images), expected(images.reshape(3, -1).astype(float)), atol=1e-5)
    both = OnnxEncoder(tmp_path / "r.onnx")(images)
    np.testing.assert_allclose(both, (encoder(images) + encoder(images[..., ::-1])) / 2, atol=1e-6)


def test_a_file_that_is_not_a_recogniser_is_refused(tmp_path):
    (tmp_path / "no.onnx").write_bytes(b"not a graph")
    with pytest.raises(InvalidInputError, match=r"no\.onnx cannot be read as an ONNX model"):
        OnnxEncoder(tmp_path / "no.onnx")
    save_graph(tmp_path / "table.onnx", [helper.make_node("Identity", ["face"], ["feature"])], ["n", 5])
    with pytest.raises(InvalidInputError, match=r"table\.onnx must take images .* got tensor\(float\) of shape"):
        OnnxEncoder(tmp_path / "table.onnx")


def test_stored_embeddings_are_found_by_name_and_averaged_over_frames(tmp_path):
    names = ["A/0/1.jpg", "A/0/2.jpg", "A/1/1.jpg", "B/0/1.jpg"]
    values = np.arange(8.0).reshape(4, 2)
    np.savez(tmp_path / "f.npz", names=names[::-1], embeddings=values[::-1])
    stored = StoredEmbeddings.load(tmp_path / "f.npz")
    lines = ["1, 1, A/0, A/1, 1", "1, 2, A/0, B/0, 0", "2, 1, A/1, A/0, 1", "2, 2, A/1, B/0, 0"]
    pairs = read_pairs(write_list(tmp_path / "splits.txt", *lines), stored.named(None))[1]
    np.testing.assert_allclose(stored.features(pairs), [[1, 2], [4, 5], [6, 7]])
    assert stored.pictures(pairs, None) is None
    faces = write_faces(tmp_path / "faces", names)
    shown = stored.pictures(pairs, faces)
    assert shown.images((8, 8), 3)[0:1].shape == (1, 3, 8, 8)
    (faces / "A" / "1" / "1.jpg").unlink()
    with pytest.raises(InvalidInputError, match=r"'A/1/1\.jpg' of the embeddings are not in "):
        stored.pictures(pairs, faces)
    with pytest.raises(InvalidInputError, match="--embeddings needs a list of pairs"):
        read_pairs(tmp_path / "new.txt", stored.named(None), protocol="folder")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": [1.0]}, "must hold names .text. and embeddings .numbers., got 'a'"),
        ({"names": ["a"], "embeddings": [["x"]]}, "must hold names .text. and embeddings .numbers."),
        ({"names": ["a", "a"], "embeddings": [[1.0], [2.0]]}, "one embedding per name, each name once"),
        ({"names": ["a"], "embeddings": [[1.0], [2.0]]}, r"got the shapes \(1,\) and \(2, 1\)"),
        ({"names": ["a"], "embeddings": [[np.nan]]}, "must be finite"),
    ],
)
def test_embeddings_that_cannot_be_used_are_one_sentence(tmp_path, arrays, said):
    np.savez(tmp_path / "f.npz", **arrays)
    with pytest.raises(InvalidInputError, match=said):
        StoredEmbeddings.load(tmp_path / "f.npz")
