"""Every error of the pipeline: what failed, the value that was found, what to do, and the exit code of the command.

``build_tools/__main__.py`` is the one place that turns them into an exit. Codes 0 to 2 keep their usual meaning
(done, unforeseen, wrong usage). Each other code has one meaning, so that a CI job can tell a compile error from a missing tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from aiter_prebuilt.contract.error_text import DescribedError

if TYPE_CHECKING:
    from pathlib import Path

    from build_tools.records import AuditReport, CompileResult


class BuildToolsError(DescribedError):
    """Base of all errors here. ``asked``, ``found`` and ``fix`` are kept apart for programs; ``str()`` is a sentence or two.

    Each class has an exit code of its own (``tests/unit/test_pages.py`` compares them; ``docs/exit-codes.md`` lists them).
    """

    exit_code: ClassVar[int] = 1


class UsageError(BuildToolsError):
    """A command line that makes no sense: an unknown job, a filter that matches nothing, options that exclude each other."""

    exit_code = 2


class ManifestError(BuildToolsError):
    """The manifests break their grammar. ``problems`` holds every problem found, each with file and path."""

    exit_code = 3

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(
            "read the manifests",
            f"{count} problem{'s' if count != 1 else ''}",
            "Mend them and run the same command again; manifests/README.md is the grammar.",
        )

    def __str__(self) -> str:
        return "\n".join([*self.problems, super().__str__()])


class StaleFilesError(BuildToolsError):
    """Generated files are not what the manifests say."""

    exit_code = 14


class UnknownTargetError(BuildToolsError):
    """A target that ``manifests/targets.toml`` does not have."""

    exit_code = 4


class ToolchainError(BuildToolsError):
    """A compiler, library or Python package is missing, of another version, or not the bytes that are pinned."""

    exit_code = 5


class FetchError(BuildToolsError):
    """A source archive cannot be found, has another hash than its pin, or holds a member that must not be unpacked."""

    exit_code = 6


class JobFailedError(BuildToolsError):
    """One compile failed. ``command`` is what ran, ``status`` its exit status, ``log`` the tail of its output."""

    exit_code = 37

    def __init__(
        self, asked: str, found: str, fix: str, *, command: str = "", status: int = 1, log: str = ""
    ) -> None:
        super().__init__(asked, found, fix)
        self.command = command
        self.status = status
        self.log = log


class CompileFailedError(BuildToolsError):
    """Some compiles failed. ``results`` are those: command, exit status and the end of the output of each."""

    exit_code = 7

    def __init__(self, results: Sequence[CompileResult]) -> None:
        self.results = tuple(results)
        super().__init__(
            "compile the jobs of the plan",
            f"{len(self.results)} failed",
            "Mend the source named above and run the same command again; what compiled is kept in the store",
        )

    def __str__(self) -> str:
        return "\n".join([*(_one_failure(result) for result in self.results), super().__str__()])


def _one_failure(result: CompileResult) -> str:
    lines = [f"{result.job.id} ({result.job.source}):"]
    if result.command:
        lines.append(f"  command: {result.command}")
        lines.append(f"  exit status: {result.exit_code}")
    lines += [f"  {line}" for line in result.log.rstrip().splitlines()]
    return "\n".join(lines)


class StoreError(BuildToolsError):
    """The content store cannot be written."""

    exit_code = 8


class SharedStoreError(StoreError):
    """A shared store cannot be reached, or may not be written."""

    exit_code = 22


class UntrustedEntryError(BuildToolsError):
    """An entry of a shared store was changed after it was signed, or is that of another key."""

    exit_code = 23


class StoreConflictError(BuildToolsError):
    """A shared store has another result for a key than a compile just gave. One of the two is wrong, or was put there."""

    exit_code = 24


class RecheckError(BuildToolsError):
    """Results of the store were compiled again, and gave other bytes. ``lines``: each of them."""

    exit_code = 25

    def __init__(self, lines: Sequence[str], store: Path, seed: int) -> None:
        self.lines = tuple(lines)
        super().__init__(
            f"compile results of the store again (--seed {seed})",
            f"{len(self.lines)} of them are other bytes than {store} holds",
            "Trust nothing of that store: build with --store and an empty folder, and find out who wrote those entries",
        )

    def __str__(self) -> str:
        return "\n".join([*self.lines, super().__str__()])


class NotStoredError(BuildToolsError):
    """Nothing was to be compiled (``build --stored-only``), and results are missing from the store. ``jobs``: their names;
    ``damaged``: what is damaged where several machines share it.
    """

    exit_code = 21

    def __init__(self, jobs: Sequence[str], store: Path, damaged: str = "") -> None:
        self.jobs = tuple(jobs)
        lay = "Lay the stores of all shards over each other, made of the same sources and tools"
        super().__init__(
            "take every result from the store",
            f"{len(self.jobs)} of them are not in {store}" + (f"; {damaged}" if damaged else ""),
            ("Or build" if damaged else f"{lay}; or build") + " without --stored-only",
        )

    def __str__(self) -> str:
        return "\n".join([*(f"{name}: not in the store" for name in self.jobs), super().__str__()])


class CodeObjectError(BuildToolsError):
    """A file is not a code object this project can read."""

    exit_code = 9


class AuditError(BuildToolsError):
    """Code objects break rules of the audit. ``reports`` are those, with every broken rule of each."""

    exit_code = 10

    def __init__(self, reports: Sequence[AuditReport]) -> None:
        self.reports = tuple(reports)
        super().__init__(
            "audit the code objects",
            f"{len(self.reports)} break a rule",
            "Mend the kernel or its manifest; `python -m build_tools audit FILE` judges one file",
        )

    def __str__(self) -> str:
        lines = [f"{report.subject}: {problem}" for report in self.reports for problem in report.problems]
        return "\n".join([*lines, super().__str__()])


class BundleBuildError(BuildToolsError):
    """A bundle cannot be made from what was compiled: a job missing, two operators of one name, a field too large."""

    exit_code = 11


class WheelError(BuildToolsError):
    """A wheel cannot be made or would break a rule (two owners of a path, a size limit, a missing bundle)."""

    exit_code = 12


class SigningError(BuildToolsError):
    """A key cannot be used, or what is to be signed is no release."""

    exit_code = 33


class ReleaseError(BuildToolsError):
    """A step of a release that cannot be taken: a record that cannot be read, a release that is not what was signed, a channel
    that takes none such.
    """

    exit_code = 34


class SiteError(BuildToolsError):
    """The page cannot be written: a document is none of a verb's, or a vendored file is not the one that is pinned."""

    exit_code = 35


