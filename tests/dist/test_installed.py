"""What a user sees: install, import, the command, uninstall. All in an environment that has nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.installed import Environment, data_wheel, write_bundle

from build_tools.errors import WheelError

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = """
import sys
before = set(sys.modules)
import aiter_prebuilt
foreign = {name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(sorted(foreign), aiter_prebuilt.__file__)
"""
EVERY_MODULE = """
import importlib, pkgutil, aiter_prebuilt
for found in pkgutil.walk_packages(aiter_prebuilt.__path__, 'aiter_prebuilt.'):
    # what torch.compile traces is imported by torch users alone
    if not found.name.endswith('__main__') and not found.name.startswith('aiter_prebuilt.tracing.'):
        importlib.import_module(found.name)
        print(found.name)
"""


def test_import_loads_nothing_but_the_standard_library_and_no_extension(installed: Environment) -> None:
    done = installed.python(IMPORTED)
    assert done.returncode == 0, done.stderr
    foreign, _, place = done.stdout.strip().partition("] ")
    assert foreign == "['aiter_prebuilt'"
    assert Path(place).is_relative_to(installed.folder)
    native = installed.python("import sys, aiter_prebuilt; print('aiter_prebuilt._native' in sys.modules)")
    assert native.stdout.strip() == "False"


def test_every_module_imports_without_torch(installed: Environment) -> None:
    done = installed.python(EVERY_MODULE)
    assert done.returncode == 0, done.stderr
    assert "aiter_prebuilt._native" in done.stdout.split()
    assert "aiter_prebuilt.ops.generated.norm" in done.stdout.split()


def test_doctor_names_the_bundles_and_exits_3_without_a_gpu(installed: Environment) -> None:
    done = installed.command("doctor", "--json")
    report = json.loads(done.stdout)
    assert {(row["target"], row["profile"], row["ok"]) for row in report["bundles"]} == {
        ("gfx942", "ck-free", True),
        ("gfx942", "ck-full", True),
    }
    assert [row["distribution"] for row in report["bundles"]] == [
        "aiter-prebuilt-gfx942",
        "aiter-prebuilt-gfx942-ck",
    ]
    if not report["devices"]:
        assert done.returncode == 3
        assert "No GPU is here" in installed.command("doctor").stdout


def test_list_names_every_operator(installed: Environment) -> None:
    done = installed.command("list", "--json")
    assert done.returncode == 0, done.stderr
    rows = {(row["operator"], row["target"]) for row in json.loads(done.stdout)["kernels"]}
    assert rows == {("once", "gfx942"), ("once_ck", "gfx942")}


def test_explain_answers_without_a_gpu(installed: Environment) -> None:
    done = installed.command("explain", "once", "M=3", "N=5", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    chosen = [row for row in json.loads(done.stdout)["decisions"] if row["chosen"]]
    assert [row["variant"] for row in chosen] == ["small"]


def test_verify_refuses_code_objects_that_are_no_elf(installed: Environment) -> None:
    done = installed.command("verify")
    assert done.returncode == 1
    assert "ELF" in done.stdout


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_one_wheel_serves_every_python(
    version: str, data_wheels: Path, runtime_links: Path, tmp_path: Path
) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no python{version} on this machine")
    subprocess.run([python, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    environment = Environment(tmp_path / "venv")
    environment.install("aiter-prebuilt[gfx942]", places=(data_wheels, runtime_links))
    done = environment.python(
        "import sys; from aiter_prebuilt.devices import native; print(sys.version_info[:2], native.module().abi())"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"(3, {version.partition('.')[2]})")
    assert environment.command("explain", "once", "M=3", "N=5").returncode == 0


def test_uninstalling_one_wheel_leaves_the_others(
    environment: Environment, data_wheels: Path, runtime_links: Path
) -> None:
    environment.install("aiter-prebuilt[gfx942,gfx942-ck,gfx950]", places=(data_wheels, runtime_links))
    bundles = environment.site / "aiter_prebuilt_bundles"
    assert len(list(bundles.iterdir())) == 3
    assert environment.pip("uninstall", "-y", "aiter-prebuilt-gfx942-ck").returncode == 0
    assert {path.name for path in bundles.iterdir()} == {"gfx942-ck-free.apb", "gfx950-ck-free.apb"}
    assert environment.command("list").returncode == 0
    done = environment.pip(
        "uninstall", "-y", "aiter-prebuilt", "aiter-prebuilt-gfx942", "aiter-prebuilt-gfx950"
    )
    assert done.returncode == 0
    assert not list(environment.site.glob("aiter_prebuilt*"))
    assert not (environment.folder / "bin" / "aiter-prebuilt").exists()


def test_an_extra_brings_its_wheel_and_what_that_needs(
    environment: Environment, data_wheels: Path, runtime_links: Path
) -> None:
    environment.install("aiter-prebuilt[gfx942-ck]", places=(data_wheels, runtime_links))
    names = {path.name for path in (environment.site / "aiter_prebuilt_bundles").iterdir()}
    assert names == {"gfx942-ck-free.apb", "gfx942-ck-full.apb"}


def test_a_data_wheel_of_another_version_is_refused_by_the_extra(
    environment: Environment, runtime_links: Path, tmp_path: Path
) -> None:
    data_wheel(write_bundle(tmp_path, "gfx942", "ck-free", "9.9.9"), tmp_path / "wheels", "9.9.9")
    done = environment.pip(
        "install",
        "--no-index",
        "--find-links",
        str(tmp_path / "wheels"),
        "--find-links",
        str(runtime_links),
        "aiter-prebuilt[gfx942]",
    )
    assert done.returncode != 0
    assert "aiter-prebuilt-gfx942==" in done.stderr


def test_packing_refuses_a_bundle_of_another_version(tmp_path: Path) -> None:
    path = write_bundle(tmp_path, "gfx942", "ck-free", "0.0.1")
    with pytest.raises(WheelError, match=r"built for version 0\.0\.1"):
        data_wheel(path, tmp_path)


def test_list_says_what_was_never_executed(installed: Environment) -> None:
    """The made-up bundles have no receipts; the wheels that have them were packed all the same."""
    done = installed.command("list")
    assert done.returncode == 0, done.stderr
    assert "2 entries for gfx942 were not executed on any device before they shipped" in done.stdout
    assert "gfx950" not in done.stdout
