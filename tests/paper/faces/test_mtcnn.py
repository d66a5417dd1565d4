"""The three networks: their files, where those are found, and what the outputs mean."""

import sys

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.paper.faces import mtcnn
from equipoise.paper.faces.mtcnn import FILES, ONet, PNet, RNet, load_mtcnn, prepared, weights_folder
from tests.paper.faces.made import made_mtcnn, published, save


@pytest.fixture
def _no_variable(monkeypatch):
    monkeypatch.delenv("EQUIPOISE_MTCNN", raising=False)


@pytest.mark.parametrize(("network", "parameters"), [(PNet, 6_632), (RNet, 100_178), (ONet, 389_040)])
def test_each_has_the_size_of_the_paper_s(network, parameters):
    assert sum(parameter.numel() for parameter in network().parameters()) == parameters


def test_pnet_is_the_same_for_a_window_alone_and_within_an_image():
    network, image = PNet().eval(), torch.randn(2, 3, 20, 26)
    probability, corrections = network(image)
    assert probability.shape == (2, 5, 8)
    assert corrections.shape == (2, 4, 5, 8)
    alone = network(image[:, :, 4:16, 6:18])
    torch.testing.assert_close(probability[:, 2, 3], alone[0][:, 0, 0])
    torch.testing.assert_close(corrections[:, :, 2, 3], alone[1][:, :, 0, 0])


def test_full_layers_read_columns_then_rows_then_channels():
    x = torch.arange(2 * 3 * 2 * 4).reshape(2, 3, 2, 4)
    flat = mtcnn._flat(x)
    expected = [x[1, channel, row, column] for column in range(4) for row in range(2) for channel in range(3)]
    assert flat[1].tolist() == expected


def test_landmarks_are_pairs_from_five_abscissae_and_five_ordinates():
    network = ONet().eval()
    with torch.no_grad():
        network.dense6_3.weight.zero_()
        network.dense6_3.bias.copy_(torch.arange(10.0))
        probability, corrections, landmarks = network(torch.randn(3, 3, 48, 48))
    assert (probability.shape, corrections.shape) == ((3,), (3, 4))
    assert landmarks[2].tolist() == [[0, 5], [1, 6], [2, 7], [3, 8], [4, 9]]


def test_probabilities_are_of_the_second_output():
    network = RNet().eval()
    with torch.no_grad():
        network.dense5_1.weight.zero_()
        network.dense5_1.bias.copy_(torch.tensor([0.0, 2.0]))
        found = network(torch.randn(4, 3, 24, 24))[0]
    torch.testing.assert_close(found, torch.full((4,), torch.sigmoid(torch.tensor(2.0)).item()))


def test_grey_pixels_become_three_channels_about_zero():
    found = prepared(torch.tensor([0.0, 127.5, 255.0]).reshape(1, 1, 1, 3))
    assert found.shape == (1, 3, 1, 3)
    torch.testing.assert_close(found[0, 2, 0], torch.tensor([-127.5 / 128, 0.0, 127.5 / 128]))


@pytest.mark.usefixtures("_no_variable")
def test_weights_come_from_a_folder_or_the_environment(tmp_path, monkeypatch):
    given = made_mtcnn()
    folder = save(given, tmp_path / "w")
    found = load_mtcnn(folder)
    for network, own in zip(vars(found).values(), vars(given).values(), strict=True):
        assert all(torch.equal(tensor, own.state_dict()[name]) for name, tensor in network.state_dict().items())
        assert not network.training
        assert not any(parameter.requires_grad for parameter in network.parameters())
    monkeypatch.setenv("EQUIPOISE_MTCNN", str(folder))
    assert weights_folder() == folder


@pytest.mark.usefixtures("_no_variable")
def test_an_installed_package_is_found_and_not_imported(tmp_path, monkeypatch):
    save(made_mtcnn(), tmp_path / "facenet_pytorch" / "data")
    (tmp_path / "facenet_pytorch" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "facenet_pytorch-2.5.3.dist-info").mkdir()
    described = "Metadata-Version: 2.1\nName: facenet-pytorch\nVersion: 2.5.3\n"
    (tmp_path / "facenet_pytorch-2.5.3.dist-info" / "METADATA").write_text(described)
    monkeypatch.syspath_prepend(tmp_path)
    assert weights_folder() == tmp_path / "facenet_pytorch" / "data"
    assert load_mtcnn().onet.dense6_3.bias[0] > 0
    assert "facenet_pytorch" not in sys.modules
    (tmp_path / "facenet_pytorch" / "data" / "onet.pt").unlink()  # another package of this name
    with pytest.raises(InvalidInputError, match=r"were not found; give the folder of pnet\.pt, rnet\.pt, onet\.pt"):
        weights_folder()


def test_a_folder_without_the_files_is_one_sentence(tmp_path):
    save(made_mtcnn(), tmp_path)
    (tmp_path / "rnet.pt").unlink()
    with pytest.raises(InvalidInputError, match=r"but rnet\.pt is not there; check the path"):
        load_mtcnn(tmp_path)
    torch.save(PNet().state_dict(), tmp_path / "rnet.pt")
    with pytest.raises(InvalidInputError, match=r"rnet\.pt do not fit"):
        load_mtcnn(tmp_path)


def test_the_published_files_fit():
    folder = published()
    found = load_mtcnn(folder)
    assert [(folder / name).is_file() for name in FILES] == [True] * 3
    noise = torch.rand(8, 3, 24, 24, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert (found.rnet(noise)[0] < 0.5).all()
