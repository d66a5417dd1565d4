"""Tasks for developers, with the same commands as CI: ``nox -s tests``; ``nox -l`` lists all.

Sessions run in the active environment, set up by ``pip install -c constraints.txt -e ".[dev]"``. Only ``package`` and
``lowest`` make environments of their own.
"""

import os
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
TEST_TOOLS = ("pytest>=9", "pytest-timeout", "pytest-xdist", "hypothesis")
CORE_TESTS = ("tests/losses", "tests/uncertainty", "tests/evaluation", "tests/decisions", "tests/storage")
"""Tests that need no extra."""


@nox.session
def tests(session: nox.Session) -> None:
    """Run the fast tests."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", *session.posargs, env=ONE_THREAD)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", "-m", "slow", *session.posargs, env=ONE_THREAD)


@nox.session
def nightly(session: nox.Session) -> None:
    """Run the tests that repeat others at length: more fuzzed files, seeds, families and whole data sets."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", "-m", "nightly", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Run the linters, the type checker and the import contracts."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure branch coverage of the fast tests."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", "--cov", "--cov-report=term:skip-covered", env=ONE_THREAD)


@nox.session
def docs(session: nox.Session) -> None:
    """Run the gallery's examples and build the site into ``site/``; a warning fails."""
    session.run("sphinx-build", "-q", "-W", "--keep-going", "docs", "site", *session.posargs)


@nox.session
def audit(session: nox.Session) -> None:
    """Look for risky code, and for known vulnerabilities in installed packages."""
    session.run("bandit", "-q", "-ll", "-r", "src")
    if os.environ.get("CI"):
        session.run("pip-audit", "--skip-editable")


@nox.session(venv_backend="venv")
def package(session: nox.Session) -> None:
    """Build wheel and sdist, check them, and run the tests that they carry in an empty environment."""
    folder = Path(session.create_tmp()).resolve()
    session.install("build", "twine")
    session.run("python", "-m", "build", "--outdir", str(folder), ".")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    session.run("twine", "check", "--strict", str(wheel), str(sdist))
    session.install("-c", "constraints.txt", str(wheel), *TEST_TOOLS)
    session.run("python", "-m", "tarfile", "-e", str(sdist), str(folder))
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(unpacked / "src")  # so that its tests import what is installed
    with session.chdir(unpacked):
        session.run("equipoise", "demo", "--quiet", "--out", "demo", env=ONE_THREAD)
        # the wheel carries doctests, the sdist all tests; these need nothing but the core
        session.run("python", "-m", "pytest", "-q", "--pyargs", "equipoise", *CORE_TESTS, env=ONE_THREAD)
    session.install("--force-reinstall", "--no-deps", str(sdist))
    session.run("equipoise", "--version")


@nox.session(venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """Run the core's tests with the lowest versions that pyproject.toml allows."""
    session.install("-c", "constraints-lowest.txt", "-e", ".", *TEST_TOOLS)
    session.run("python", "-m", "pytest", "-q", *CORE_TESTS, env=ONE_THREAD)
