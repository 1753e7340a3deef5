"""HIP sources of a source tree (``aiter:csrc/kernels/...``), compiled as they are: one object with all kernels of the file.

Only the device's side is compiled. Host code is parsed, since its launches say which instances of a kernel there are; what it
uses of torch and others is declared by headers of our own (``csrc/stand_in``). No file of Composable Kernel is read: the
compiler's own list of what it read says so, or there is no code object. A job names its kernel as people read it, or by the
mangled symbol.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from build_tools.compile.backends.built import Built, built, failure
from build_tools.errors import CodeObjectError, FetchError, JobFailedError
from build_tools.files.run import run
from build_tools.objects import codeobject
from build_tools.objects.demangle import kernel_name
from build_tools.records import CompileJob, in_tree
from build_tools.tools import tree
from build_tools.tools.clang import DEVICE_FLAGS
from build_tools.tools.hermetic import control_constants
from build_tools.tools.toolchain import Toolchain

STAND_IN: Final = "csrc/stand_in"
#: Where a tree keeps its own headers, below its root ``csrc``.
_INCLUDE: Final = ("include", "include/ck_tile")
_INCLUDED: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
#: Folders in which Composable Kernel's own files lie, wherever they come from.
_CK: Final = frozenset(("ck", "ck_tile", "ck_helper", "composable_kernel"))
#: AITER's later trees then include ck_tile by its name, which means a header of ours; else they bring a copy of a part of it,
#: with a kernel in it. The pinned tree has no such word.
_CK_NAMES: Final = ("-DENABLE_CK=1",)
#: How AITER compiles them, but for what the house settles for all its kernels; their warnings are not ours to mend.
_FLAGS: Final = (
    "-DNDEBUG", "-DUSE_ROCM", *_CK_NAMES, "-w", "-Wno-missing-template-arg-list-after-template-kw", "-Wno-invalid-constexpr",
    "-fno-strict-aliasing",
    *(word for option in (
        "--amdgpu-kernarg-preload-count=16", "--lsr-drop-solution=1", "-enable-post-misched=0", "-amdgpu-early-inline-all=true",
        "-amdgpu-function-calls=false",
    ) for word in ("-mllvm", option)),
)  # fmt: skip
#: 4-bit floats are the later target's.
_OF_TARGET: Final = {"gfx950": ("-D__Float4_e2m1fn_x2", "-DTORCH_Float4_e2m1fn_x2")}
_NEAR: Final = 5
_FP8: Final = re.compile(r"\bfp8\b")


def expand(source: str, root: Path) -> tuple[str, ...]:
    """List the source and every header that it may include.

    Headers of the tree and ours: the source first, then sorted.

    Raises:
        JobFailedError: the tree has no such file.
    """
    try:
        first = tree.located(source, root).read_text(encoding="utf-8", errors="replace")
    except (OSError, FetchError) as error:
        raise JobFailedError(f"compile {source}", str(error), "Correct source in the manifest") from error
    found = {source: first}
    waiting = [source]
    while waiting:
        name = waiting.pop()
        for included in _included(name, found[name], source, root):
            if included not in found:
                found[included] = tree.located(included, root).read_text(encoding="utf-8", errors="replace")
                waiting.append(included)
    return (source, *sorted(found.keys() - {source}))


def _included(name: str, text: str, source: str, root: Path) -> Iterator[str]:
    """Yield the files that ``#include`` lines mean.

    They are in the order in which the compiler looks.
    """
    base = _base(source)
    for mark, words in _INCLUDED.findall(text):
        places = [STAND_IN, *(f"{base}/{folder}" for folder in _INCLUDE)]
        if mark == '"':
            places.insert(0, str(PurePosixPath(name).parent))
        for place in places:
            candidate = _plain(f"{place}/{words}")
            if candidate is not None and tree.exists(candidate, root):
                yield candidate
                break


def _base(source: str) -> str:
    """``aiter:csrc`` of ``aiter:csrc/kernels/...``."""
    return source.partition("/")[0]


def _plain(name: str) -> str | None:
    """``name`` without ``..``; None when it leaves its root."""
    head, colon, rest = name.rpartition(":")
    parts: list[str] = []
    for part in rest.split("/"):
        if part == ".." and (not parts or (colon and len(parts) == 1)):
            return None
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return f"{head}{colon}{'/'.join(parts)}"


def compile_tree(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile the file of ``job`` into ``workdir``; ``extra`` of the result names the files that were read.

    Raises:
        JobFailedError: the compile failed, read what it must not, or gave no such kernel.
    """
    places = {name: tree.located(name, root).resolve() for name in job.inputs}
    below = places[job.source].parents[len(PurePosixPath(job.source).parts) - 2]
    listed = workdir / "read.d"
    command = _command(job, toolchain, root, below, listed)
    outcome = run([*command, "-o", workdir / "out.co"], cwd=below, env=toolchain.clang.env)
    if not outcome.ok:
        raise failure(job, outcome)
    known = {path: name for name, path in places.items()}
    read = sorted(_read(listed.read_text(encoding="utf-8"), below))
    names = judged(job, read, known, (below, root.resolve() / "csrc"))
    return named(job, workdir / "out.co", 0, {"read": json.dumps(names, separators=(",", ":"))})


