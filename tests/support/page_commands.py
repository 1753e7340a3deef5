"""The commands that the pages print, sorted by where they can run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import pages  # noqa: E402

_BLOCK: Final = re.compile(r"^```([\w-]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Pages with blocks that are pictures or output, and how these lines begin.
NO_COMMANDS: Final = {
    "AGENTS.md": ("manifests/*.toml ->", "=====", "bundles (find, check) ->"),
    "docs/debugging.md": ("kernel add: illegal address", "kernel sum: LDS race"),
}
#: Words of commands of installed wheels that cannot run here, and why.
NOT_INSTALLED: Final = {
    "aiter-prebuilt bridge folder FOLDER": "needs AITER; tests/unit/test_bridge_folder.py",
    "aiter-prebuilt bridge status": "needs AITER; tests/unit/test_bridge_status.py",
    "aiter-prebuilt verify --release": "needs a signed release; tests/unit/test_release.py",
    "aiter-prebuilt verify --key": "needs signed bundles; tests/native/test_signed.py",
    "aiter-prebuilt certify": "executes for a minute; tests/emulator/test_certify.py",
    "aiter-prebuilt-emulator debug": "waits for a person; tests/emulator/test_debugger.py",
    "-- aiter-prebuilt verify --execute": "minutes; nox -s demo runs it",
    "-m aiter_prebuilt_emulator.torch": "needs torch; tests/emulator/test_page_programs.py",
    "pip install torch==": "needs an index; nox -s tests",
    "'aiter-prebuilt[gfx942,bridge-gfx942]'": "nox -s demo makes that wheel only beside torch",
}
#: Words of commands of a checkout that cannot run in a test, and why. The last words tell a test or session that runs them.
NOT_CHECKOUT: Final = {
    "build_tools build": "compiles for minutes; nox -s tests",
    "build_tools develop": "compiles; nox -s fuzz",
    "build_tools emulator": "compiles; nox -s tests",
    "build_tools wheels": "packs for minutes; nox -s tests",
    "build_tools prove": "executes for minutes; nox -s prove",
    "build_tools farm": "serves until it is ended; tests/build/test_farm_builds.py",
    "build_tools fetch": "needs the network; nox -s tests",
    "build_tools site": "takes minutes; nox -s site",
    "build_tools tune --by-model": "executes for minutes; tests/build/test_timing_calls.py",
    "build_tools tune-request misses.jsonl": "needs a log, writes into the checkout; tests/unit/test_tuned.py",
    "build_tools mirror build": "needs the network; nox -s airgap",
    "build_tools mirror deploy": "needs dist; tests/dist/test_offline.py",
    "build_tools update-pins --behind": "asks an index; tests/unit/test_locks.py",
    "build_tools update-pins ruff": "asks an index, changes the checkout; tests/unit/test_locks.py",
    "build_tools new-operator": "changes the checkout; tests/unit/test_scaffold.py",
    "--operator my_op": "an operator of the reader's; tests/unit/test_scaffold.py",
    "--root FOLDER": "a tree of the reader's; tests/emulator/test_own_tree.py",
    "build_tools receipts FILE": "needs a run on a GPU; tests/unit/test_receipts_file.py",
    "build_tools receipts certificate/certify.json": "needs a run on a GPU; tests/unit/test_certified.py",
    "build_tools release compatibility": "changes the checkout; tests/unit/test_compatibility.py",
    "build_tools release notes": "needs two releases; tests/unit/test_release_notes.py",
    "build_tools release promote": "needs a signed release; tests/unit/test_channels.py",
    "build_tools release record": "needs dist; tests/unit/test_release_notes.py",
    "build_tools release sign": "needs dist; tests/unit/test_release.py",
    "build_tools release yank": "needs a channel; tests/unit/test_channels.py",
    "build_tools same-runtime": "needs two wheels; tests/dist/test_two_builds.py",
    "build_tools audit build/bundles": "reads all bundles for a minute; tests/unit/test_audit.py",
    "build_tools generate   ": "changes the checkout; tests/unit/test_generated.py",
    "build_tools lint --operator rms_norm": "breaks references for a minute; nox -s lint",
    "build_tools cases": "computes references for minutes; tests/unit/test_case_calls.py",
    "build_tools report shapes": "binds every call for a minute; tests/unit/test_shapes.py",
    "build_tools receipts --operator": "needs all bundles; tests/unit/test_receipts_hold.py",
    "build_tools report status": "needs all bundles; tests/unit/test_ledger.py",
    "build_tools report coverage": "needs all bundles; tests/unit/test_coverage.py",
}
#: Beginnings of commands that are neither ours nor harmless, and why no test types them.
NOT_OURS: Final = {
    "python3 -m pip install": "changes the reader's Python",
    "python3 -m pip --isolated install": "needs a mirror; tests/dist/test_offline.py",
    "python3 -m nox": "a session takes minutes; CI runs each",
    "python3 -m venv": "needs the network; nox -s airgap",
    "pip install --no-deps --require-hashes": "needs the network; nox -s airgap",
    "export ": "sets variables of the reader's shell",
    "gh attestation verify": "needs GitHub and a published wheel",
    "curl http://127.0.0.1:8000/v1/": "needs the server of nox -s engines; tests/unit/test_engines.py has its client",
    "python ci/engine_calls.py": "needs the folder of a run of nox -s engines; tests/unit/test_engine_calls.py",
    "docker ": "needs a container engine; nox -s images",
    "sbatch ": "needs a Slurm cluster",
    "sha256sum -c SHA256SUMS": "needs a mirror; tests/dist/test_offline.py",
    ".ci/run": "runs all tests, this one too",
    "python ci/gpu_check.py": "needs a GPU",
    "vllm serve": "needs an AMD card",
    "python -m sglang.launch_server": "needs an AMD card",
    "pytest -p aiter_prebuilt_emulator.torch": "needs torch; tests/emulator/test_face.py",
    "python -m aiter_prebuilt_emulator.torch": "needs torch; tests/emulator/test_page_programs.py",
    "python serve.py": "a program of the reader's",
    "python prog.py": "a program of the reader's",
}
#: Programs whose certificates and keys a test may make in an empty folder.
HARMLESS: Final = ("openssl",)
PROGRAMS: Final = ("aiter-prebuilt", "aiter-prebuilt-emulator", "pip")
CHECKOUT: Final = "python -m build_tools "


@dataclass(frozen=True)
class PageBlock:
    """A block of code of a page. ``language`` is empty for commands."""

    page: str
    language: str
    text: str


def blocks() -> Iterator[PageBlock]:
    """Yield every block of every page that people or the parsers wrote; pages of the API have signatures alone."""
    for name in pages.pages((*pages.MEASURED, *pages.LINKED)):
        if not name.startswith("docs/api"):
            for language, text in _BLOCK.findall((ROOT / name).read_text(encoding="utf-8")):
                yield PageBlock(name, language, text)


def commands() -> dict[str, str]:
    """Return each command of a page, lines that a backslash joins as one, with the page that has it first."""
    found: dict[str, str] = {}
    for block in blocks():
        for line in joined(block.text) if not block.language else ():
            if line.strip() and not line.startswith(NO_COMMANDS.get(block.page, ("\0",))):
                found.setdefault(line.strip(), block.page)
    return found


def joined(text: str) -> list[str]:
    """Split a text into lines. A backslash at the end of one joins the next."""
    return re.sub(r"\\\n\s*", "", text).splitlines()


def without_comment(line: str) -> str:
    """Return the command of a line."""
    return re.sub(r"\s+#.*", "", line).strip()


def program_of(words: str) -> str:
    """Return the first word that sets no variable."""
    return next((word for word in words.split() if not re.match(r"[A-Z_]+=", word)), "")


def without_variables(words: str) -> str:
    """Return a command without the variables that it sets."""
    return re.sub(r"^(?:[A-Z_]+=\S+ )+", "", words)


def reason(line: str) -> str | None:
    """Return why a command cannot run here; None if it can."""
    words = without_variables(line)
    table = NOT_CHECKOUT if CHECKOUT in words else NOT_INSTALLED if program_of(words) in PROGRAMS else {}
    for part, why in table.items():
        if part in f"{words} ":
            return why
    return next((why for start, why in NOT_OURS.items() if words.startswith(start)), None)


def place(line: str) -> str:
    """Return where a command runs: "installed", "checkout", "anywhere" or ""."""
    words = without_variables(line)
    if words.startswith(CHECKOUT):
        return "checkout"
    if program_of(words) in PROGRAMS:
        return "installed"
    return "anywhere" if program_of(words) in HARMLESS else ""


def runnable(where: str) -> Iterator[tuple[str, str]]:
    """Yield each command that can run in a place, without its comment, with its page."""
    for line, page in commands().items():
        if reason(line) is None and place(line) == where:
            yield without_comment(line), page
