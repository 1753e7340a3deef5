"""A new operator from one that there is: definition, reference and calls are copied under the new name, to be changed.

The copy is complete: it builds and is proved as it stands, and passes lint when AITER has a function of its name, or
``manifests/modules.toml`` says under ``[beyond]`` why not. What is to be written is what differs.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from build_tools.errors import UsageError
from build_tools.files.reproducible import write_atomic
from build_tools.manifest.model import Manifest, Operator
from build_tools.manifest.names import operator_problem
from build_tools.manifest.problems import suggestion


def new_operator(name: str, like: str, manifest: Manifest, root: Path) -> list[Path]:
    """Add operator ``name`` to the family of ``like``; the files that were changed.

    Raises:
        UsageError: there is no operator ``like``, or ``name`` is taken or no name.
    """
    operators = {each.name: each for family in manifest.families.values() for each in family.operators}
    asked = f"make operator {name!r} like {like!r}"
    if like not in operators:
        raise UsageError(
            asked, f"{like!r} is not an operator{suggestion(like, operators)}", "Name one that there is"
        )
    if name in operators:
        raise UsageError(asked, f"there is one in manifests/{operators[name].family}", "Choose another name")
    problem = operator_problem(name)
    if problem is not None:
        raise UsageError(asked, problem, "Choose another name, of letters, digits and _")
    model = operators[like]
    if model.function is not None:
        found = f"{like!r} has a hand-written function, ops/{model.function}.py"
        raise UsageError(asked, found, "Choose one whose function is generated")
    folder = root / "manifests" / model.family
    return [
        _append(folder / "operators.toml", _definition(folder / "operators.toml", model, name)),
        _append(folder / "reference.py", _reference(folder / "reference.py", model, name)),
        _append(
            folder / "cases.toml", _block((folder / "cases.toml").read_text(), like).replace(like, name, 1)
        ),
    ]


def _definition(path: Path, model: Operator, name: str) -> str:
    """Rename the model's tables.

    Operators that are like it stay like it.
    """
    text = _block(path.read_text(), f"operators.{model.name}")
    return re.sub(rf"^(\[+)operators\.{model.name}\b", rf"\g<1>operators.{name}", text, flags=re.MULTILINE)


def _block(text: str, table: str) -> str:
    """Extract the lines of ``[table]`` and its subtables.

    Comments that belong to the next table are left out.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        header = re.match(r"^\[+([\w.]+)\]", line)
        if header is not None:
            inside = header[1] == table or header[1].startswith(f"{table}.")
        if inside:
            lines.append(line)
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines.pop()
    return "\n".join(lines)


def _reference(path: Path, model: Operator, name: str) -> str:
    """Return the model's function under the new name."""
    source = path.read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == model.name:
            text = ast.get_source_segment(source, node) or ""
            return "\n" + text.replace(f"def {model.name}(", f"def {name}(", 1)
    raise UsageError(
        f"copy the reference of {model.name!r}",
        f"{path.name} has no such function",
        "Choose another operator",
    )


def _append(path: Path, text: str) -> Path:
    write_atomic(path, f"{path.read_text().rstrip()}\n\n{text}\n".encode())
    return path
