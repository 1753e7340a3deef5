"""``python -m aiter_prebuilt.execute`` on the embedded device: right is right, and everything that can be wrong is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support import calls
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.calls import Array, Call, ElementType, Want, pack

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "src" / "aiter_prebuilt" / "schemas" / "execute.json").read_text())
TARGETS = ("gfx942", "gfx950")

#: A function that does what ``deed`` says, with the globals of the real one, so that its operator is seen. ``native``: the
#: operator, as the real function calls it.
SLY = """
import os, sys, time
import aiter_prebuilt
from aiter_prebuilt.execute import __main__ as command

real = aiter_prebuilt.silu_and_mul
operators = [name for name in real.__globals__ if name.strip("_").lower() == "silu_and_mul" and name != "silu_and_mul"]

def poke(tensor, place, data=b"\\x11"):
    tensor.memory.write(tensor.base + place, data)

def sly(out, input, limit=0.0):
    native = real.__globals__[operators[0]]
    {deed}

aiter_prebuilt.silu_and_mul = type(sly)(sly.__code__, real.__globals__, "sly", sly.__defaults__)
real.__globals__.update(poke=poke, operators=operators, real=real, os=os, time=time)
code = command.main(sys.argv[1:])
print("opened" if "libamdhip64" in open("/proc/self/maps").read() else "not opened", file=sys.stderr)
sys.exit(code)
"""


def surroundings(devices: str = ",".join(TARGETS)) -> dict[str, str]:
    files = dict.fromkeys(path for target in TARGETS for path in bundles(target, "ck-full"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_")}
    return kept | {
        "PYTHONPATH": str(ROOT / "src"),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": devices,
        "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, files)),
    }


def execute(
    stream: bytes, *words: str, program: Sequence[str] = ("-m", "aiter_prebuilt.execute"), **more: str
) -> tuple[list[dict[str, Any]], int, str]:
    """(lines that keep the schema, exit status, standard error)."""
    done = subprocess.run(
        [sys.executable, *program, *words],
        env=surroundings() | more,
        input=stream,
        capture_output=True,
        timeout=300,
    )
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    for line in lines:
        jsonschema.Draft202012Validator(SCHEMA).validate(line)
    return lines, done.returncode, done.stderr.decode()


def one(call: Call, *words: str, deed: str | None = None) -> tuple[dict[str, Any], str]:
    """The line of a call that is wrong, with a right one behind it; standard error."""
    program = ("-m", "aiter_prebuilt.execute") if deed is None else ("-c", SLY.format(deed=deed))
    (line, after), code, errors = execute(pack(call) + pack(calls.rms_norm()), *words, program=program)
    assert code == 1 and not after["problems"], after
    assert (line["operator"], line["label"]) == (call.operator, call.label) and line["problems"]
    return line, errors


@pytest.mark.parametrize("words", [(), ("--device", "1"), ("--device", "1", "--no-fork")], ids=" ".join)
def test_right_calls_are_right(words: tuple[str, ...]) -> None:
    wanted = list(calls.right())
    lines, code, errors = execute(b"".join(map(pack, wanted)), *words)
    assert code == 0 and not errors
    assert [(line["operator"], line["label"]) for line in lines] == [
        (call.operator, call.label) for call in wanted
    ]
    target = TARGETS[bool(words)]
    for line in lines:
        assert line["problems"] == [] and 0 <= line["worst"] <= 1 and line["seconds"] > 0, line
        assert line["target"] == target and line["device"].startswith(
            f"{target} of aiter-prebuilt-emulator 0."
        )
        assert line["kernel"] and line["backend"] and len(line["launched"]) >= 1


def test_streams_are_files_too(tmp_path: Path) -> None:
    for name, call in (("a", calls.rms_norm()), ("b", calls.silu_and_mul())):
        (tmp_path / name).write_bytes(pack(call))
    lines, code, _ = execute(b"", str(tmp_path / "b"), str(tmp_path / "a"))
    assert code == 0 and [line["operator"] for line in lines] == ["silu_and_mul", "rms_norm"]


def test_another_number_of_compute_units_chooses_another_variant() -> None:
    stream = b"".join(pack(calls.gemm(compute_units=units)) for units in (0, 1, 304))
    for words in ((), ("--no-fork",)):
        lines, code, _ = execute(stream, *words)
        assert code == 0
        assert ["splitk" in line["kernel"] for line in lines] == [True, False, True], lines
        assert lines[0]["launched"] == lines[2]["launched"] != lines[1]["launched"]


def test_torch_in_the_process_changes_nothing() -> None:
    program = (
        "-c",
        "import sys, torch; from aiter_prebuilt.execute.__main__ import main; sys.exit(main(sys.argv[1:]))",
    )
    lines, code, errors = execute(b"".join(map(pack, calls.right())), "--no-fork", program=program)
    assert code == 0, (lines, errors)


def test_a_wrong_value_is_said() -> None:
    low, high = calls.bf16([7.0] * 120), calls.bf16([8.0] * 120)
    line, _ = one(calls.wanting(calls.rms_norm(), 0, low=low, high=high))
    (problem,) = line["problems"]
    assert (
        "120 of 120 values are not what is wanted, the first at [0, 0]: " in problem
        and "instead of 7.0 to 8.0" in problem
    )
    assert line["worst"] > 1 and line["kernel"], "what was wrong has a name"


def test_nan_is_wanted_where_it_is_wanted() -> None:
    line, _ = one(calls.wanting(calls.rms_norm(), 0, low=b"\xc0\x7f" * 120, high=b"\xc0\x7f" * 120))
    assert "120 of 120 values" in line["problems"][0] and line["problems"][0].endswith("instead of nan")
    assert line["worst"] is None
    call = calls.rms_norm()
    rows = [[float("nan")] * 40, [1.0] * 40, [1.0] * 40]
    line, _ = one(calls.other(call, input=calls.array("bf16", rows)))
    assert any("40 of 120" in text or "first at [0, 0]: nan instead of" in text for text in line["problems"])


def test_a_call_that_was_not_written() -> None:
    line, _ = one(calls.silu_and_mul(), deed="pass")
    assert any("72 of 72 values" in text and "[0, 0]: nan" in text for text in line["problems"])
    assert "the function never called its operator" in line["problems"]


@pytest.mark.parametrize("pad", [0, 5])
def test_touched_padding_is_said(pad: int) -> None:
    # The first gap lies behind 24 elements of two bytes; without one, this is an element.
    line, _ = one(calls.silu_and_mul(pad=pad), deed="native(out, input, limit); poke(out, 48)")
    said = (
        "out: 1 bytes between its elements were written, the first is byte 48"
        if pad
        else "out: 1 of 72 values"
    )
    assert any(text.startswith(said) for text in line["problems"]) and len(line["problems"]) == 1, line


def test_a_touched_input_is_said() -> None:
    line, _ = one(calls.silu_and_mul(), deed="native(out, input, limit); poke(input, 5)")
    assert line["problems"] == ["input: an input was written: 1 bytes, the first is byte 5 of 288"]
    assert line["worst"] <= 1


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("native(out, input, limit); return out.new_empty((3, 3))", "it returned 1 tensors, 0 are wanted"),
        ("native(out, input, limit); return [1, None]", "it returned 1 tensors, 0 are wanted"),
    ],
)
def test_what_is_returned_and_not_wanted(deed: str, said: str) -> None:
    line, _ = one(calls.silu_and_mul(), deed=deed)
    assert line["problems"] == [said]


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("native(out, input, limit); return out.new_empty((24, 3))", "made: bf16[24, 3] instead of bf16[3, 24]"),
        ("native(out, input, limit); return out.new_empty((3, 24), dtype='f16')", "made: f16[3, 24] instead of bf16[3, 24]"),
        ("native(out, input, limit); return 5", "made: int instead of a tensor"),
        ("native(out, input, limit)", "it returned 0 tensors, 1 are wanted"),
        ("native(out, input, limit); return [out.new_empty((3, 24)) for _ in range(2)]", "it returned 2 tensors, 1 are wanted"),
    ],
)  # fmt: skip
def test_a_result_of_another_shape_or_type(deed: str, said: str) -> None:
    call = calls.silu_and_mul()
    (want,) = call.wants
    line, _ = one(replace(call, wants=(want, replace(want, name="made", returned=True))), deed=deed)
    assert said in line["problems"], line


def test_elements_that_must_stay() -> None:
    call = calls.silu_and_mul(pad=0)
    mask = bytes(24) + b"\1" * 24 + bytes(24)
    line, _ = one(calls.wanting(call, 0, kept=mask))
    (problem,) = line["problems"]
    assert (
        "bytes of elements that must stay were written, the first at [1, 0]" in problem and line["worst"] <= 1
    )


def test_a_call_that_wants_nothing_proves_nothing() -> None:
    line, _ = one(replace(calls.rms_norm(), wants=()))
    assert (
        any("returned 1 tensors, 0 are wanted" in text for text in line["problems"]) and line["worst"] is None
    )
    missing = Want("nobody", "bf16", (1,), b"\0\0", b"\0\0", None, False)
    line, _ = one(replace(calls.silu_and_mul(), wants=(*calls.silu_and_mul().wants, missing)))
    assert line["problems"] == ["nobody: NoneType instead of a tensor"]


def test_the_end_of_a_child_is_a_problem_with_its_kernel() -> None:
    line, errors = one(calls.silu_and_mul(), deed="native(out, input, limit); os.kill(os.getpid(), 11)")
    assert line["problems"] == ["the process was ended by SIGSEGV"]
    assert (
        line["kernel"] == "act_and_mul"
        and line["launched"]
        and line["target"] == "gfx942"
        and line["worst"] is None
    )
    assert "not opened" in errors, "the parent opens no driver"
    line, _ = one(calls.silu_and_mul(), deed="os._exit(3)")
    assert line["problems"] == ["the process ended with status 3"] and line["kernel"] == ""


def test_a_call_that_does_not_end() -> None:
    line, _ = one(calls.silu_and_mul(), "--timeout", "3", deed="time.sleep(60)")
    assert line["problems"] == ["it did not end within 3 seconds"]


def test_a_fault_of_the_device_is_said_and_ends_only_its_own_call() -> None:
    line, _ = one(calls.silu_and_mul(), deed="input.memory.close(); native(out, input, limit)")
    (problem,) = line["problems"]
    assert "Error: " in problem and line["kernel"] == "act_and_mul"
    program = ("-c", SLY.format(deed="input.memory.close(); native(out, input, limit)"))
    stream = pack(calls.silu_and_mul()) + pack(calls.rms_norm())
    (_, after), code, _ = execute(stream, "--no-fork", program=program)
    assert code == 1 and after["problems"], "in one process the device is unusable afterwards"


def test_refusals_of_the_function_are_said() -> None:
    wrong = {
        "UnsupportedError: ": calls.other(calls.rms_norm(), use_model_sensitive_rmsnorm=2),
        "TypeError: ": calls.other(calls.rms_norm(), surprise=1),
        "ArgumentShapeError: ": calls.other(
            calls.rms_norm(), weight=Array("bf16", (39,), (1,), 0, bytes(78))
        ),
        "ValueError: 78 bytes for a tensor whose memory has 80": calls.other(
            calls.rms_norm(), weight=Array("bf16", (40,), (1,), 0, bytes(78))
        ),
        "aiter_prebuilt has no function 'fused_everything'": replace(
            calls.rms_norm(), operator="fused_everything"
        ),
        "aiter_prebuilt has no function 'VERSION'": replace(calls.rms_norm(), operator="VERSION"),
        "no element type has this name": calls.other(
            calls.rms_norm(), weight=Array("half", (1,), (1,), 0, b"")
        ),
        "UnsupportedError: gemm_a16w16(otype=": calls.other(calls.gemm(), otype=ElementType("i32")),
    }
    stream = b"".join(map(pack, wrong.values()))
    lines, code, _ = execute(stream)
    assert code == 1
    for said, line in zip(wrong, lines, strict=True):
        assert len(line["problems"]) == 1 and said in line["problems"][0] and line["worst"] is None, line


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (lambda data: data[:-1], "CallsError: it ends inside a record of"),
        (lambda data: data[: len(data) // 2 + 5], "CallsError: it ends inside a record's lengths"),
        (lambda data: data + b"\xff" * 12, "CallsError: a record claims"),
        (lambda data: data + data[: len(data) // 2].replace(b'"edition":2', b'"edition":9'), "CallsError: edition 9 is not 2"),
        (lambda data: data + b"\4\0\0\0" + bytes(8) + b"none", "CallsError: a record cannot be read"),
    ],
)  # fmt: skip
def test_a_damaged_stream_is_said_after_what_came_before(cut: Any, said: str) -> None:
    data = 2 * pack(calls.rms_norm())
    lines, code, errors = execute(cut(data))
    assert code == 2 and said in errors and f"after {len(lines)} calls" in errors
    assert len(lines) == (1 if len(cut(data)) < len(data) else 2) and not any(
        line["problems"] for line in lines
    )


def test_nothing_to_execute() -> None:
    lines, code, errors = execute(b"")
    assert (lines, code) == ([], 2) and "nothing was executed" in errors
    for words in (("--device", "7"), ("--vendor", "nvidia")):
        (line,), code, _ = execute(pack(calls.rms_norm()), *words)
        assert (
            code == 1 and line["device"] == "" and "NoDeviceError: Cannot use device" in line["problems"][0]
        ), line
    lines, code, errors = execute(b"", "/nowhere.calls")
    assert code == 2 and "/nowhere.calls" in errors
