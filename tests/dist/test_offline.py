"""A site without a network: installed from a mirror, built from one, in a namespace without interfaces, with an empty home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.installed import make_environment

from build_tools.release import mirror

ROOT = Path(__file__).resolve().parents[2]
#: A namespace of its own: not even the loopback is up in it.
ALONE = ("unshare", "--map-root-user", "--net")


@pytest.fixture(scope="session")
def alone() -> tuple[str, ...]:
    """The words before a command that must have no network."""
    if (
        shutil.which(ALONE[0]) is None
        or subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(
            "this machine gives no process a network namespace of its own (unshare --map-root-user --net)"
        )
    probe = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    tried = subprocess.run([*ALONE, sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert "Network is unreachable" in tried.stderr
    return ALONE


def _run(
    words: list[str], home: Path, cwd: Path, timeout: int = 300, **more: str
) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C", **more}
    return subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def test_wheels_are_installed_from_a_mirror(dist: Path, tmp_path: Path, alone: tuple[str, ...]) -> None:
    folder = tmp_path / "mirror"
    names = mirror.deploy(sorted(dist.glob("*.whl")), folder, [])
    assert any(name.startswith("aiter_prebuilt_gfx950-") for name in names)
    sums = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder, check=False)
    assert sums.returncode == 0
    environment = make_environment(tmp_path / "environment")
    python = environment.folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(python), "install", "-q", "--no-index"]
    pip += ["--find-links", f"file://{folder}/links.html"]
    done = _run([*alone, *pip, "aiter-prebuilt[gfx950,emulator]"], tmp_path / "home", tmp_path)
    assert done.returncode == 0, done.stderr
    command = str(environment.folder / "bin" / "aiter-prebuilt")
    listed = _run([*alone, command, "list", "--json"], tmp_path / "home", tmp_path)
    assert {row["target"] for row in json.loads(listed.stdout)["kernels"]} == {"gfx950"}, listed.stderr
    # A file that is not the one that the page or the index tells of is refused by pip.
    (wheel,) = (folder / "files").glob("aiter_prebuilt_gfx942-*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    for place in (pip, [*pip[:-3], "--index-url", f"file://{folder}/simple"]):
        refused = _run([*alone, *place, "aiter-prebuilt[gfx942]"], tmp_path / "home", tmp_path)
        assert refused.returncode != 0 and "DO NOT MATCH THE HASHES" in refused.stderr


@pytest.mark.airgap
def test_every_backend_compiles_from_a_mirror(tmp_path: Path, alone: tuple[str, ...]) -> None:
    """Compilers from the folder, no cache, nothing at home: a job of each backend, the same bytes as here."""
    folder, home, checkout = tmp_path / "mirror", tmp_path / "home", tmp_path / "checkout"
    made = subprocess.run(
        [sys.executable, "-m", "build_tools", "mirror", "build", str(folder)], cwd=ROOT, check=False
    )
    assert made.returncode == 0
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns("build", "dist", ".git", ".nox", "*.so"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    packages = f"--find-links={folder}/packages"
    pip = [
        *alone,
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--python",
        python,
        "install",
        "-q",
        "--no-index",
        packages,
    ]
    locked = ("--no-deps", "--require-hashes", "-r", "build_tools/requirements.txt")
    for needed in (locked, (*locked[:-1], "build_tools/locks/build.txt"), ("pip",)):
        done = _run([*pip, *needed], home, checkout, 900)
        assert done.returncode == 0, done.stderr
    words = [
        word
        for name in ("topk_sigmoid", "softmax", "fmoe", "mla_prefill_ps_asm_fwd")
        for word in ("--operator", name)
    ]
    build = [
        *alone,
        python,
        "-m",
        "build_tools",
        "build",
        "--target",
        "gfx942",
        "--ck",
        "sample",
        "--json",
        *words,
    ]
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{folder}/packages"}
    done = _run(build, home, checkout, 1800, **offline)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert {job["id"].split("-")[1] for job in told["jobs"]} == {"asm", "ck", "flydsl", "hip", "triton"}
    assert not any(job["cached"] for job in told["jobs"])
    here = [sys.executable, *build[len(alone) + 1 :], "--bundles", str(tmp_path / "here" / "bundles")]
    mine = subprocess.run(here, cwd=ROOT, capture_output=True, text=True, check=True)
    sums = [
        {row["file"]: row["sha256"] for row in json.loads(text)["bundles"]}
        for text in (done.stdout, mine.stdout)
    ]
    assert sums[0] == sums[1]
