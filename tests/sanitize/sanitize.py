"""``nox -s sanitize``: the native parts under ThreadSanitizer, then under AddressSanitizer and UndefinedBehaviorSanitizer.

    python tests/sanitize/sanitize.py [thread] [address,undefined]

zig's clang instruments ``csrc/runtime`` and ``csrc/emulator``; it has no runtimes that a process could preload, so those of
the system's compiler are used (Debian and Ubuntu: ``gcc`` brings them). For each kind: 32 threads that use kernels for
the first time (``tests/promises/storm.py``), then a part of the tests. Exit status 1 when a sanitizer reported anything.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
BUILD: Final = ROOT / "build" / "sanitize"
#: Kind to the libraries that are preloaded, which hold what the instrumentation calls.
RUNTIMES: Final = {"thread": ("libtsan.so",), "address,undefined": ("libasan.so", "libubsan.so")}
#: What a sanitizer's report begins with.
REPORTS: Final = (
    "WARNING: ThreadSanitizer",
    "ERROR: AddressSanitizer",
    "runtime error:",
    "ERROR: ThreadSanitizer",
)
TESTS: Final = (
    "tests/native/test_process.py", "tests/native/test_memo.py", "tests/native/test_launch.py", "tests/native/test_damage.py",
    "tests/native/test_border.py", "tests/native/test_dlpack_damage.py", "tests/native/test_overlap.py",
    "tests/native/test_interrupts.py", "tests/native/test_changed_bundle.py", "tests/native/test_block_limits.py",
    "tests/native/test_select.py", "tests/native/test_user_tables.py", "tests/native/test_expressions.py",
    "tests/emulator/test_streams.py", "tests/emulator/test_capture.py", "tests/emulator/test_graphs.py",
    "tests/emulator/test_hip_memory.py", "tests/emulator/test_hip_modules.py", "tests/emulator/test_scheduling.py",
    "tests/emulator/test_shared_memory.py", "tests/emulator/test_shared_handles.py", "tests/emulator/test_shared_flags.py",
    "tests/emulator/test_loader_limits.py", "tests/emulator/test_bad_input.py", "tests/emulator/test_interrupt.py",
    "tests/emulator/test_forward_progress.py", "tests/emulator/test_levels.py",
)  # fmt: skip
#: Tests that measure what the process holds: AddressSanitizer keeps freed memory to find who uses it.
LEFT_OUT: Final = {
    "address,undefined": ("tests/native/test_process.py::test_dictionaries_of_code_objects_do_not_pile_up",)
}


class SanitizeError(Exception):
    """Something is missing or wrong; the text says what to do."""


def runtimes(kind: str) -> list[str]:
    """The shared runtimes of the system's compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SanitizeError("no gcc: its sanitizer runtimes are needed; run: apt-get install gcc")
    found = []
    for name in RUNTIMES[kind]:
        path = subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(path).is_file():
            raise SanitizeError(f"{compiler} has no {name}; run: apt-get install gcc")
        found.append(os.path.realpath(path))
    return found


