"""Record the parameter names that AITER's functions of our public names have, at each commit that is served.

    python ci/aiter_signatures.py CHECKOUT COMMIT [CHECKOUT COMMIT ...]     writes tests/data/aiter_signatures.json

A CHECKOUT has the package ``aiter``; an unpacked wheel does, too. Only Python files are read; nothing of them is executed.
Commits that are not named keep what they have.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import Any, Final

import aiter_prebuilt

OUTPUT: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "aiter_signatures.json"


def parameters(node: ast.FunctionDef) -> str:
    """Return the names of a function's parameters in order, the same as those of ours in the test."""
    each = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return " ".join(arg.arg for arg in each)


def signatures(checkout: Path, names: frozenset[str]) -> dict[str, list[str]]:
    """List the different signatures of each name, over all modules of the package ``aiter``.

    Kernels of Triton are left out: they bear the names of functions around them.
    """
    found: dict[str, set[str]] = {}
    for file in sorted((checkout / "aiter").rglob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or node.name not in names or node.args.vararg:
                continue
            if not any("jit" in ast.unparse(each).split(".") for each in node.decorator_list):
                found.setdefault(node.name, set()).add(parameters(node))
    return {name: sorted(found[name]) for name in sorted(found)}


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", metavar="CHECKOUT COMMIT")
    words = parser.parse_args().trees
    if len(words) % 2:
        parser.error("each CHECKOUT needs the COMMIT behind it")
    kept: dict[str, Any] = {"edition": 1, "commits": {}}
    if OUTPUT.is_file():
        kept = json.loads(OUTPUT.read_text(encoding="utf-8"))
    names = frozenset(aiter_prebuilt.__all__)
    for checkout, commit in zip(words[::2], words[1::2], strict=True):
        kept["commits"][commit] = signatures(Path(checkout), names)
    OUTPUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
