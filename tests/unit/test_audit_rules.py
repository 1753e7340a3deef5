"""The audit's rules at their boundaries: the last value that passes, the first that does not, and the whole line that is said."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.audited import ARGS, FACTS, FILE, FOLDER, GFX942, JOB, judge, with_args, with_kernel
from support.bundles import blob, small_operator, small_root

from build_tools.errors import CodeObjectError
from build_tools.judge import audit
from build_tools.objects import codeobject
from build_tools.pack import writer
from build_tools.records import ArgFacts, KernelArg

WIDE = with_kernel(max_threads=1024)


def with_last(kind: str, argument: str) -> tuple[str, ...]:
    """Problems of a job whose last argument is a ``kind``, of a kernel that takes it as ``argument``."""
    width = {"ptr": 8, "i64": 8, "f64": 8, "u8": 1}.get(kind, 4)
    job = replace(with_args(*ARGS[:2], KernelArg(kind, "n", 16, width)), kernarg_size=24)
    return judge(job, with_kernel(args=(*FACTS.kernels[0].args[:2], ArgFacts(16, width, argument)))).problems


def test_versions() -> None:
    for version in (4, 5, 6):
        assert judge(facts=replace(FACTS, version=version)).ok
    for version, told in ((3, "3"), (7, "7"), (0, "unknown")):
        problems = judge(facts=replace(FACTS, version=version)).problems
        assert problems == (f"code object version {told} is not one of 4, 5, 6",)


def test_a_cubin_has_neither_version_nor_descriptor_nor_lanes_registers() -> None:
    target = replace(GFX942, name="sm_90", vendor="nvidia", vgprs=8)
    facts = replace(with_kernel(vgprs=255), target="sm_90", vendor="nvidia", version=0, symbols=())
    facts = replace(facts, features=("anything",))
    assert judge(replace(JOB, target=target), facts).problems == ()
    empty = replace(facts, kernels=(replace(facts.kernels[0], args=()),))
    assert judge(replace(JOB, target=target), empty).problems == tuple(
        f"argument {place} ({arg.name}): the job passes {arg.size} bytes at {arg.offset}, the kernel has no argument there"
        for place, arg in enumerate(ARGS)
    )


@pytest.mark.parametrize(
    ("block", "threads", "said"),
    [
        ((1024, 1, 1), 0, 0), ((64, 4, 4), 0, 0), ((8, 16, 8), 0, 0), ((1025, 1, 1), 0, 1025), ((64, 5, 4), 0, 1280),
        ((64, 4, 5), 0, 1280), ((1, 41, 25), 0, 1025), ((2048, 1, 1), 1024, 0), ((1, 1, 1), 1025, 1025),
    ],
)  # fmt: skip
def test_a_block_has_at_most_the_threads_of_the_kernel(
    block: tuple[int, int, int], threads: int, said: int
) -> None:
    """What the compiler tells goes before what the job asks."""
    problems = judge(replace(JOB, block=block), WIDE, threads=threads).problems
    line = f"the block has {said} threads, the kernel is compiled for at most 1024"
    assert problems == ((line,) if said else ())
    assert judge(replace(JOB, block=block), with_kernel(max_threads=0), threads=threads).ok


def test_memory_and_registers_at_their_limit() -> None:
    assert judge(facts=with_kernel(lds_static=65536)).ok
    assert judge(facts=with_kernel(lds_static=65537)).problems == (
        "it needs 65537 bytes of LDS, gfx942 has 65536",
    )
    assert judge(facts=with_kernel(vgprs=512, agprs=512)).ok
    for changes in ({"vgprs": 513}, {"agprs": 513}, {"vgprs": 513, "agprs": 512}):
        assert judge(facts=with_kernel(**changes)).problems == (
            "it needs 513 registers a lane, gfx942 has 512",
        )
    assert judge(facts=with_kernel(wave=32)).problems == ("it is compiled for waves of 32, gfx942 has 64",)


@pytest.mark.parametrize(
    ("kind", "argument", "right"),
    [
        ("ptr", "global_buffer", True), ("ptr", "by_value", True), ("i32", "by_value", True), ("i64", "by_value", True),
        ("f32", "by_value", True), ("u8", "by_value", True), ("f64", "by_value", True), ("u8", "global_buffer", False),
        ("f64", "global_buffer", False), ("i32", "global_buffer", False), ("i64", "global_buffer", False),
        ("f32", "global_buffer", False), ("ptr", "image", False),
    ],
)  # fmt: skip
def test_the_kind_of_an_argument(kind: str, argument: str, right: bool) -> None:
    line = f"argument 2 (n): the kernel takes it as {argument}, the job passes a {kind}"
    assert with_last(kind, argument) == (() if right else (line,))


def test_sizes_are_compared_before_kinds_and_kinds_before_access() -> None:
    """One line for each argument, the first thing that is wrong with it."""
    known = FACTS.kernels[0].args
    wide = (*known[:3], ArgFacts(20, 8, "image", "factor"))
    assert judge(facts=with_kernel(args=wide)).problems == (
        "argument 3 (factor): the kernel has 8 bytes at 20, the job 4 bytes",
        "the kernel reads 28 bytes of arguments, the job passes 24",
    )
    job = with_args(ARGS[0], replace(ARGS[1], role="in"), *ARGS[2:])
    for kind, said in (
        ("image", "the kernel takes it as image, the job passes a ptr"),
        ("global_buffer", "the kernel has it as read_write, the operator's tensor is only read"),
    ):
        args = (known[0], ArgFacts(8, 8, kind, "x", "read_write"), *known[2:])
        assert judge(job, with_kernel(args=args)).problems == (f"argument 1 (x): {said}",)


@pytest.mark.parametrize(
    ("behind", "right"),
    [
        (ArgFacts(20, 4, "by_value", "pad"), True),
        (ArgFacts(20, 4, "by_value", "count"), False),
        (ArgFacts(20, 8, "by_value", "pad"), False),
        (ArgFacts(24, 4, "by_value", "pad"), False),
    ],
)
def test_the_upper_half_of_an_address_may_be_listed_as_padding(behind: ArgFacts, right: bool) -> None:
    job = replace(with_args(*ARGS[:2], KernelArg("ptr", "w", 16, 8)), kernarg_size=32)
    halves = (*FACTS.kernels[0].args[:2], ArgFacts(16, 4, "by_value", "SW"), behind)
    problems = judge(job, with_kernel(args=halves)).problems
    assert (problems == ()) is right
    assert right or "argument 2 (w): the kernel has 4 bytes at 16, the job 8 bytes" in problems
    number = replace(with_args(*ARGS[:2], KernelArg("i64", "w", 16, 8)), kernarg_size=32)
    assert judge(number, with_kernel(args=halves)).problems != ()


def test_arguments_are_found_by_their_offset() -> None:
    """In whichever order the object lists them; what the job does not pass is named, bytes between arguments are not."""
    known = FACTS.kernels[0].args
    order = random.sample(range(4), 4)
    assert judge(facts=with_kernel(args=tuple(known[place] for place in order))).problems == (), order
    moved = (*known[:3], ArgFacts(24, 4, "by_value", "factor"))
    assert judge(facts=with_kernel(args=moved)).problems == (
        "argument 3 (factor): the job passes 4 bytes at 20, the kernel has no argument there",
        "the kernel takes 4 bytes at 24 (factor) as by_value, the job passes nothing there",
        "the kernel reads 28 bytes of arguments, the job passes 24",
    )


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("by_value", "_p0", ""), ("by_value", "pad", ""), ("by_value", "__padding12", ""), ("by_value", "p", ""),
        ("by_value", "pad_x", " (pad_x)"), ("by_value", "xpad", " (xpad)"), ("by_value", "", ""),
        ("global_buffer", "_p0", " (_p0)"), ("by_value", "P0", " (P0)"),
    ],
)  # fmt: skip
def test_bytes_that_nothing_reads_are_known_by_name_and_kind(kind: str, name: str, said: str) -> None:
    known = FACTS.kernels[0].args
    job = replace(with_args(*ARGS[:2], ARGS[3]), kernarg_size=24)
    facts = with_kernel(args=(*known[:2], ArgFacts(16, 4, kind, name), known[3]))
    line = f"the kernel takes 4 bytes at 16{said} as {kind}, the job passes nothing there"
    assert judge(job, facts).problems == ((line,) if said or not name else ())


@pytest.mark.parametrize(
    ("role", "access", "problem", "note"),
    [
        ("in", "read_only", False, False), ("in", "", False, False), ("in", "write_only", True, False),
        ("in", "read_write", True, False), ("out", "read_only", False, True), ("inout", "read_only", False, True),
        ("out", "write_only", False, False), ("inout", "read_write", False, False), ("", "write_only", False, False),
        ("", "read_only", False, False),
    ],
)  # fmt: skip
def test_what_metadata_say_of_access(role: str, access: str, problem: bool, note: bool) -> None:
    """A tensor that is only read and is written is wrong; one that is written and "read only" is only noted."""
    known = FACTS.kernels[0].args
    job = with_args(ARGS[0], replace(ARGS[1], role=role), *ARGS[2:])
    report = judge(job, with_kernel(args=(known[0], known[1]._replace(access=access), *known[2:])))
    line = f"argument 1 (x): the kernel has it as {access}, the operator's tensor is only read"
    assert report.problems == ((line,) if problem else ())
    assert report.notes == (("its metadata call x read only, the operator writes it",) if note else ())


@pytest.mark.parametrize(("size", "said"), [(24, 0), (25, 0), (23, 24), (0, 24)])
def test_a_job_passes_at_least_what_the_kernel_reads(size: int, said: int) -> None:
    problems = judge(replace(JOB, kernarg_size=size), with_kernel(kernarg_size=size)).problems
    line = f"the kernel reads {said} bytes of arguments, the job passes {size}"
    assert problems == ((line,) if said else ())


def test_a_kernel_without_arguments() -> None:
    job, facts = replace(JOB, args=(), kernarg_size=0), with_kernel(args=(), kernarg_size=0)
    assert judge(job, facts).problems == ()
    assert judge(job, with_kernel(args=(), kernarg_size=8)).problems == (
        "the kernel's argument segment has 8 bytes, the job passes 0",
    )
    assert judge(JOB, with_kernel(args=(), kernarg_size=23)).problems == (
        "it lists no arguments and takes 23 bytes, the job passes 24",
    )


@pytest.mark.parametrize(
    ("size", "align", "most"),
    [(20, 8, 24), (20, 16, 32), (24, 8, 24), (17, 4, 20), (32, 16, 32), (20, 1, 20)],
)
def test_an_argument_segment_is_padded_to_its_alignment_only(size: int, align: int, most: int) -> None:
    job = replace(with_args(*ARGS[:2]), kernarg_size=size)
    args = FACTS.kernels[0].args[:2]
    for given in (most, most + 1):
        problems = judge(job, with_kernel(args=args, kernarg_size=given, kernarg_align=align)).problems
        line = f"the kernel's argument segment has {given} bytes, the job passes {size}"
        assert problems == (() if given == most else (line,))
    hidden = with_kernel(args=args, kernarg_size=1000, kernarg_align=align, hidden=("hidden_none",))
    assert judge(job, hidden).ok, "hidden arguments stand behind the job's"


def test_hidden_arguments_that_nobody_fills_in_are_named_one_by_one() -> None:
    hidden = ("hidden_queue_ptr", "hidden_none", "hidden_heap_v1")
    assert judge(facts=with_kernel(hidden=hidden)).problems == tuple(
        f"kernel scale needs {name}, which only the full HIP runtime provides"
        for name in ("hidden_heap_v1", "hidden_queue_ptr")
    )


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, ()), ({"vgpr_spills": 1}, ("spills: 1 VGPR, 0 SGPR",)), ({"sgpr_spills": 2}, ("spills: 0 VGPR, 2 SGPR",)),
        ({"scratch": 1}, ("scratch: 1 bytes a lane",)),
        ({"hidden": ("hidden_none", "hidden_grid_dims")},
         ("hidden arguments that the driver fills in: hidden_none, hidden_grid_dims",)),
    ],
)  # fmt: skip
def test_notes(changes: dict[str, object], notes: tuple[str, ...]) -> None:
    assert judge(facts=with_kernel(**changes)).notes == notes


def test_a_kernel_that_is_not_there() -> None:
    assert judge(facts=replace(FACTS, kernels=())).problems == (
        "it has no kernel",
        "the kernel 'scale' is not in the code object (kernels: none)",
    )


def test_a_word_of_six_letters_is_no_accident(tmp_path: Path) -> None:
    """It is looked for in machine code, too; a shorter one is not."""
    path = tmp_path / "with.co"
    path.write_bytes(FILE.read_bytes() + b"\0abcdef\0")
    said = "the file holds the text {!r}, which this profile forbids"
    assert judge(words=("abcdef",), path=path).problems == (said.format("abcdef"),)
    assert judge(words=("abcde",), path=path).problems == ()
    assert judge(words=("none",), path=None).problems == ()
    assert judge(words=("scale.kd", "absent", "scal"), path=path).problems == (
        "symbol 'scale.kd' holds 'scale.kd', which this profile forbids",
        "symbol 'scale' holds 'scal', which this profile forbids",
    )


def test_texts_of_a_damaged_file() -> None:
    with pytest.raises(CodeObjectError, match="the file is damaged: not an ELF file") as caught:
        codeobject.texts(b"nothing")
    assert caught.value.fix == "Compile it again"


def packed(path: Path, target: str, *blobs: bytes) -> Path:
    """A bundle whose operator has an entry for each of ``blobs``."""
    made = small_operator("op")
    entries = tuple(
        replace(made.entries[0], name=f"e{place}", code_object=place, sha256=hashlib.sha256(data).digest())
        for place, data in enumerate(blobs)
    )
    frames = tuple(writer.Frame(data, len(data), hashlib.sha256(data).digest(), "raw") for data in blobs)
    path.write_bytes(writer.encode(small_root(target), (replace(made, entries=entries),), frames))
    return path


def test_each_entry_of_a_bundle_is_judged(tmp_path: Path) -> None:
    data = FILE.read_bytes()
    reports = audit.audit_files([packed(tmp_path / "x.apb", "gfx942", data, blob(1)), FILE])
    assert [(report.subject, report.ok) for report in reports] == [
        ("x.apb: e0", True),
        ("x.apb: e1", False),
        (str(FILE), True),
    ]
    assert reports[0].facts == reports[2].facts == codeobject.read(data)
    assert (reports[1].facts, len(reports[1].problems)) == (None, 1)
    assert reports[1].problems[0].startswith("the file starts with")
    assert reports[1].problems[0].endswith(". Give it an ELF file (.co, .hsaco or .cubin)")


def test_an_entry_of_another_target_is_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "x.apb", "gfx950", FILE.read_bytes(), (FOLDER / "add_gfx950.hsaco").read_bytes())
    wrong, right = audit.audit_files([path])
    assert wrong.problems == ("it is for gfx942, its bundle for gfx950",)
    assert (wrong.subject, wrong.facts, wrong.ok, right.ok) == ("x.apb: e0", FACTS, False, True)


def test_a_bundle_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.apb"
    (missing,) = audit.audit_files([path])
    assert (missing.subject, missing.facts, missing.ok) == (str(path), None, False)
    assert "No such file" in missing.problems[0]
    whole = packed(path, "gfx942", FILE.read_bytes()).read_bytes()
    path.write_bytes(whole[:-1])
    (cut,) = audit.audit_files([path])
    assert (cut.subject, cut.facts) == (str(path), None) and "cut or grew" in cut.problems[0]


def test_notes_of_a_file_on_its_own_name_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = with_kernel(scratch=16, vgpr_spills=1)
    monkeypatch.setattr(codeobject, "read", lambda _: facts)
    report = audit.judge_bytes("it", b"")
    assert (report.subject, report.facts, report.problems) == ("it", facts, ())
    assert report.notes == ("scale: spills: 1 VGPR, 0 SGPR", "scale: scratch: 16 bytes a lane")
