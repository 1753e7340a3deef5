"""List the names that vLLM, SGLang and ATOM import from AITER.

They are read from wheels and sources; the bridge's test resolves them.

    python ci/client_names.py [--wheels FOLDER] [--atom FOLDER]     writes tests/data/client_names.json

Wheels that FOLDER lacks are downloaded by pip into it. ATOM has no wheel: FOLDER is a checkout; its names stay as they are when
none is named. Only Python files are read; nothing of them is executed.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

CLIENTS: Final = {"vllm": "0.33.0", "sglang": "0.5.23"}
OUTPUT: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "client_names.json"
#: The day of the checkout whose names stand in the list.
ATOM: Final = "ATOM 2026-08-22"
#: One name: the module that it is taken from, and the name, "" where the module itself is what is wanted.
Name = tuple[str, str]
#: What ``torch.ops.aiter`` is called in the list.
TORCH: Final = "torch.ops.aiter"


def names_in(text: str) -> Iterator[Name]:
    """Yield the names that a file takes from AITER.

    Imported names, attributes of imported modules, operators of torch.
    """
    tree = ast.parse(text)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split(".")[0] == "aiter":
                    modules[each.asname or "aiter"] = each.name if each.asname else "aiter"
                    yield each.name, ""
        elif (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").split(".")[0] == "aiter"
        ):
            for each in node.names:
                modules[each.asname or each.name] = f"{node.module}.{each.name}"
                yield str(node.module), each.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _attribute(ast.unparse(node.value), node.attr, modules)


def _attribute(value: str, name: str, modules: dict[str, str]) -> Iterator[Name]:
    if value == TORCH:
        yield TORCH, name
    elif modules.get(value, "") == "aiter":
        yield "aiter", name


def names_of(wheel: Path) -> list[Name]:
    """List the names that a wheel's Python files take, each once.

    AITER's own attributes that are modules stand as such.
    """
    with zipfile.ZipFile(wheel) as archive:
        members = [member for member in archive.namelist() if member.endswith(".py")]
        return _together(archive.read(member).decode("utf-8", "replace") for member in members)


def names_below(checkout: Path) -> list[Name]:
    """List the names that a checkout's package takes.

    Its tests and tools are left out.
    """
    package = checkout / "atom"
    if not package.is_dir():
        raise SystemExit(f"{checkout} is no checkout of ATOM: it has no folder atom")
    return _together(path.read_text(encoding="utf-8", errors="replace") for path in package.rglob("*.py"))


def _together(texts: Iterable[str]) -> list[Name]:
    found: set[Name] = set()
    for text in texts:
        if "aiter" in text:
            found.update(names_in(text))
    return sorted(each for each in found if not each[1].startswith("__"))


def wheel_of(name: str, version: str, folder: Path) -> Path:
    """Find the client's wheel in ``folder``, downloading it if needed."""
    found = sorted(folder.glob(f"{name}-{version}-*.whl"))
    if not found:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "-q",
            "-d",
            str(folder),
        ]
        subprocess.run([*command, f"{name}=={version}"], check=True)
        found = sorted(folder.glob(f"{name}-{version}-*.whl"))
    return found[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheels", type=Path, help="a folder with the clients' wheels")
    parser.add_argument("--atom", type=Path, help="a checkout of ROCm/ATOM")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.wheels or Path(made)
        table = {
            f"{name} {version}": [list(each) for each in names_of(wheel_of(name, version, folder))]
            for name, version in CLIENTS.items()
        }
    known = json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.is_file() else {}
    if options.atom is not None:
        known[ATOM] = [list(each) for each in names_below(options.atom)]
    if ATOM in known:
        table[ATOM] = known[ATOM]
    lines = [
        f" {json.dumps(client)}: [\n" + ",\n".join(f"  {json.dumps(each)}" for each in rows) + "\n ]"
        for client, rows in table.items()
    ]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for client, rows in table.items():
        print(f"{client}: {len(rows)} names")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
