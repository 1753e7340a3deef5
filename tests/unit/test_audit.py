"""The audit: every rule is broken once, and the message names what was found."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from support.audited import ARGS, FACTS, FILE, FOLDER, GFX942, JOB, judge, with_args, with_kernel

from build_tools.judge import audit
from build_tools.records import ArgFacts, CodeObjectFacts, CompileJob, KernelArg


def test_a_right_code_object_has_no_problem_and_no_note() -> None:
    report = judge()
    assert (report.subject, report.problems, report.notes, report.ok) == ("job", (), (), True)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (replace(JOB, target=replace(GFX942, name="gfx950")), "is for gfx942, the job for gfx950"),
        (replace(JOB, target=replace(GFX942, wave=32)), "waves of 64"),
        (replace(JOB, target=replace(GFX942, lds_bytes=128)), "needs 256 bytes of LDS, gfx942 has 128"),
        (replace(JOB, block=(128, 1, 1)), "128 threads, the kernel is compiled for at most 64"),
        (with_args(*ARGS[:3]), "takes 4 bytes at 20 .*as by_value, the job passes nothing there"),
        (
            with_args(*ARGS, KernelArg("i32", "more", 24, 4)),
            "passes 4 bytes at 24, the kernel has no argument there",
        ),
        (
            with_args(ARGS[0], ARGS[1], replace(ARGS[2], kind="i64", size=8), ARGS[3]),
            r"argument 2 \(n\): the kernel has 4 bytes at 16",
        ),
        (with_args(ARGS[0], ARGS[1], ARGS[2], replace(ARGS[3], offset=24)), r"argument 3 \(factor\)"),
        (replace(JOB, kernarg_size=20), "reads 24 bytes of arguments, the job passes 20"),
    ],
)
def test_a_job_that_does_not_fit(job: CompileJob, words: str) -> None:
    report = judge(job)
    assert not report.ok
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(report.problems))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(FACTS, version=3), "code object version 3"),
        (replace(FACTS, features=("xnack+",)), r"only for devices with xnack\+"),
        (replace(FACTS, kernels=()), "it has no kernel"),
        (replace(FACTS, symbols=("scale",)), "has no descriptor"),
        (with_kernel(uses_dynamic_stack=True), "dynamic stack"),
        (with_kernel(hidden=("hidden_hostcall_buffer",)), "hidden_hostcall_buffer"),
        (with_kernel(vgprs=600), "needs 600 registers"),
        (with_kernel(agprs=513), "needs 513 registers a lane, gfx942 has 512"),
        (with_kernel(kernarg_size=280), "argument segment has 280 bytes"),
        (with_kernel(args=()), None),
        (with_kernel(args=(), kernarg_size=64), "takes 64 bytes"),
        (
            with_kernel(args=tuple(row._replace(kind="image") for row in FACTS.kernels[0].args)),
            "takes it as image",
        ),
        (with_kernel(symbol="other"), r"'scale' is not in the code object \(kernels: other\)"),
    ],
)
def test_a_code_object_that_breaks_a_rule(facts: CodeObjectFacts, words: str | None) -> None:
    problems = "\n".join(judge(facts=facts).problems)
    if words is None:
        assert problems == "", "hand-written assembly may leave the argument list out when the size is right"
    else:
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(problems)


def test_hidden_arguments_and_spills_are_notes_only() -> None:
    facts = with_kernel(hidden=("hidden_block_count_x",), kernarg_size=280, vgpr_spills=3, scratch=16)
    report = judge(facts=facts)
    assert report.ok
    assert report.notes == (
        "spills: 3 VGPR, 0 SGPR",
        "scratch: 16 bytes a lane",
        "hidden arguments that the driver fills in: hidden_block_count_x",
    )


def test_dynamic_lds_counts() -> None:
    assert judge(extra={"lds": "65280"}).ok
    assert judge(extra={"lds": "65281"}).problems == ("it needs 65537 bytes of LDS, gfx942 has 65536",)


def test_a_slot_larger_than_its_argument_is_right() -> None:
    args = tuple(replace(arg, offset=16 * place) for place, arg in enumerate(ARGS))
    facts = with_kernel(
        args=tuple(row._replace(offset=16 * place) for place, row in enumerate(FACTS.kernels[0].args)),
        kernarg_size=64,
    )
    assert judge(replace(JOB, args=args, kernarg_size=64), facts).ok


def test_a_forbidden_symbol_and_a_forbidden_text(tmp_path: Path) -> None:
    assert judge(words=("scal",)).problems == ("symbol 'scale' holds 'scal', which this profile forbids",)
    path = tmp_path / "with.co"
    path.write_bytes(FILE.read_bytes() + b"\0ck_tile::kernel\0")
    problems = judge(words=("ck_tile",), path=path).problems
    assert problems == ("the file holds the text 'ck_tile', which this profile forbids",)


def test_a_short_word_counts_in_names_and_not_in_machine_code(tmp_path: Path) -> None:
    data, path = bytearray(FILE.read_bytes()), tmp_path / "with.co"
    sections = {section.name: section for section in ELFFile(io.BytesIO(data)).iter_sections()}
    code, names = sections[".text"]["sh_offset"], sections[".strtab"]["sh_offset"]
    path.write_bytes(data[:code] + b"2ck9" + data[code + 4 :])
    assert judge(words=("2ck9",), path=path).ok
    path.write_bytes(data[: names + 1] + b"2ck9" + data[names + 5 :])
    problems = judge(words=("2ck9",), path=path).problems
    assert problems == ("the file holds the text '2ck9', which this profile forbids",)


def test_files_are_judged_on_their_own(tmp_path: Path) -> None:
    cut = tmp_path / "cut.co"
    cut.write_bytes(FILE.read_bytes()[:1000])
    paths = [*sorted(path for path in FOLDER.iterdir() if path.suffix != ".md"), cut, tmp_path / "missing.co"]
    reports = audit.audit_files(paths)
    assert [report.ok for report in reports] == [True, True, True, False, False]
    assert "damaged" in reports[3].problems[0]
    assert "cannot be read" in reports[4].problems[0]


def test_a_struct_is_passed_by_its_fields() -> None:
    whole = ArgFacts(24, 24, "by_value", "state")
    facts = with_kernel(args=(*FACTS.kernels[0].args, whole), kernarg_size=48)
    state = [KernelArg("i64", "seed", 24, 8), KernelArg("i64", "offset", 32, 8), KernelArg("i32", "0", 40, 4)]
    byte = KernelArg("u8", "0", 44, 1)

    def said(*fields: KernelArg) -> str:
        return "\n".join(judge(replace(with_args(*ARGS, *fields), kernarg_size=48), facts).problems)

    assert said(*state, byte) == said(*state) == ""
    assert "argument 4 (seed): the kernel has 24 bytes at 24, the job 8 bytes" in said(*state[:2])
    assert "has 24 bytes at 24, the job 8 bytes" in said(state[0], *state[2:])
    assert "has 24 bytes at 24" in said(*state, replace(byte, offset=45))
    image = with_kernel(args=(*FACTS.kernels[0].args, whole._replace(kind="image")), kernarg_size=48)
    assert judge(replace(with_args(*ARGS, *state), kernarg_size=48), image).problems != ()


def padded(*more: ArgFacts) -> CodeObjectFacts:
    return with_kernel(args=(*FACTS.kernels[0].args, *more), kernarg_size=64)


def test_padding_that_an_assembler_lists_is_no_argument() -> None:
    job = replace(JOB, kernarg_size=64)
    assert judge(job, padded(ArgFacts(24, 8, "by_value", "pad"), ArgFacts(32, 4, "by_value", "_p12"))).ok
    for odd in (
        ArgFacts(24, 8, "by_value", "scale"),
        ArgFacts(24, 8, "by_value"),
        ArgFacts(24, 8, "global_buffer", "pad"),
    ):
        report = judge(job, padded(odd))
        assert "passes nothing there" in "\n".join(report.problems), odd


def test_a_pointer_may_be_listed_as_its_lower_half_and_padding() -> None:
    job = with_args(*ARGS, KernelArg("ptr", "starts", 24, 8))
    job = replace(job, kernarg_size=32)
    lower, upper = ArgFacts(24, 4, "by_value", "ptr_starts"), ArgFacts(28, 4, "by_value", "pad")
    args = FACTS.kernels[0].args
    assert judge(job, with_kernel(args=(*args, lower, upper), kernarg_size=32)).ok
    assert judge(job, with_kernel(args=(*args, lower._replace(size=8)), kernarg_size=32)).ok
    for odd in ((lower, upper._replace(name="size")), (lower,), (lower, upper._replace(offset=32))):
        problems = "\n".join(judge(job, with_kernel(args=(*args, *odd), kernarg_size=32)).problems)
        assert "argument 4 (starts): the kernel has 4 bytes at 24, the job 8 bytes" in problems, odd


def test_what_the_operator_only_reads_the_kernel_must_not_write() -> None:
    args = tuple(row._replace(access="read_write") for row in FACTS.kernels[0].args)
    right = with_args(replace(ARGS[0], role="out"), *ARGS[1:])
    assert judge(right, with_kernel(args=args)).ok
    wrong = with_args(replace(ARGS[0], role="out"), replace(ARGS[1], role="in"), *ARGS[2:])
    problems = "\n".join(judge(wrong, with_kernel(args=args)).problems)
    assert "argument 1 (x): the kernel has it as read_write, the operator's tensor is only read" in problems
    oldest = replace(with_kernel(args=args), version=4)
    assert judge(wrong, oldest).ok, "hand-written metadata that call everything written say nothing"


def test_written_and_called_read_only_is_a_note() -> None:
    args = tuple(row._replace(access="read_only") for row in FACTS.kernels[0].args)
    report = judge(with_args(replace(ARGS[0], role="out"), *ARGS[1:]), with_kernel(args=args))
    assert report.ok and report.notes == ("its metadata call out read only, the operator writes it",)
