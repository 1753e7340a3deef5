"""The schemas that the runtime ships: one per verb, valid, closed, and versioned as the documents are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aiter_prebuilt.commands import VERBS
from aiter_prebuilt.commands.output import JSON_VERSION
from aiter_prebuilt.execute.run import EDITION
from build_tools.pack.runtime_wheel import source_files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "aiter_prebuilt" / "schemas"


#: ``python -m aiter_prebuilt.execute`` prints lines, and is no verb; a shell reads what ``completion`` prints.
DOCUMENTS = (*(verb for verb in VERBS if verb != "completion"), "execute")


def test_every_verb_has_one_and_it_ships() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(DOCUMENTS)
    shipped = source_files(ROOT)
    for verb in DOCUMENTS:
        assert f"src/aiter_prebuilt/schemas/{verb}.json" in shipped


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, value in schema.items():
            yield from objects(value, f"{path}/{key}")


@pytest.mark.parametrize("verb", DOCUMENTS)
def test_a_schema_is_valid_and_closed(verb: str) -> None:
    schema = json.loads((FOLDER / f"{verb}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    edition = EDITION if verb == "execute" else JSON_VERSION
    assert schema["properties"]["version"]["const"] == edition
    assert verb not in VERBS or schema["properties"]["verb"]["const"] == verb
    for path, found in objects(schema):
        # A counters document of the embedded device has a version of its own.
        if "counters" in path:
            continue
        assert "additionalProperties" in found, path
        if found["additionalProperties"] is False:
            assert set(found["required"]) <= set(found["properties"]), path
    refused = {"version": edition, "verb": verb, "surprise": 1}
    assert not jsonschema.Draft202012Validator(schema).is_valid(refused)
