"""Tasks of a developer, by the commands of CI: ``nox -s tests``, ``nox -l`` for all.

Sessions run in the active environment, set up by ``pip install -c constraints.txt -e ".[dev]"``. Only ``package`` and
``lowest`` make environments of their own.
"""

import os
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@nox.session
def tests(session: nox.Session) -> None:
    """Run the fast tests."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", *session.posargs, env=ONE_THREAD)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", "-m", "slow", *session.posargs, env=ONE_THREAD)


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
    """Look for risky code, and for known vulnerabilities of what is installed."""
    session.run("bandit", "-q", "-ll", "-r", "src")
    if os.environ.get("CI"):
        session.run("pip-audit", "--skip-editable")


@nox.session(venv_backend="venv")
def package(session: nox.Session) -> None:
    """Build wheel and sdist, check their metadata, and try both in an empty environment."""
    folder = session.create_tmp()
    session.install("build", "twine")
    session.run("python", "-m", "build", "--outdir", folder, ".")
    built = sorted(str(path) for path in Path(folder).iterdir() if path.suffix in {".whl", ".gz"})
    session.run("twine", "check", "--strict", *built)
    for file in built:
        session.install("--force-reinstall", "--no-deps", file)
        session.install("-c", "constraints.txt", file)
        session.run("equipoise", "demo", "--quiet", "--out", str(Path(folder, Path(file).suffix[1:])), env=ONE_THREAD)


@nox.session(venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """Run the core's tests with the lowest versions that pyproject.toml allows."""
    session.install("-c", "constraints-lowest.txt", "-e", ".", "pytest>=9", "pytest-timeout", "hypothesis")
    session.run("python", "-m", "pytest", "-q", "tests/losses", "tests/uncertainty", "tests/evaluation", env=ONE_THREAD)
