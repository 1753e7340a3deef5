"""The bridge: ``src/aiter_prebuilt_bridge`` as a wheel, with the line that each start of Python runs and the entry points that
servers load. Nothing is compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import dist_info, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.tools import pins

DISTRIBUTION: Final = f"{RUNTIME}-bridge"
PACKAGE: Final = "aiter_prebuilt_bridge"
#: What each start of Python imports, beside the package. In the wheel it is a folder with this one file: uv's uninstall removes
#: the bytecode of a folder, and not that of a file in site-packages.
MODULE: Final = f"{PACKAGE}_hook"
TAG: Final = "py3-none-any"
#: ``site`` executes a line that begins with import.
HOOK: Final = f"import {MODULE}; {MODULE}.install()\n"
#: The same for Python 3.15 and later (PEP 829), which then pass over the import line; 3.18 runs no import line at all.
START: Final = "aiter_prebuilt_bridge_hook:install\n"
ENTRY_POINTS: Final = "".join(
    f"[{group}]\n{PACKAGE} = {PACKAGE}.plugin:register\n\n"
    for group in ("vllm.general_plugins", "sglang.srt.plugins")
)
_SUFFIXES: Final = frozenset((".py", ".typed", ".txt"))
_ABOUT: Final = dist_info.About(
    summary="Stock AITER, vLLM and SGLang on the prebuilt operators of aiter-prebuilt",
    description=f"A hook around `import aiter` for [{RUNTIME}](https://pypi.org/project/{RUNTIME}/): AITER stays installed as\n"
    "it is, and what prebuilt operators cover is served by them. `AITER_PREBUILT_BRIDGE=0` switches it off, `strict` makes a\n"
    "compile of AITER's JIT an error; `aiter-prebuilt bridge status` says what is served, what is not, and why.\n",
    requires=(f"{RUNTIME}=={VERSION}",),
    tag=TAG,
    pure=True,
)


def build_bridge_wheel(root: Path, output: Path) -> Path:
    """Pack the bridge's wheel into ``output``; the same sources give the same bytes."""
    names = source_files(root)
    inside = {_place(name): (root / name).read_bytes() for name in names}
    inside[f"{PACKAGE}.pth"] = HOOK.encode()
    inside[f"{PACKAGE}.start"] = START.encode()
    bill = sbom.Bill(
        DISTRIBUTION,
        VERSION,
        b"".join(content for _, content in sorted(inside.items())),
        (),
        {},
        sbom.file_hashes(root, names),
    )
    stem = dist_info.stem(bill)
    inside[f"{stem}.dist-info/entry_points.txt"] = ENTRY_POINTS.rstrip("\n").encode() + b"\n"
    path = output / f"{stem}-{TAG}.whl"
    write_members(path, inside | dist_info.members(_ABOUT, bill, root, pins.load(root)))
    return path


def _place(name: str) -> str:
    """Return where a file of the repository lies in the wheel."""
    return f"{MODULE}/__init__.py" if name == f"src/{MODULE}.py" else name.removeprefix("src/")


def source_files(root: Path) -> tuple[str, ...]:
    """Return the repository's files that the wheel is made of."""
    found = (path for path in (root / "src" / PACKAGE).rglob("*") if path.suffix in _SUFFIXES)
    names = [path.relative_to(root).as_posix() for path in found]
    return tuple(sorted([*names, f"src/{MODULE}.py"]))
