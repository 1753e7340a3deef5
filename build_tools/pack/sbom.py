"""The bill of materials inside a wheel (PEP 770): CycloneDX 1.6 JSON that names the tools and the sources.

Deterministic: the serial number is derived from the content, the time is the pinned one, all lists are sorted.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.files.reproducible import timestamp
from build_tools.pack import licences

FILE_NAME: Final = "aiter-prebuilt.cdx.json"
#: The one row among the tools that is no tool: "hermetic" or "rocm".
TOOLCHAIN: Final = "toolchain"
_NAMESPACE: Final = uuid.UUID("6e1d3c52-3c0f-5f6b-9d0e-2f7f0c1a9b47")

Hashes = list[dict[str, str]]


def write(
    distribution: str,
    version: str,
    licence: str,
    content: bytes,
    tools: Mapping[str, str],
    backends: Iterable[str],
    sources: Iterable[tuple[str, str]],
) -> bytes:
    """The document for one wheel.

    ``content`` is the wheel's payload (its hash is the component's), ``tools`` name -> version, ``backends`` those whose
    third parties count (see :mod:`build_tools.pack.licences`), ``sources`` (path in the repository, SHA-256).
    """
    digest = _hash(hashlib.sha256(content).hexdigest())
    purl = f"pkg:pypi/{distribution}@{version}"
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(),
            "component": {
                "type": "library",
                "bom-ref": purl,
                "name": distribution,
                "version": version,
                "purl": purl,
                "hashes": digest,
                "licenses": [{"expression": licence}],
            },
            "tools": {
                "components": [_tool(name, tools[name]) for name in sorted(tools) if name != TOOLCHAIN]
            },
            "properties": [
                {"name": f"aiter-prebuilt:{TOOLCHAIN}", "value": tools.get(TOOLCHAIN, "hermetic")}
            ],
        },
        "components": [
            *map(_part, licences.parts(backends)),
            *(_source(*source) for source in sorted(sources)),
        ],
    }
    body = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, body)}"
    return (json.dumps(document, indent=1) + "\n").encode()


def file_hashes(root: Path, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(path, SHA-256) of repository files, sorted and unique."""
    return tuple(
        (path, hashlib.sha256((root / path).read_bytes()).hexdigest()) for path in sorted(set(paths))
    )


def _hash(digest: str) -> Hashes:
    return [{"alg": "SHA-256", "content": digest}]


def _tool(name: str, version: str) -> dict[str, Any]:
    return {"type": "application", "name": name, "version": version}


def _part(part: licences.Part) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"part:{part.name}",
        "name": part.name,
        "description": part.title,
        "supplier": {"name": part.holder},
        "licenses": [{"expression": part.spdx}],
        "externalReferences": [{"type": "website", "url": part.url}],
    }


def _source(path: str, digest: str) -> dict[str, Any]:
    return {"type": "file", "bom-ref": f"source:{path}", "name": path, "hashes": _hash(digest)}
