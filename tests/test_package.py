"""What is installed is what was meant: the wheel, its metadata, and how little importing it loads."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import equipoise

ROOT = Path(__file__).parent.parent
SOURCES = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "equipoise").rglob("*.py")}


def run(*command: object, cwd: Path, **environment: str) -> str:
    """A command's output; what it said goes into the failure."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from the repository, as pip builds it."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    return folder / run(sys.executable, "-c", build, folder, cwd=ROOT).split()[-1]


@pytest.fixture(scope="module")
def clean_python(wheel, tmp_path_factory) -> Path:
    """A Python that has the wheel and its dependencies, and has never heard of the repository.

    Dependencies are those of the environment the tests run in: its folder is on the path, but the file in it that
    makes an editable install visible is not read there.
    """
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def test_names_imported_on_first_use_are_listed():
    assert set(equipoise.__all__) <= set(dir(equipoise))


def test_the_wheel_holds_every_module_the_page_and_the_type_marker_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode("utf-8"))
        licence = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    assert names >= SOURCES | {"equipoise/py.typed"}
    other = names - SOURCES - {"equipoise/py.typed"}
    assert other
    assert {Path(name).parent.as_posix() for name in other} == {"equipoise/app/report/templates"}
    assert len(licence) == 1
    assert headers["Version"] == equipoise.__version__
    assert headers["License-Expression"] == "MIT"
    assert "Typing :: Typed" in headers.get_all("Classifier")
    assert headers.get_all("Project-URL") is None  # no address is promised that is not ours


def test_the_source_archive_holds_what_building_and_testing_need(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    build = "from hatchling.build import build_sdist; import sys; print(build_sdist(sys.argv[1]))"
    file = tmp_path / run(sys.executable, "-c", build, tmp_path, cwd=ROOT).split()[-1]
    with tarfile.open(file) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {f"src/{name}" for name in SOURCES} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff"} <= names
    assert {"constraints.txt", "constraints-lowest.txt"} <= names
    assert {"tests/test_package.py", "examples/plot_digits.py", "src/equipoise/py.typed"} <= names
    assert not [name for name in names if name.endswith((".pyc", ".npz", ".safetensors"))]


@pytest.mark.slow
def test_the_installed_command_is_that_of_the_wheel(clean_python, tmp_path):
    where = run(clean_python, "-c", "import equipoise; print(equipoise.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(clean_python.parent.parent)
    said = run(clean_python.parent / "equipoise", "--version", cwd=tmp_path)
    assert said == f"equipoise {equipoise.__version__}\n"


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(clean_python, tmp_path):
    said = run(clean_python.parent / "equipoise", "demo", "--quiet", cwd=tmp_path, OMP_NUM_THREADS="1")
    rare, common = (re.search(rf"{group}, mean.*?([+-][\d.]+)%", said) for group in ("rare", "common"))
    assert float(rare[1]) > 5
    assert float(common[1]) > -10
    assert (tmp_path / "runs" / "demo" / "report.html").stat().st_size > 10_000


def test_importing_equipoise_loads_little_and_no_library():
    program = "import sys; before = set(sys.modules); import equipoise; print(*sorted(set(sys.modules) - before))"
    loaded = run(sys.executable, "-c", program, cwd=ROOT).split()
    assert {name.split(".")[0] for name in loaded} - sys.stdlib_module_names == {"equipoise"}
    assert [name for name in loaded if name.startswith("equipoise")] == ["equipoise"]
    assert len(loaded) < 50


def test_the_command_line_answers_without_loading_torch():
    program = "import equipoise.main, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(run(sys.executable, "-c", program, cwd=ROOT).split())
    assert "typer" in loaded
    assert loaded & {"torch", "sklearn", "pandas", "matplotlib"} == set()


def test_the_citation_names_the_software_and_the_paper():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {equipoise.__version__}\n" in text
    assert "title: Striking the Right Balance with Uncertainty\n" in text
    names = re.findall(r"family-names: (\w+)", text)
    assert names == ["Khan", "Hayat", "Zamir", "Shen", "Shao"]
    assert "year: 2019" in text


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_metadata():
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    released = re.search(r"^## \[(\d.*?)\] - 20", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert released is not None
    assert f'version = "{released[1]}"' in recipe
    assert equipoise.__version__ == released[1] or ".dev" in equipoise.__version__
    renamed = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = re.findall(r'"([\w-]+)(>=[\d.]+)', text.partition("\ndependencies = [")[2].partition("\n]")[0])
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    found = re.findall(r"- ([\w-]+) (>=[\d.]+)", run)
    assert found == [("python", ">=3.10"), *((renamed.get(name, name), least) for name, least in wanted)]


def test_the_tasks_of_nox_run_the_commands_of_ci():
    ci, tasks = ((ROOT / name).read_text(encoding="utf-8") for name in (".ci/run", "noxfile.py"))
    ran = [
        ", ".join(f'"{word}"' for word in line.split())
        for line in re.findall(r"^(?:ruff|mypy|lint-imports)[^&\n]*", ci, re.M)
    ]
    assert len(ran) == 4
    assert all(f"session.run({command})" in tasks for command in ran)
    slow = re.search(r"^OMP_NUM_THREADS=1 (python -m pytest .*)", ci, re.M)
    assert slow is not None
    assert ", ".join(f'"{word}"' for word in slow[1].split()) in tasks


def test_the_lowest_versions_are_those_of_the_metadata():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    allowed = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
    assert allowed is not None
    lowest = dict(re.findall(r'"([\w-]+)>=([\d.]+)', allowed[1]))
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert lowest.keys() <= tried.keys()
    for name, version in lowest.items():
        assert f"{tried[name]}.".startswith(f"{version}."), f"{name} is tried at {tried[name]}, allowed from {version}"


def test_the_container_installs_extras_that_exist_from_files_it_is_given():
    recipe, ignored = ((ROOT / name).read_text(encoding="utf-8") for name in ("Dockerfile", ".dockerignore"))
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    known = set(re.findall(r"^(\w+) = \[", metadata.partition("[project.optional-dependencies]")[2], re.M))
    extras = re.search(r"ARG EXTRAS=(\S+)", recipe)[1].split(",")
    assert set(extras) <= known
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", recipe, re.M) for name in line.split()]
    assert copied
    assert {f"!{name}" for name in copied} <= set(ignored.splitlines())


def test_the_workflows_and_the_guide_for_contributors_name_sessions_that_exist():
    sessions = set(re.findall(r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.M))
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = [guide, *(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))]
    assert len(files) == 4
    named = {name for text in files for given in re.findall(r"nox -s ((?:\w+ ?)+)", text) for name in given.split()}
    assert named <= sessions
    assert {name for name in sessions if f"nox -s {name}" not in guide} == set()
