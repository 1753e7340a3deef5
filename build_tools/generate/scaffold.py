"""A new operator from one that there is: definition, reference, calls and a hand-written function are copied under the new name,
to be changed.

The copy is complete: it builds and is proved as it stands, and passes lint when AITER has a function of its name, or
``manifests/modules.toml`` says under ``[beyond]`` why not. What is to be written is what differs.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from build_tools.errors import UsageError
from build_tools.files.reproducible import write_atomic
from build_tools.generate import scaffold_function
from build_tools.manifest.model import Manifest, Operator
from build_tools.manifest.names import operator_problem
from build_tools.manifest.parse import document
from build_tools.manifest.problems import Problems, suggestion


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
    folder = root / "manifests" / model.family
    function = [] if model.function is None else [_function(root, model, model.function, name)]
    return [
        _append(folder / "operators.toml", _definition(folder / "operators.toml", model, name)),
        _append(folder / "reference.py", _reference(folder / "reference.py", model, name)),
        _append(folder / "cases.toml", _cases(folder / "cases.toml", like, name)),
        *function,
    ]


def _definition(path: Path, model: Operator, name: str) -> str:
    """Rename the model's tables.

    Operators that are like it stay like it.
    """
    text = _renamed(path, f"operators.{model.name}", f"operators.{name}")
    if model.function is None:
        return text
    key = f'function = "{scaffold_function.module_of(model.family, name)}"'
    own = re.compile(r'^function = "\w+"', flags=re.MULTILINE)
    return own.sub(key, text, count=1) if own.search(text) else text.replace("\n", f"\n{key}\n", 1)


def _renamed(path: Path, table: str, name: str) -> str:
    """Return a table and its subtables under another name."""
    text = _block(path.read_text(), table)
    return re.sub(rf"^(\[+){re.escape(table)}(?=[.\]])", rf"\g<1>{name}", text, flags=re.MULTILINE)


def _cases(path: Path, like: str, name: str) -> str:
    """Return the model's calls under the new name.

    Limits that the model shares with others (``limits.toml``) become the new operator's own.
    """
    text = _renamed(path, like, name)
    shared = document(path.parents[1] / "limits.toml", Problems()) or {}
    lines = [
        f"{json.dumps(phrase)} = {json.dumps(calls)}"
        for names, phrases in shared.get("refused", {}).items()
        if like in names.split()
        for phrase, calls in phrases.items()
    ]
    if not lines:
        return text
    header = f"[{name}.refused]"
    if header not in text:
        text += f"\n\n{header}"
    return text.replace(header, "\n".join([header, *lines]))


def _function(root: Path, model: Operator, module: str, name: str) -> Path:
    """Write the model's hand-written function under the new name."""
    path = root / scaffold_function.FOLDER / f"{scaffold_function.module_of(model.family, name)}.py"
    write_atomic(path, scaffold_function.text(root, module, model.name, name).encode())
    return path


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
