"""``nox -s lint`` for C++: both parts are formatted as ``.clang-format`` says, and clang-tidy (``.clang-tidy``) finds nothing.

    python ci/cpp_lint.py [--fix] [--jobs N] [FILE...]

cmake says how each file is compiled (the same flags as for the wheels), zig which headers belong to its compiler, and
clang-tidy reads with both. Nothing of the system is read. ``--fix`` formats, and applies what clang-tidy can mend itself.
A header has no compile of its own: it is read with the sources that include it.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from build_tools.errors import BuildToolsError
from build_tools.tools import pins
from build_tools.tools.fetch import native_sources
from build_tools.tools.host import environment_of

BUILD: Final = ROOT / "build" / "cpp-lint"
PARTS: Final = ("runtime", "emulator")
#: What is generated is laid out by its generator.
GENERATED: Final = frozenset(("bundle_layout.h",))
#: What clang-tidy's own driver would look up by itself, and must not: the headers are those of the compiler that builds.
HERMETIC: Final = (
    "-nostdinc",
    "-nostdinc++",
    "-Wno-unknown-warning-option",
    "-Wno-unused-command-line-argument",
)


class LintError(Exception):
    """A tool is missing or could not run; the text says what to do."""


def tool(name: str) -> Path:
    """Return the path of a program of this environment."""
    path = Path(sys.executable).parent / name
    if not path.is_file():
        raise LintError(f"no {name} beside {sys.executable}; run: python -m nox -s lint")
    return path


def sources() -> list[Path]:
    """Every C++ file of both parts that people write."""
    return sorted(
        path
        for part in PARTS
        for path in (ROOT / "csrc" / part).rglob("*")
        if path.suffix in (".cpp", ".h") and path.name not in GENERATED
    )


def format_files(files: list[Path], fix: bool) -> bool:
    """Check or fix the format of files; True when all are formatted."""
    print(f"clang-format: {len(files)} files", flush=True)
    mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    return subprocess.run([tool("clang-format"), *mode, *files], cwd=ROOT, check=False).returncode == 0


def run(command: list[str | Path], environment: dict[str, str]) -> str:
    """Run a child that must end well, and return its output."""
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LintError(f"{shlex.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def compiler_headers(environment: dict[str, str]) -> list[str]:
    """Include folders and macros that zig's driver adds to every compile, as arguments of another clang 22."""
    text = run([environment["CXX"], "-E", "-v", "-x", "c++", "-march=x86_64_v3", os.devnull], environment)
    line = next((line for line in text.splitlines() if " -cc1 " in line), "")
    words = shlex.split(line)
    pairs = list(itertools.pairwise(words))
    # zig says a place relative to here when it was itself found so; clang-tidy runs elsewhere.
    found = [f"-isystem{Path(place).absolute()}" for word, place in pairs if word == "-isystem"]
    found += [f"-D{macro}" for word, macro in pairs if word == "-D"]
    if not found:
        raise LintError(f"{environment['CXX']} -v does not say where its headers are:\n{text[-2000:]}")
    return [*HERMETIC, *found]


def compile_commands(environment: dict[str, str]) -> dict[Path, list[str]]:
    """For each source how cmake compiles it, compiler and all; the decoder's generated tables are made first."""
    sources = [f"-D{setting}={place}" for setting, place in native_sources(ROOT).items()]
    common = [
        "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        # Nothing is compiled here; and so each file is read with what it includes itself.
        "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
    ]  # fmt: skip
    generated = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    runtime, emulator = (BUILD / part for part in PARTS)
    run(["cmake", *common, "-S", ROOT, "-B", runtime, *sources], environment)
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    run(["cmake", *common, "-S", ROOT / "csrc" / "emulator", "-B", emulator, python], generated)
    run(["cmake", "--build", emulator, "--target", "tables/tables.inc"], generated)
    return {
        path: shlex.split(entry["command"])
        for folder in (runtime, emulator)
        for entry in json.loads((folder / "compile_commands.json").read_text())
        if (path := Path(entry["file"])).is_relative_to(ROOT / "csrc")
    }


def tidy(files: list[Path], fix: bool, jobs: int) -> bool:
    """Run clang-tidy on files; True when it finds nothing.

    It reads the headers that they include, too.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise LintError("the package ziglang is not installed; run: python -m nox -s lint")
    environment = environment_of(pins.load(ROOT))
    headers = compiler_headers(environment)
    commands = compile_commands(environment)
    seen: set[str] = set()
    lock = threading.Lock()

    def one(path: Path) -> bool:
        flags = [word for word in commands[path][1:] if word not in ("-c", "-o", str(path))]
        flags = [word.replace("x86_64_v", "x86-64-v") for word in flags if not word.endswith(".cpp.o")]
        options = ["--quiet", *(["--fix", "--format-style=file"] if fix else [])]
        command: list[str | Path] = [tool("clang-tidy"), *options, path, "--", *headers, *flags]
        done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
        with lock:  # a header's finding comes with every file that includes it
            for finding in done.stdout.split("\n/"):
                if finding.strip() and finding not in seen:
                    seen.add(finding)
                    print(finding if finding.startswith("/") else f"/{finding}", flush=True)
            if done.returncode and not done.stdout.strip():
                print(f"{path}: {done.stderr[-2000:]}")
        return done.returncode == 0

    chosen = [path for path in files if path in commands]
    print(f"clang-tidy: {len(chosen)} sources with the headers they include, {jobs} at a time", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        return all(list(pool.map(one, chosen)))


def main() -> int:
    """Run the command of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python ci/cpp_lint.py")
    parser.add_argument("--fix", action="store_true", help="mend what the tools can mend")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="sources at a time")
    parser.add_argument(
        "files", type=Path, nargs="*", help="these only; default: all of csrc/runtime and csrc/emulator"
    )
    options = parser.parse_args()
    files = [file.resolve() for file in options.files] or sources()
    try:
        # Formatting last: what clang-tidy mends is not laid out. Two threads that mend the same header would spoil it.
        tidied = tidy(files, options.fix, 1 if options.fix else max(1, options.jobs))
        formatted = format_files(files, options.fix)
    except (LintError, BuildToolsError) as error:
        print(error, file=sys.stderr)
        return 2
    if tidied and formatted:
        print("C++: nothing found")
        return 0
    wrong = " and ".join(
        name for name, good in (("clang-tidy", tidied), ("clang-format", formatted)) if not good
    )
    print(
        f"C++: {wrong} found what stands above. `python ci/cpp_lint.py --fix [FILE...]` mends what the tools can mend; mend "
        "the rest by hand, or say in .clang-tidy why a check is off",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
