"""AITER_PREBUILT_TRACE and AITER_PREBUILT_MISS_LOG: each first choice once, nothing on repeated calls, never an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Both are read once, so each test has a process of its own, which calls with the sizes that it is given.
PROGRAM = """
import sys
from pathlib import Path
from native.conftest import load_extension, raw
from native.synthetic import A, Op, R, S, T, bundle_bytes
extension, driver, bundle, origin, *sizes = sys.argv[1:]
native = load_extension(Path(extension))
op = Op(
    "o", [T("x", "T", ["*M", "N"]), T("out", "T", ["*M", "N"], role="out")], [A("k", "int", "0"), A("eps", "float", "0.5")],
    {"T": ["bf16", "f16"]},
    [
        R(variant=v, types=(t,), cost=c, steps=[S(v)], blob=v + t)
        for v, c in (("big", "7"), ("small", "N")) for t in ("bf16", "f16")
    ],
    tuned_on=["N"], tuned=[(304, 2, [64])],
)
Path(bundle).write_bytes(bundle_bytes([op]))
native.open_driver("amd", driver)
bundles = (native.Bundle(bundle),)
tables = (((("N", "t.csv:1:1"),), ((origin, 304, (65,), "k", "small", "bf16"),), False),) if origin else ()
made = native.Operator("o", lambda vendor, ordinal: (bundles, 304, tables))
for size in map(int, sizes):
    x, out = (raw(address, "bf16", (2, 3, size)) for address in (0x7F0000000100, 0x7F0000200000))
    made(x, out, 4, 0.25)
