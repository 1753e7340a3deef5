"""Content keys: the same in every folder, and another one for anything that could change the bytes."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pytest
from support.pythons import other_pythons

from build_tools.compile import fingerprint
from build_tools.compile.fingerprint import job_key
from build_tools.errors import JobFailedError
from build_tools.files.filehash import sha256_file
from build_tools.records import CompileJob, KernelArg, TargetFacts
from build_tools.tools.clang import Clang
from build_tools.tools.pins import Pins, ToolPin
from build_tools.tools.toolchain import Toolchain

TARGET = TargetFacts(
    name="gfx942", title="CDNA3", vendor="amd", wave=64, lds_bytes=65536, vgprs=512, sgprs=102, fp8="e4m3fnuz", isa_version=9402,
    cus=(304,), devices=("MI300X",), elf_mach=0x4C, distribution="d", extra="e",
)  # fmt: skip
ARGS = (KernelArg("ptr", "out", 0, 8, "f32"), KernelArg("i32", "n", 8, 4))
JOB = CompileJob(
    "job",
    TARGET,
    "hip",
    "k.hip",
    "k",
    (("BLOCK", 64), ("T", "f32")),
    ARGS,
    12,
    (64, 1, 1),
    ("k.hip", "c.hpp"),
)
PINS = Pins(
    {
        "triton": ToolPin("triton", "3.9.0", "", "MIT", (), {}, {}),
        "flydsl": ToolPin("flydsl", "0.4.2", "", "MIT", (), {}, {}),
    },
    {},
)


def tools(kind: str = "hermetic", identity: str = "clang 22") -> Toolchain:
    clang = Clang(("clang",), ("lld",), (), (), identity, ())
    return Toolchain(kind, clang, PINS, "python", Path("nowhere"), None, ())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return sources(tmp_path / "a")


def sources(folder: Path) -> Path:
    folder.mkdir()
    (folder / "k.hip").write_text("kernel")
    (folder / "c.hpp").write_text("header")
    return folder


def test_the_folder_the_id_and_the_tools_place_do_not_matter(root: Path, tmp_path: Path) -> None:
    elsewhere = replace(tools(), python="/usr/bin/python3", cache=Path("elsewhere"))
    assert job_key(JOB, tools(), root) == job_key(
        replace(JOB, id="another"), elsewhere, sources(tmp_path / "b")
    )


@pytest.mark.parametrize(
    "job",
    [
        replace(JOB, symbol="other"),
        replace(JOB, backend="asm"),
        replace(JOB, target=replace(TARGET, name="gfx950")),
        replace(JOB, constants=(("BLOCK", 128), ("T", "f32"))),
        replace(JOB, constants=(("BLOCK", "64"), ("T", "f32"))),
        replace(JOB, constants=(("BLOCK", True), ("T", "f32"))),
        replace(JOB, args=(ARGS[0], replace(ARGS[1], divisible=True))),
        replace(JOB, args=(replace(ARGS[0], dtype="bf16"), ARGS[1])),
        replace(JOB, kernarg_size=16),
        replace(JOB, block=(128, 1, 1)),
        replace(JOB, inputs=("k.hip",)),
    ],
)
def test_a_changed_job_has_another_key(job: CompileJob, root: Path) -> None:
    assert job_key(job, tools(), root) != job_key(JOB, tools(), root)


def test_a_changed_header_has_another_key(root: Path) -> None:
    before = job_key(JOB, tools(), root)
    (root / "c.hpp").write_text("headed")
    assert job_key(JOB, tools(), root) != before


def test_hermetic_and_rocm_never_share_a_key(root: Path) -> None:
    keys = {
        job_key(JOB, tools(kind, identity), root)
        for kind in ("hermetic", "rocm")
        for identity in ("clang 22", "clang 23")
    }
    assert len(keys) == 4


def test_another_prelude_or_ptxas_is_another_key_for_nvidia_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia = replace(JOB, target=replace(TARGET, name="sm_90", vendor="nvidia"))
    newer = {**PINS.tools, "triton": replace(PINS.tools["triton"], version="3.10.0")}
    told = replace(tools(), pins=replace(PINS, tools=newer))
    assert job_key(nvidia, told, root) != job_key(nvidia, tools(), root)
    assert job_key(JOB, told, root) == job_key(JOB, tools(), root)
    before = {job: job_key(job, tools(), root) for job in (JOB, nvidia)}
    digest = sha256_file
    monkeypatch.setattr(
        fingerprint, "sha256_file", lambda path: "another" if path.name == "nvidia.hpp" else digest(path)
    )
    fingerprint._backend_code.cache_clear()
    assert job_key(nvidia, tools(), root) != before[nvidia] and job_key(JOB, tools(), root) == before[JOB]
    fingerprint._backend_code.cache_clear()


def test_a_missing_input_is_an_error_of_the_job(root: Path) -> None:
    (root / "c.hpp").unlink()
    with pytest.raises(JobFailedError, match=r"c\.hpp"):
        job_key(JOB, tools(), root)


#: The key of :data:`JOB` with the sources and the tools of this file and the backend of :func:`fixed_backends`. Another key means
#: that everybody compiles everything again: change it knowingly.
KNOWN = "ec11e3d6794140a8fc38cd7cdae7474e28d80dd7d311b94fb214ef43010b66ef"


def fixed_backends(folder: Path) -> Path:
    """A backend whose code never changes, so that a key can be written down."""
    folder.mkdir()
    for name in ("built.py", "device.py", "hip.py", "triton.py"):
        (folder / name).write_text(f"# {name}\nvalue = f'{{1 + 1}}'\n")
    return folder


class FixedTools:
    def identity_of(self, backend: str) -> str:
        return f"the tools of {backend}"


def known_job_key(folder: Path) -> str:
    fingerprint._backend_code.cache_clear()
    return job_key(JOB, cast(Toolchain, FixedTools()), sources(folder))


def test_the_key_of_a_fixed_job_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backends = fixed_backends(tmp_path / "backends")
    monkeypatch.setattr(fingerprint, "_BACKENDS", backends)
    assert known_job_key(tmp_path / "a") == KNOWN
    (backends / "triton.py").write_text("# not this backend")
    assert known_job_key(tmp_path / "b") == KNOWN
    (backends / "hip.py").write_text("# hip.py\nvalue = f'{1 + 2}'\n")
    assert known_job_key(tmp_path / "c") != KNOWN
    fingerprint._backend_code.cache_clear()


def test_another_python_gives_the_same_key(tmp_path: Path) -> None:
    others = other_pythons(oldest=11)
    if not others:
        pytest.skip("no other Python from 3.11 on is on PATH")
    code = (
        "import json, sys; from pathlib import Path\n"
        "from build_tools.compile import fingerprint as f\n"
        "from build_tools.records import CompileJob, KernelArg, TargetFacts\n"
        "f._BACKENDS = Path(sys.argv[1])\n"
        "job = json.loads(sys.argv[3])\n"
        "job['target'], job['args'] = TargetFacts(**job['target']), [KernelArg(**arg) for arg in job['args']]\n"
        "class Tools:\n    def identity_of(self, backend): return f'the tools of {backend}'\n"
        "print(f.job_key(CompileJob(**job), Tools(), Path(sys.argv[2])))\n"
    )
    repository = Path(__file__).resolve().parents[2]
    words = [
        str(fixed_backends(tmp_path / "backends")),
        str(sources(tmp_path / "a")),
        json.dumps(asdict(JOB)),
    ]
    places = os.pathsep.join((str(repository), str(repository / "src")))
    for python in others:
        environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [python, "-c", code, *words], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == KNOWN, python


@pytest.mark.parametrize(
    "name", ["flydsl_compile.py", "flydsl_guard.py", "flydsl_sources.py", "flydsl_torch.py"]
)
def test_the_child_of_flydsl_is_in_its_keys_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    jobs = [JOB, replace(JOB, backend="flydsl")]
    fingerprint._backend_code.cache_clear()
    before = [job_key(job, tools(), root) for job in jobs]
    digest = sha256_file
    monkeypatch.setattr(
        fingerprint, "sha256_file", lambda path: "another" if path.name == name else digest(path)
    )
    fingerprint._backend_code.cache_clear()
    now = [job_key(job, tools(), root) for job in jobs]
    assert now[0] == before[0] and now[1] != before[1]
    fingerprint._backend_code.cache_clear()
