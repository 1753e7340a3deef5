"""The emulator's wheel, installed with the runtime in a clean environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.installed import Environment, make_environment, run


@pytest.fixture(scope="module")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    if not list(dist.glob("aiter_prebuilt_emulator-*.whl")):
        pytest.skip(f"no emulator wheel in {dist}: run python -m build_tools wheels")
    made = make_environment(tmp_path_factory.mktemp("emulated"))
    made.install("aiter-prebuilt[gfx950,emulator]", places=(dist,))
    return made


def emulated(environment: Environment, *words: str) -> str:
    """What a command prints that runs with the emulator as its HIP library."""
    command = [
        str(environment.folder / "bin" / "aiter-prebuilt-emulator"),
        "run",
        "--devices",
        "gfx950",
        "--",
        *words,
    ]
    done = run(command, environment.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_extra_brings_a_device(environment: Environment) -> None:
    """``pip install aiter-prebuilt[gfx950,emulator]``, and doctor finds a gfx950 with its bundle."""
    assert "AMD Instinct MI355X, gfx950:sramecc+:xnack-, 256 CUs" in emulated(
        environment, str(environment.folder / "bin" / "aiter-prebuilt"), "doctor"
    )


def test_an_operator_runs_on_it(environment: Environment) -> None:
    command = str(environment.folder / "bin" / "aiter-prebuilt")
    printed = emulated(
        environment, command, "bench", "rms_norm", "M=7", "N=2880", "--repeat", "1", "--counters"
    )
    assert "rms_norm_kernel: 1 launches" in printed


def test_the_package_needs_nothing_else(environment: Environment) -> None:
    code = "import sys, aiter_prebuilt_emulator.native as n; n.opened(); "
    code += "print({'numpy', 'torch', 'tinygrad'} & set(sys.modules) or 'nothing')"
    assert environment.python(code).stdout.strip() == "nothing"
