"""``certify`` on the embedded device: the document, resuming, budgets, verdicts, and no name of the site in either file.

Its times say nothing of a card, so no test looks at them.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.emulator import bundles, card_of_few_units

from aiter_prebuilt.certificate import ceilings
from aiter_prebuilt.contract.calls import pack, read
from build_tools.objects.unpack import decompress

ROOT = Path(__file__).resolve().parents[2]
FEW = ("--operator", "rms_norm", "--operator", "silu_and_mul")


@pytest.fixture(scope="module")
def surroundings() -> dict[str, str]:
    """One emulated card and its bundle, in the environment of a child."""
    return card_of_few_units()


def command(
    surroundings: dict[str, str], folder: Path, *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "aiter_prebuilt", "certify", "--output", str(folder), *words]
    return subprocess.run(argv, env=surroundings | more, capture_output=True, text=True, timeout=900)


def certified(folder: Path) -> dict[str, Any]:
    """Return the document of a folder, which obeys its schema."""
    found: dict[str, Any] = json.loads((folder / "certify.json").read_text())
    schema = json.loads((ROOT / "src/aiter_prebuilt/schemas/certify.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


def with_wrong_calls(place: Path) -> Path:
    """Copy the bundle; its golden calls of rms_norm want zeros."""
    place.mkdir(parents=True)
    bundle = bundles("gfx942", "ck-free")[0]
    shutil.copy(bundle, place)
    changed = []
    with bundle.with_suffix(".calls").open("rb") as stream:
        for call in read(stream, decompress):
            zeros = [
                replace(want, low=bytes(len(want.low)), high=bytes(len(want.high))) for want in call.wants
            ]
            changed.append(replace(call, wants=tuple(zeros)) if call.operator == "rms_norm" else call)
    (place / bundle.with_suffix(".calls").name).write_bytes(b"".join(map(pack, changed)))
    return place / bundle.name


def test_the_document_has_calls_costs_and_rates(surroundings: dict[str, str], tmp_path: Path) -> None:
    done = command(surroundings, tmp_path, *FEW, "--json")
    assert done.returncode == 42, done.stderr
    found = certified(tmp_path)
    assert json.loads(done.stdout) == found
    lines = found["golden"]["lines"]
    assert {line["operator"] for line in lines} == {"rms_norm", "silu_and_mul"}
    assert len(lines) == found["golden"]["total"] and all(
        line["worst"] <= 1 and not line["problems"] for line in lines
    )
    assert tuple(row["name"] for row in found["measured"]) == ceilings.names()
    rates = {row["name"]: row["found"] for row in found["measured"]}
    assert rates["launch"]["host_us"] > 0 and rates["launch"]["replayed_us"] > 0
    assert all(row["gb_s"] > 0 for row in rates["bandwidth"])
    products = [found for name, found in rates.items() if name.startswith(("gemm", "flash"))]
    assert len(products) == 8 and all(each["chosen"]["tflops"] > 0 for each in products)
    assert found["card"]["embedded"] and found["verdict"] == "incomplete" and not found["wrong"]
    assert found["not_done"] == ["golden calls of other operators than rms_norm, silu_and_mul"]
    assert "UnfinishedError" in done.stderr and f"aiter-prebuilt certify --output {tmp_path}" in done.stderr


def test_a_second_run_does_what_the_first_left(surroundings: dict[str, str], tmp_path: Path) -> None:
    none = command(surroundings, tmp_path, *FEW, "--seconds", "0")
    assert none.returncode == 42 and "golden calls" in none.stderr
    assert certified(tmp_path)["golden"]["lines"] == [] and certified(tmp_path)["measured"] == []
    assert command(surroundings, tmp_path, "--operator", "rms_norm").returncode == 42
    first = certified(tmp_path)
    again = command(surroundings, tmp_path, *FEW)
    second = certified(tmp_path)
    assert f"{len(first['golden']['lines']) + len(first['measured'])} are done" in again.stderr
    assert second["measured"] == first["measured"]
    assert [line for line in second["golden"]["lines"] if line["operator"] == "rms_norm"] == first["golden"][
        "lines"
    ]
    assert second["seconds"] > first["seconds"]
    other = command(surroundings, tmp_path, *FEW, AITER_PREBUILT_EMULATOR="gfx942:cus=16")
    assert other.returncode == 2
    assert "its compute_units is 8, and here is 16. Name another folder: --output FOLDER" in other.stderr


def test_a_wrong_call_is_named_and_decides_the_verdict(surroundings: dict[str, str], tmp_path: Path) -> None:
    bundle = with_wrong_calls(tmp_path / "bundles")
    done = command(surroundings, tmp_path / "out", *FEW, AITER_PREBUILT_BUNDLES=str(bundle))
    assert done.returncode == 1, done.stderr
    found = certified(tmp_path / "out")
    assert found["verdict"] == "wrong" and all(text.startswith("rms_norm ") for text in found["wrong"])
    assert "rms_norm" in done.stderr and "is WRONG" in done.stderr and "Verdict: wrong" in done.stdout
    assert 'class="verdict wrong"' in (tmp_path / "out" / "certify.html").read_text()


def test_no_name_of_the_site_is_in_either_file(surroundings: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "acme secret" / "janedoe"
    bundle = with_wrong_calls(home / "bundles")
    bundle.with_suffix(".calls").write_bytes(b"no calls")
    planted = {
        "HOME": str(home), "USER": "janedoe", "LOGNAME": "janedoe", "HOSTNAME": "node7.acme.internal",
        "AITER_PREBUILT_BUNDLES": str(bundle), "AITER_PREBUILT_TUNED": str(home / "10.20.30.40" / "tuned"),
        "AITER_PREBUILT_CUDA": str(home / "libcuda-acme.so"),
    }  # fmt: skip
    done = command(surroundings, home / "out", *FEW, **planted)
    assert done.returncode == 1, done.stderr
    found = certified(home / "out")
    assert found["wrong"] and found["doctor"]["problems"]
    names = (
        "acme",
        "secret",
        "janedoe",
        "node7",
        "10.20.30.40",
        "libcuda-acme",
        str(tmp_path),
        "/usr/",
        "/home/",
    )
    for path in (home / "out" / "certify.json", home / "out" / "certify.html"):
        text = path.read_text()
        for name in (*names, socket.gethostname(), str(ROOT), sys.prefix):
            assert name.lower() not in text.lower(), (path.name, name)


def test_a_misspelt_operator_and_a_card_without_a_bundle_are_refused(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    done = command(surroundings, tmp_path, "--operator", "rms_nrom")
    assert done.returncode == 10 and "rms_nrom" in done.stderr
    done = command(surroundings, tmp_path, AITER_PREBUILT_EMULATOR="gfx950")
    assert done.returncode == 3 and "Cannot certify a card" in done.stderr
    done = command(surroundings, tmp_path, "--seconds", "-1")
    assert done.returncode == 2 and "--seconds must be 0 or more, not -1" in done.stderr
    assert list(tmp_path.iterdir()) == []
