"""An operator of the product in a user's tree: its signature, reference and calls, copied, so that a tree can add kernels to it.

The copy is the native operator: its tensors and attributes. The Python function and its options stay the product's.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.errors import UsageError
from build_tools.files.reproducible import write_atomic
from build_tools.manifest.grammar import parse_attribute, parse_tensor
from build_tools.manifest.model import Manifest, Operator
from build_tools.manifest.names import refuse_unknown
from build_tools.manifest.parse import document
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import PythonSignatureError, parse_python
from build_tools.plan.slots import assign_slots

_KINDS: Final = {"int": "int", "bool": "bool", "float": "float", "enum": "str", "text": "str"}
_HEAD: Final = """\
edition = 2

# {name} of aiter-prebuilt, as its signature is. Change nothing of it but kernels: another signature is refused.
[operators.{name}]
"""
#: Keys of a family's cases.toml that a copy takes as they are.
_TEXTS: Final = ("default", "golden")


def extend(folder: Path, house: Path, manifest: Manifest, name: str) -> list[str]:
    """Copy an operator of the product into a tree, and return the names of what was written.

    Args:
        folder: the tree.
        house: this repository.
        manifest: its manifests.
        name: the operator.

    Raises:
        UsageError: no such operator, or the tree has a family of that name.
    """
    known = {each.name: each for family in manifest.families.values() for each in family.operators}
    refuse_unknown("add kernels to operators", (name,), known)
    operator = known[name]
    try:
        parse_python(python_of(operator))
    except PythonSignatureError as error:
        raise UsageError(
            f"copy {name} into {folder}",
            f"no Python function can have its native arguments: {error}",
            "Name another operator: aiter-prebuilt list",
        ) from error
    place = folder / "manifests" / operator.family
    if place.exists():
        raise UsageError(
            f"copy {name} into {folder}",
            f"{place} is there already",
            "Add the operator to it by hand, or move it away",
        )
    source = house / "manifests" / operator.family
    texts = {
        "operators.toml": operator_text(operator),
        "reference.py": reference_text((source / "reference.py").read_text(encoding="utf-8"), name),
        "cases.toml": cases_text(_cases(source / "cases.toml", name), operator),
    }
    place.mkdir(parents=True)
    for file, text in texts.items():
        write_atomic(place / file, text.encode())
    return [f"manifests/{operator.family}/{file}" for file in texts]


def operator_text(operator: Operator) -> str:
    """Write the ``operators.toml`` of a copy, without kernels."""
    lines = [f"python = {_quoted(python_of(operator))}"]
    lines += [f"{key} = {_quoted(getattr(operator, key))}" for key in ("module", "summary", "source")]
    lines += [f"types.{name} = {json.dumps(kinds)}" for name, kinds in operator.types.items()]
    for table in ("arguments", "attributes", "returns"):
        lines += [f"{table}.{name} = {_quoted(text)}" for name, text in getattr(operator, table).items()]
    lines.append("kernels = []  # the names of yours, in their order")
    return _HEAD.format(name=operator.name) + "\n".join(lines) + "\n"


def python_of(operator: Operator) -> str:
    """Write a Python signature of the native operator: tensors, attributes, results."""
    required: list[str] = []
    optional: list[str] = []
    for name, text in operator.arguments.items():
        absent = parse_tensor(name, text, operator.types).optional
        (optional if absent else required).append(f"{name}: Tensor" + (" | None = None" if absent else ""))
    for name, text in operator.attributes.items():
        spec = parse_attribute(name, text)
        default = spec.default
        if default is not None and spec.kind == "bool":
            default = {"true": "True", "false": "False"}.get(default, default)
        elif default is not None and spec.kind in ("enum", "text"):
            default = "None" if spec.kind == "text" and default == "none" else repr(default)
        kind = _KINDS[spec.kind] + (" | None" if default == "None" else "")
        (required if default is None else optional).append(
            f"{name}: {kind}" + ("" if default is None else f" = {default}")
        )
    returned = len(operator.returns)
    result = {0: "None", 1: "Tensor"}.get(returned, f"tuple[{', '.join(['Tensor'] * returned)}]")
    return f"({', '.join([*required, *optional])}) -> {result}"


def reference_text(text: str, name: str) -> str:
    """Return what of a family's reference the function ``name`` needs."""
    module = ast.parse(text)
    defined: dict[str, ast.stmt] = {}
    for statement in module.body:
        for each in _names_of(statement):
            defined[each] = statement
    # Draws of inputs are named by the calls alone.
    wanted = [name, *(each for each in defined if each.startswith("draw_"))]
    kept: set[ast.stmt] = set()
    while wanted:
        needed = defined.get(wanted.pop())
        if needed is None or needed in kept:
            continue
        kept.add(needed)
        wanted += [node.id for node in ast.walk(needed) if isinstance(node, ast.Name)]
    parts = [
        ast.get_source_segment(text, statement) or ""
        for place, statement in enumerate(module.body)
        if statement in kept or isinstance(statement, (ast.Import, ast.ImportFrom)) or place == 0
    ]
    return "\n\n".join(parts) + "\n"


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def cases_text(row: Mapping[str, Any], operator: Operator) -> str:
    """Write the ``cases.toml`` of a copy: its calls without those that set options of the product's Python function."""
    options = {*operator.python.names} - {*operator.arguments, *operator.attributes}
    calls = [
        call for call in row["calls"] if not any(word.partition("=")[0] in options for word in call.split())
    ]
    lines = [f"[{operator.name}]"]
    lines += [f"{key} = {_quoted(row[key])}" for key in _TEXTS if key in row]
    lines += ["calls = [", *(f"  {_quoted(call)}," for call in calls), "]"]
    for key in ("insensitive", "except"):
        lines += [
            f"{key}.{json.dumps(name)} = {json.dumps(value)}" for name, value in row.get(key, {}).items()
        ]
    return "\n".join(lines) + "\n"


def _cases(path: Path, name: str) -> dict[str, Any]:
    row: dict[str, Any] = (document(path, Problems()) or {})[name]
    return row


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def refuse_other_signatures(tree: Manifest, house: Manifest) -> None:
    """Compare the operators of a tree with those of the product that have the same name.

    Raises:
        UsageError: one has another signature, so that the runtime would refuse its kernels.
    """
    known = {each.name: each for family in house.families.values() for each in family.operators}
    for family in tree.families.values():
        for operator in family.operators:
            theirs = known.get(operator.name)
            if theirs is None:
                continue
            mine, wanted = (assign_slots(each, Problems()).text() for each in (operator, theirs))
            if mine != wanted:
                raise UsageError(
                    f"add kernels to {operator.name}",
                    f"its signature is '{mine}', that of the product is '{wanted}'",
                    "Copy it again into an empty family: python -m build_tools new-tree FOLDER --extend "
                    + operator.name,
                )
