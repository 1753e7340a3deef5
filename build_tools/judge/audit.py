"""Judge code objects: against the job that asked for them, and on their own. Judges, never edits; every broken rule is a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.elf import PADDING
from aiter_prebuilt.contract.structs import fields_of
from build_tools.errors import CodeObjectError
from build_tools.objects import codeobject, subdword_access
from build_tools.records import (
    ArgFacts,
    AuditReport,
    CodeObjectFacts,
    CompileJob,
    CompileResult,
    KernelArg,
    KernelFacts,
)

#: Code object versions that every supported ROCm loads, and the emulator.
VERSIONS: Final = (4, 5, 6)
_OLDEST: Final = VERSIONS[0]
#: Bytes from which on a text in megabytes of machine code is no accident.
CHANCE: Final = 6
_VALUE_KINDS: Final = {
    "ptr": ("global_buffer", "by_value"), "u8": ("by_value",), "i32": ("by_value",), "i64": ("by_value",), "f32": ("by_value",),
    "f64": ("by_value",),
}  # fmt: skip
_WRITES: Final = ("write_only", "read_write")
#: Arguments that HIP's runtime fills in when a kernel is launched through its module API.
_FILLED_IN: Final = frozenset({
    "hidden_block_count_x", "hidden_block_count_y", "hidden_block_count_z", "hidden_group_size_x", "hidden_group_size_y",
    "hidden_group_size_z", "hidden_remainder_x", "hidden_remainder_y", "hidden_remainder_z", "hidden_global_offset_x",
    "hidden_global_offset_y", "hidden_global_offset_z", "hidden_grid_dims", "hidden_dynamic_lds_size", "hidden_none",
})  # fmt: skip


def judge(
    result: CompileResult, facts: CodeObjectFacts, forbidden_symbols: Sequence[str] = ()
) -> AuditReport:
    """Judge a job's code object.

    ``forbidden_symbols``: texts that may stand nowhere in the file.
    """
    job = result.job
    problems = list(_general(facts))
    notes: list[str] = []
    if facts.target != job.target.name:
        problems.append(f"the code object is for {facts.target}, the job for {job.target.name}")
    kernel = next((kernel for kernel in facts.kernels if kernel.symbol == result.symbol), None)
    if kernel is None:
        names = ", ".join(kernel.symbol for kernel in facts.kernels) or "none"
        problems.append(f"the kernel {result.symbol!r} is not in the code object (kernels: {names})")
    else:
        problems += _arguments(job, kernel, facts)
        problems += _limits(job, kernel, _number(result.extra.get("lds")), result.threads)
        notes += [*_notes(kernel), *_access(job, kernel)]
    if result.path is not None:
        data = result.path.read_bytes()
        problems += forbidden(data, facts.symbols, forbidden_symbols)
        notes += subdword_access.said(data)
    return AuditReport(job.id, facts, tuple(problems), tuple(notes))


def _number(text: str | None) -> int:
    return int(text) if text else 0


def _general(facts: CodeObjectFacts) -> Iterable[str]:
    """Rules that need no job."""
    if not facts.kernels:
        yield "it has no kernel"
    if facts.vendor == "amd":
        if facts.version not in VERSIONS:
            yield f"code object version {facts.version or 'unknown'} is not one of {', '.join(map(str, VERSIONS))}"
        for feature in facts.features:
            # A code object that insists on a feature fails to load where the feature is set the other way.
            yield f"it is only for devices with {feature}; compile without the feature in the target's name"
    for kernel in facts.kernels:
        if facts.vendor == "amd" and f"{kernel.symbol}.kd" not in facts.symbols:
            yield f"kernel {kernel.symbol} has no descriptor ({kernel.symbol}.kd)"
        if kernel.uses_dynamic_stack:
            yield f"kernel {kernel.symbol} uses a dynamic stack (recursion or indirect calls), whose size nobody knows at launch"
        for name in sorted(set(kernel.hidden) - _FILLED_IN):
            yield f"kernel {kernel.symbol} needs {name}, which only the full HIP runtime provides"


def _arguments(job: CompileJob, kernel: KernelFacts, facts: CodeObjectFacts) -> Iterable[str]:
    if facts.vendor == "amd" and not kernel.args and job.args:
        if kernel.kernarg_size != job.kernarg_size:
            yield f"it lists no arguments and takes {kernel.kernarg_size} bytes, the job passes {job.kernarg_size}"
        return
    actual = {part.offset: part for arg in kernel.args for part in _fields(arg, job.args)}
    # Only AITER's oldest assembly is of version 4, and calls every pointer read and written; who executes looks at what was.
    says_access = facts.version != _OLDEST
    for place, arg in enumerate(job.args):
        yield from _argument(place, arg, _whole(arg, actual.pop(arg.offset, None), actual), says_access)
    for left in actual.values():
        # Assemblers list the bytes between arguments as arguments of their own; nothing reads those.
        if not _is_padding(left):
            name = f" ({left.name})" if left.name else ""
            yield f"the kernel takes {left.size} bytes at {left.offset}{name} as {left.kind}, the job passes nothing there"
    end = max((arg.offset + arg.size for arg in kernel.args), default=0)
    if job.kernarg_size < end:
        yield f"the kernel reads {end} bytes of arguments, the job passes {job.kernarg_size}"
    if (
        not kernel.hidden
        and kernel.kernarg_size > job.kernarg_size + -job.kernarg_size % kernel.kernarg_align
    ):
        yield f"the kernel's argument segment has {kernel.kernarg_size} bytes, the job passes {job.kernarg_size}"


def _fields(arg: ArgFacts, passed: Sequence[KernelArg]) -> tuple[ArgFacts, ...]:
    """Return the fields of a struct that is taken by value.

    Where the job does not pass them, it is the argument itself.
    """
    if arg.kind != "by_value" or _is_padding(arg):
        return (arg,)
    fields = fields_of((arg.offset, arg.size), [(each.offset, each.size) for each in passed])
    return tuple(arg._replace(offset=offset, size=size) for offset, size in fields) or (arg,)


def _is_padding(arg: ArgFacts) -> bool:
    return arg.kind == "by_value" and PADDING.fullmatch(arg.name) is not None


def _whole(arg: KernelArg, found: ArgFacts | None, others: Mapping[int, ArgFacts]) -> ArgFacts | None:
    """Return the kernel's argument.

    Some of AITER's objects list a pointer as its lower half, and padding where its upper one lies.
    """
    if found is None or arg.kind != "ptr" or (found.kind, found.size) != ("by_value", 4):
        return found
    upper = others.get(found.offset + 4)
    halves = upper is not None and upper.size == 4 and _is_padding(upper)
    return found._replace(size=8) if halves else found


def _argument(place: int, arg: KernelArg, actual: ArgFacts | None, says_access: bool) -> Iterable[str]:
    told = f"argument {place} ({arg.name})"
    if actual is None:
        yield f"{told}: the job passes {arg.size} bytes at {arg.offset}, the kernel has no argument there"
    elif actual.size != arg.size:
        yield f"{told}: the kernel has {actual.size} bytes at {actual.offset}, the job {arg.size} bytes"
    elif actual.kind not in _VALUE_KINDS[arg.kind]:
        yield f"{told}: the kernel takes it as {actual.kind}, the job passes a {arg.kind}"
    elif arg.role == "in" and says_access and actual.access in _WRITES:
        yield f"{told}: the kernel has it as {actual.access}, the operator's tensor is only read"


def _limits(job: CompileJob, kernel: KernelFacts, dynamic_lds: int, threads: int) -> Iterable[str]:
    target = job.target
    lds = kernel.lds_static + dynamic_lds
    if lds > target.lds_bytes:
        yield f"it needs {lds} bytes of LDS, {target.name} has {target.lds_bytes}"
    if kernel.wave != target.wave:
        yield f"it is compiled for waves of {kernel.wave}, {target.name} has {target.wave}"
    block = threads or job.block[0] * job.block[1] * job.block[2]
    if kernel.max_threads and block > kernel.max_threads:
        yield f"the block has {block} threads, the kernel is compiled for at most {kernel.max_threads}"
    if target.vendor == "amd" and max(kernel.vgprs, kernel.agprs) > target.vgprs:
        yield f"it needs {max(kernel.vgprs, kernel.agprs)} registers a lane, {target.name} has {target.vgprs}"


def _notes(kernel: KernelFacts) -> Iterable[str]:
    if kernel.sgpr_spills or kernel.vgpr_spills:
        yield f"spills: {kernel.vgpr_spills} VGPR, {kernel.sgpr_spills} SGPR"
    if kernel.scratch:
        yield f"scratch: {kernel.scratch} bytes a lane"
    if kernel.hidden:
        yield f"hidden arguments that the driver fills in: {', '.join(kernel.hidden)}"


def _access(job: CompileJob, kernel: KernelFacts) -> Iterable[str]:
    """Note written tensors that the metadata call read only.

    Nothing depends on it, and AITER ships such objects.
    """
    read = {arg.offset for arg in kernel.args if arg.access == "read_only"}
    for arg in job.args:
        if arg.role in ("out", "inout") and arg.offset in read:
            yield f"its metadata call {arg.name} read only, the operator writes it"


def forbidden(data: bytes, symbols: Iterable[str], words: Sequence[str]) -> list[str]:
    """One line per forbidden text, in a symbol or anywhere else in the file (names live in string tables and in notes too).

    A short word is looked for in symbols, string tables and notes only: any four bytes turn up in machine code by chance.
    """
    problems = []
    texts = codeobject.texts(data) if any(len(word) < CHANCE for word in words) else b""
    for word in words:
        symbol = next((symbol for symbol in symbols if word in symbol), None)
        if symbol is not None:
            problems.append(f"symbol {symbol!r} holds {word!r}, which this profile forbids")
        elif word.encode() in (texts if len(word) < CHANCE else data):
            problems.append(f"the file holds the text {word!r}, which this profile forbids")
    return problems


def audit_files(paths: Iterable[Path]) -> tuple[AuditReport, ...]:
    """Judge files on their own: code objects, and bundles (``.apb``), of which each entry is judged."""
    reports: list[AuditReport] = []
    for path in paths:
        reports += _bundle(path) if path.suffix == ".apb" else [_file(str(path), path)]
    return tuple(reports)


def _file(subject: str, path: Path) -> AuditReport:
    try:
        data = path.read_bytes()
    except OSError as error:
        return AuditReport(subject, None, (f"cannot be read: {error.strerror}",))
    return judge_bytes(subject, data)


def judge_bytes(subject: str, data: bytes) -> AuditReport:
    """Judge one code object without a job."""
    try:
        facts = codeobject.read(data)
    except CodeObjectError as error:
        return AuditReport(subject, None, (f"{error.found}. {error.fix}",))
    notes = [f"{kernel.symbol}: {note}" for kernel in facts.kernels for note in _notes(kernel)]
    notes += subdword_access.said(data)
    return AuditReport(subject, facts, tuple(_general(facts)), tuple(notes))


def _bundle(path: Path) -> list[AuditReport]:
    from aiter_prebuilt.contract.bundle import FormatError
    from build_tools.objects.unpack import open_bundle  # here: judging single files needs no zstd

    reports = []
    try:
        bundle = open_bundle(path)
        for name in bundle.names:
            for entry in bundle.operator(name).entries:
                report = judge_bytes(f"{path.name}: {entry.name}", bundle.code_object(entry))
                reports.append(_agrees(report, bundle.root.target))
    except (OSError, FormatError) as error:
        reports.append(AuditReport(str(path), None, (str(error),)))
    return reports


def _agrees(report: AuditReport, target: str) -> AuditReport:
    if report.facts is None or report.facts.target == target:
        return report
    problem = f"it is for {report.facts.target}, its bundle for {target}"
    return AuditReport(report.subject, report.facts, (*report.problems, problem), report.notes)