class MirrorError(BuildToolsError):
    """A mirror for a site without a network cannot be made, or would replace what was released."""

    exit_code = 36


class NotReadyError(BuildToolsError):
    """A proof needs something that is not there: the bundles of a target, the emulator, the native extension."""

    exit_code = 15


class BusyError(BuildToolsError):
    """Another process does the same in this checkout, and would overwrite what this one finds."""

    exit_code = 19


class ExecutorError(BuildToolsError):
    """The child that executes calls ended before it answered."""

    exit_code = 16


class ProofError(BuildToolsError):
    """Something that was executed is wrong, or no call reaches an entry. ``lines``: each of them, in words."""

    exit_code = 17

    def __init__(self, asked: str, found: str, fix: str, lines: Sequence[str] = ()) -> None:
        super().__init__(asked, found, fix)
        self.lines = tuple(lines)

    def __str__(self) -> str:
        return "\n".join([*self.lines, super().__str__()])


class UnprovedError(ProofError):
    """Wheels would hold entries that no device has executed."""

    exit_code = 18


class ShapesError(BuildToolsError):
    """Calls of models' steps have no entry (``shapes --strict``)."""

    exit_code = 20


class FarmError(BuildToolsError):
    """A build farm cannot do what it was asked for."""

    exit_code = 26


class OpenFarmError(FarmError):
    """Off the loopback a farm is reached through TLS only: who can send it work can run any program there."""

    exit_code = 27


class FarmUnreachableError(FarmError):
    """There is no scheduler at the address, or its certificate is not of the authority that this side trusts."""

    exit_code = 28


class FarmEmptyError(FarmError):
    """No worker is there that could do what is left."""

    exit_code = 29


class ToolsDifferError(FarmError):
    """A worker has other tools, or other code that calls them, than who leads the build."""

    exit_code = 30


class KeyDiffersError(FarmError):
    """A worker finds another content key for a job than who leads the build."""

    exit_code = 31


class InputMissingError(FarmError):
    """A file that a job reads is not in the shared store, or has other bytes there."""

    exit_code = 32


class WorkerLostError(JobFailedError):
    """The workers that a job was given to ended, one after the other, before it was done."""

    exit_code = 38


class MemoryClassError(JobFailedError):
    """The processes of a compile took more memory than its class has."""

    exit_code = 39