def _command(job: CompileJob, toolchain: Toolchain, root: Path, below: Path, listed: Path) -> list[str]:
    clang = toolchain.clang
    libraries = list(clang.libraries)
    if libraries:
        libraries.append(control_constants(clang, job.target, toolchain.cache))
    ours = root.resolve() / STAND_IN
    return [
        *clang.driver, *DEVICE_FLAGS, *_FLAGS, *_OF_TARGET.get(job.target.name, ()), f"--offload-arch={job.target.name}",
        "-I", str(ours), *(word for folder in _INCLUDE for word in ("-I", folder)),
        *clang.hip_flags, *(("-include", "__clang_hip_runtime_wrapper.h") if clang.libraries else ()),
        *(word for path in libraries for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))),
        # Every file that is read, those of the system too.
        *(word for part in ("-dependency-file", str(listed), "-MT", "read", "-sys-header-deps") for word in ("-Xclang", part)),
        f"-ffile-prefix-map={below}=.", f"-ffile-prefix-map={ours}=stand_in",
        str(PurePosixPath(*PurePosixPath(job.source).parts[1:])),
    ]  # fmt: skip


def _read(rule: str, folder: Path) -> Iterator[Path]:
    """Yield the files of a make rule, as paths."""
    words = re.findall(r"(?:\\ |\S)+", rule.partition(":")[2].replace("\\\n", " "))
    for word in words:
        yield (folder / word.replace("\\ ", " ")).resolve()


def judged(
    job: CompileJob, read: Iterable[Path], known: Mapping[Path, str], ours: Sequence[Path]
) -> list[str]:
    """List the read files that are of the tree or ours.

    ``known``: the files that the job's key covers, by path; ``ours``: the folder of such files.

    Raises:
        JobFailedError: a file of Composable Kernel was read, or one that the key does not cover.
    """
    files = list(read)
    kernel = [path for path in files if path not in known and _CK & set(path.parts)]
    kernel += [
        path for path in files if known.get(path, "").partition("/")[0].endswith((":ck", ":ck_helper"))
    ]
    if kernel:
        raise JobFailedError(
            f"compile {job.source} without Composable Kernel for {job.id}",
            f"the compiler read {', '.join(map(str, kernel[:_NEAR]))}",
            f"Say what the source needs of it in {STAND_IN}, in words of our own",
        )
    strange = [
        path for path in files if path not in known and any(path.is_relative_to(place) for place in ours)
    ]
    if strange:
        raise JobFailedError(
            f"compile {job.source} for {job.id}",
            f"the compiler read {', '.join(map(str, strange[:_NEAR]))}, which the key of the job does not cover",
            "Name the file in a plain #include, or extend expand in build_tools/compile/backends/hip_tree.py",
        )
    return sorted(known[path] for path in files if path in known)


def named(job: CompileJob, path: Path, threads: int, extra: Mapping[str, str] | None = None) -> Built:
    """Return the object at ``path`` with the job's kernel.

    The kernel is named by its symbol, or as people read it.

    Raises:
        JobFailedError: the file is no code object, has no such kernel, or several.
    """
    if not in_tree(job.source):
        return built(job, path, threads, extra)
    try:
        symbols = _symbols(path.read_bytes())
    except (OSError, CodeObjectError) as error:
        raise JobFailedError(
            f"compile {job.id}",
            f"no usable code object came out ({error})",
            "Look at the compiler's settings",
        ) from error
    if not job.symbol:  # the file for all who name a kernel of it
        return Built(path, "", threads, extra or {})
    return Built(path, chosen(job, symbols), threads, extra or {})


@lru_cache(maxsize=4)
def _symbols(image: bytes) -> tuple[str, ...]:
    """List the kernels of an object.

    Hundreds of jobs ask for one after the other.
    """
    return tuple(kernel.symbol for kernel in codeobject.read(image).kernels)


def chosen(job: CompileJob, symbols: Sequence[str]) -> str:
    """Find the symbol of the kernel that ``job`` names.

    Raises:
        JobFailedError: none, or several that differ in their parameters only.
    """
    if job.symbol in symbols:
        return job.symbol
    # Later sources have one type of 8 bits for fp8, and the target says which fp8 that is.
    names = {symbol: _FP8.sub(job.target.fp8, kernel_name(symbol)) for symbol in symbols}
    each = sorted(set(names.values()))
    matching = [symbol for symbol, name in names.items() if name == job.symbol]
    asked = f"find kernel {job.symbol!r} of {job.source} for {job.id}"
    if len(matching) > 1:
        raise JobFailedError(asked, f"these have that name: {', '.join(matching)}", "Name one of the symbols")
    if not matching:
        near = difflib.get_close_matches(job.symbol, each, _NEAR, 0.5) or each[:_NEAR]
        raise JobFailedError(
            asked,
            f"it has {len(names)} kernels, and none has that name; near: {'; '.join(near) or 'none'}",
            "Take a name from `python -m build_tools audit` of the object, or look at the source's launches",
        )
    return matching[0]
