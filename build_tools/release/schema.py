"""Is a document what its schema says? As much of JSON Schema as the schemas here use, so that who reads a release needs no
package for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path(__file__).with_name("schemas")
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def problem(name: str, document: Any) -> str:
    """Find the first way in which a document breaks its schema.

    "" where it fits.
    """
    schema = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return next(_problems(schema, document, name), "")


def _problems(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(kind, value) for kind in kinds):
        yield f"{place} is no {' or '.join(kinds)}"
        return
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{place} is {value!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{place} is {value!r}"
    if _is("integer", value) and value < schema.get("minimum", value):
        yield f"{place} is {value}"
    if isinstance(value, dict):
        yield from _of_table(schema, value, place)
    if isinstance(value, list):
        yield from _of_list(schema, value, place)


def _is(kind: str, value: Any) -> bool:
    """Tell whether a value is of a kind of JSON.

    True and False are integers in Python, and in no JSON.
    """
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _of_table(schema: Mapping[str, Any], value: Mapping[str, Any], place: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{place} has no {name}" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        rule = known.get(name, others)
        if rule is False:
            yield f"{place} has {name}, which nobody knows"
        elif rule is not True:
            yield from _problems(rule, each, f"{place}.{name}")


def _of_list(schema: Mapping[str, Any], value: list[Any], place: str) -> Iterator[str]:
    first, others = schema.get("prefixItems", []), schema.get("items", True)
    if len(value) < schema.get("minItems", 0):
        yield f"{place} has {len(value)} parts"
    for number, each in enumerate(value):
        rule = first[number] if number < len(first) else others
        if rule is False:
            yield f"{place} has {len(value)} parts"
        elif rule is not True:
            yield from _problems(rule, each, f"{place}[{number}]")