def build(kind: str, part: str, source: Path, *more: str) -> Path:
    """Configure and build one part; returns its folder."""
    if importlib.util.find_spec("ziglang") is None:
        raise SanitizeError("the package ziglang is not installed; run: python -m nox -s sanitize")
    folder = BUILD / kind.replace(",", "-") / part
    zig = f"{sys.executable};-m;ziglang"
    host = "-target;x86_64-linux-gnu.2.28"
    configure = [
        "cmake", "-G", "Ninja", "-S", str(source), "-B", str(folder), "-DCMAKE_BUILD_TYPE=None",
        f"-DCMAKE_C_COMPILER={zig};cc;{host}", f"-DCMAKE_CXX_COMPILER={zig};c++;{host}",
        f"-DCMAKE_PROJECT_INCLUDE={HERE / 'sanitize.cmake'}", f"-DAPB_SANITIZE={kind}",
        f"-DPython3_EXECUTABLE={sys.executable}", *more,
    ]  # fmt: skip
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    }
    for command in (configure, ["cmake", "--build", str(folder)]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SanitizeError(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return folder


def tree(kind: str, sources: list[str]) -> Path:
    """The packages as they are installed, with the instrumented libraries."""
    native = build(kind, "native", ROOT, *sources)
    emulator = build(kind, "emulator", ROOT / "csrc" / "emulator")
    root = BUILD / kind.replace(",", "-") / "tree"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("aiter_prebuilt", "aiter_prebuilt_emulator"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / "src" / name, root / name, ignore=ignored)
    (root / "aiter_prebuilt_emulator" / "lib").mkdir(exist_ok=True)
    shutil.copy(native / "_native.abi3.so", root / "aiter_prebuilt")
    shutil.copy(emulator / "libamdhip64.so", root / "aiter_prebuilt_emulator" / "lib")
    return root


def bundles() -> str:
    """The bundles that a session built, as ``AITER_PREBUILT_BUNDLES`` takes them."""
    folder = ROOT / "build" / "bundles"
    files = [folder / f"{target}-ck-free.apb" for target in ("gfx942", "gfx950")]
    if all(file.is_file() for file in files):
        return os.pathsep.join(map(str, files))
    raise SanitizeError("no bundles; run: python -m build_tools build")


def run(kind: str, root: Path, words: Sequence[str], **more: str) -> list[str]:
    """Run this interpreter with the runtimes preloaded; what went wrong."""
    name = words[1] if words[0] == "-m" else Path(words[0]).stem
    library = root / "aiter_prebuilt_emulator" / "lib" / "libamdhip64.so"
    logs = root / "reports"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    common = f"log_path={logs / 'report'}:exitcode=66"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT")}
    environment = kept | more | {
        "LD_PRELOAD": " ".join(runtimes(kind)),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Python's own allocator would hide what it hands out from AddressSanitizer.
        "PYTHONMALLOC": "malloc",
        "AITER_PREBUILT_EMULATOR_THREADS": "4",
        "AITER_PREBUILT_EMULATOR_LIBRARY": str(library),
        "AITER_PREBUILT_NATIVE": str(root / "aiter_prebuilt" / "_native.abi3.so"),
        "TSAN_OPTIONS": f"{common}:suppressions={HERE / 'sanitize.supp'}:history_size=4:die_after_fork=0",
        "ASAN_OPTIONS": f"{common}:detect_leaks=0:use_sigaltstack=0:handle_segv=1:verify_asan_link_order=0",
        "UBSAN_OPTIONS": f"{common}:print_stacktrace=1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    text = (
        done.stdout
        + done.stderr
        + "".join(path.read_text(errors="replace") for path in sorted(logs.iterdir()))
    )
    found = [line for line in text.splitlines() if any(mark in line for mark in (*REPORTS, "SUMMARY: "))]
    if done.returncode or found:
        output = root / f"{name}.txt"
        output.write_text(text)
        return [f"{kind}: {name} ended with {done.returncode}, see {output}", *found[:20]]
    print(f"{kind}: {name}: {done.stdout.strip().splitlines()[-1]}", flush=True)
    return []


def check(kind: str, sources: list[str]) -> list[str]:
    """Build and run one kind; what went wrong."""
    root = tree(kind, sources)
    storm = {
        "PYTHONPATH": str(root),
        "AITER_PREBUILT_HIP": str(root / "aiter_prebuilt_emulator" / "lib" / "libamdhip64.so"),
        "AITER_PREBUILT_EMULATOR": "gfx942,gfx950",
        "AITER_PREBUILT_BUNDLES": bundles(),
    }
    wrong = run(kind, root, [str(ROOT / "tests" / "promises" / "storm.py"), "32", "2"], **storm)
    path = os.pathsep.join(map(str, (root, ROOT, ROOT / "tests")))
    words = ["-m", "pytest", "-q", "--maxfail=5", "-p", "no:cacheprovider", *TESTS]
    for name in LEFT_OUT.get(kind, ()):
        words += ["--deselect", name]
    return wrong + run(kind, root, words, PYTHONPATH=path)


def main(words: list[str]) -> int:
    """See the module's docstring."""
    kinds = words or list(RUNTIMES)
    unknown = [kind for kind in kinds if kind not in RUNTIMES]
    if unknown:
        print(f"{unknown[0]!r} is not one of {', '.join(RUNTIMES)}", file=sys.stderr)
        return 2
    try:
        fetched = [sys.executable, "-m", "build_tools", "fetch", "zstd", "dlpack"]
        told = subprocess.run(fetched, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        zstd, dlpack = told.splitlines()[-2:]
        sources = [f"-DAPB_ZSTD_SOURCE={zstd}", f"-DAPB_DLPACK_INCLUDE={dlpack}"]
        wrong = [problem for kind in kinds for problem in check(kind, sources)]
    except SanitizeError as error:
        wrong = [str(error)]
    print("\n".join(wrong) or f"no report: {'; '.join(kinds)}", file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