print(made.stats()["launches"])
"""


class Child:
    """child(sizes, environment, origin) -> standard error's lines; every call is launched."""

    def __init__(self, extension: Path, driver: Path, folder: Path) -> None:
        self.extension, self.driver, self.folder = extension, driver, folder

    def start(
        self,
        sizes: list[int],
        environment: dict[str, str],
        origin: str = "",
        place: int = 0,
        program: str = PROGRAM,
    ) -> subprocess.Popen[str]:
        """The process, still running."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
        paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT)))
        argv = [
            sys.executable,
            "-c",
            program,
            str(self.extension),
            str(self.driver),
            str(self.folder / f"{place}.apb"),
            origin,
        ]
        return subprocess.Popen(
            [*argv, *map(str, sizes)], env=kept | environment | {"PYTHONPATH": paths}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, sizes: list[int], environment: dict[str, str], origin: str = "") -> list[str]:
        started = self.start(sizes, environment, origin)
        out, err = started.communicate(timeout=120)
        assert started.returncode == 0, err
        assert out.split() == [str(len(sizes))], "every call is launched"
        return err.splitlines()


@pytest.fixture
def child(extension_path: Path, stub_path: Path, tmp_path: Path) -> Child:
    """Its three files are these."""
    return Child(extension_path, stub_path, tmp_path)


def test_each_first_choice_is_traced_once(child: Child) -> None:
    lines = child([5, 5, 64, 5, 100, 64, 100], {"AITER_PREBUILT_TRACE": "1"})
    assert len(lines) == 3
    assert lines[0] == (
        "aiter-prebuilt: o on amd:0 (gfx942, 304 compute units) x=bf16[2, 3, 5] out=bf16[2, 3, 5] k=4: k[small] T=bf16 (hip), "
        "because: cost 5, 2 of 4 candidates fit"
    )
    assert (
        "k[small] T=bf16" in lines[1] and "because: tuned row of " in lines[1] and lines[1].endswith("0.apb")
    )
    assert "k[big] T=bf16" in lines[2] and "cost 7" in lines[2]


def test_a_user_row_is_traced_with_its_file_and_line(child: Child) -> None:
    (line,) = child([65], {"AITER_PREBUILT_TRACE": "1"}, "/etc/o.csv:12")
    assert "k[small] T=bf16" in line and line.endswith("because: tuned row of the user, /etc/o.csv:12")


@pytest.mark.parametrize("environment", [{}, {"AITER_PREBUILT_TRACE": ""}, {"AITER_PREBUILT_TRACE": "0"}])
def test_nobody_asked_and_nothing_is_said(child: Child, environment: dict[str, str]) -> None:
    assert child([5, 64], environment) == []


def test_what_is_evicted_from_the_memo_is_not_traced_again(child: Child) -> None:
    sizes = list(range(100, 2500))
    assert len(child([*sizes, *sizes], {"AITER_PREBUILT_TRACE": "1"})) == len(sizes)


def test_misses_are_recorded_once_and_tuned_shapes_never(child: Child, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert child([5, 64, 5, 100, 65], {"AITER_PREBUILT_MISS_LOG": str(log)}, "t.csv:2") == []
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0] == {
        "version": 1, "operator": "o", "target": "gfx942", "cus": 304, "symbols": {"N": 5}, "types": "bf16", "kernel": "k",
        "variant": "small", "cost": 5, "call": {"T": "bf16", "M": "6", "N": "5", "k": "4"},
    }  # fmt: skip
    assert [line["symbols"]["N"] for line in lines] == [5, 100]
    assert child([5], {"AITER_PREBUILT_MISS_LOG": str(log)}) == []
    assert len(log.read_text().splitlines()) == 3, "another process appends"


def test_processes_share_a_log_and_every_line_is_whole(child: Child, tmp_path: Path) -> None:
    log = tmp_path / "log"
    sizes = list(range(100, 700))
    children = [child.start(sizes, {"AITER_PREBUILT_MISS_LOG": str(log)}, place=place) for place in range(4)]
    assert [started.communicate(timeout=120)[0].split() for started in children] == [["600"]] * 4
    lines = [json.loads(line)["symbols"]["N"] for line in log.read_text().splitlines()]
    assert sorted(lines) == sorted(sizes * 4)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/nonexistent/log", "No such file or directory"),
        (".", "Is a directory"),
        ("/dev/full", "No space left"),
    ],
)
def test_a_log_that_cannot_be_written_is_one_warning(child: Child, path: str, reason: str) -> None:
    (line,) = child([5, 6, 7, 5], {"AITER_PREBUILT_MISS_LOG": path})
    assert (
        line.startswith(f"aiter-prebuilt: warning: AITER_PREBUILT_MISS_LOG={path}: {reason}")
        and "unset" in line
    )


@pytest.mark.parametrize("reader", [False, True])
def test_a_log_that_is_a_named_pipe_is_refused_and_waits_for_nobody(
    child: Child, tmp_path: Path, reader: bool
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) if reader else -1
    started = child.start([5, 6], {"AITER_PREBUILT_MISS_LOG": str(pipe)})
    try:
        said, warned = started.communicate(timeout=60)
    finally:
        started.kill()
        if reader:
            os.close(handle)
    assert said.split() == ["2"], "both calls were launched"
    (line,) = warned.splitlines()
    assert f"AITER_PREBUILT_MISS_LOG={pipe}: it is not a regular file" in line and "unset" in line


def test_a_log_whose_handle_became_another_files(
    extension_path: Path, stub_path: Path, tmp_path: Path
) -> None:
    """Daemons close what they do not know, and the next files that they open get the numbers."""
    log, other = tmp_path / "log", tmp_path / "database"
    lost = """
    if size == 6:
        import os
        os.closerange(3, 256)
        kept = [os.open(os.environ["OTHER"], os.O_RDWR | os.O_CREAT | os.O_APPEND) for _ in range(20)]
        bundles = (native.Bundle(bundle),)
        made = native.Operator("o", lambda vendor, ordinal: (bundles, 304, tables))
"""
    words = "for size in map(int, sizes):"
    assert words in PROGRAM
    started = Child(extension_path, stub_path, tmp_path).start(
        [5, 6, 7],
        {"AITER_PREBUILT_MISS_LOG": str(log), "OTHER": str(other)},
        program=PROGRAM.replace(words, words + lost),
    )
    _, err = started.communicate(timeout=120)
    assert started.returncode == 0 and not err, err
    assert other.read_bytes() == b""
    assert [json.loads(line)["symbols"]["N"] for line in log.read_text().splitlines()] == [5, 6, 7]
