"""Installed wheels in clean environments: neither the repository nor this process's packages are on their path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.installed import Environment, data_wheel, make_environment, runtime_only, write_bundle

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = (("gfx942", "ck-free"), ("gfx942", "ck-full"), ("gfx950", "ck-free"))


@pytest.fixture(scope="session")
def dist() -> Path:
    """The folder with the built wheels."""
    folder = Path(os.environ.get("AITER_PREBUILT_DIST", ROOT / "dist"))
    if not list(folder.glob("aiter_prebuilt-*.whl")):
        pytest.skip(f"no runtime wheel in {folder}: run python -m build_tools wheels, or nox -s tests")
    return folder


@pytest.fixture(scope="session")
def runtime_wheel(dist: Path) -> Path:
    (path,) = dist.glob("aiter_prebuilt-*.whl")
    return path


@pytest.fixture(scope="session")
def data_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small data wheels, written by the production code."""
    bundles, output = tmp_path_factory.mktemp("bundles"), tmp_path_factory.mktemp("data-wheels")
    for target, profile in MADE_UP:
        data_wheel(write_bundle(bundles, target, profile), output)
    return output


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An empty environment of this test alone."""
    return make_environment(tmp_path / "environment")


@pytest.fixture(scope="session")
def installed(dist: Path, data_wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the runtime, the made-up gfx942 bundles and no GPU work done; tests only look at it."""
    made = make_environment(tmp_path_factory.mktemp("installed"))
    made.install(
        "aiter-prebuilt[gfx942,gfx942-ck]",
        places=(data_wheels, runtime_only(dist, tmp_path_factory.mktemp("links"))),
    )
    return made


@pytest.fixture(scope="session")
def runtime_links(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runtime wheel alone."""
    return runtime_only(dist, tmp_path_factory.mktemp("runtime"))
