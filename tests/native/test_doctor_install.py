"""`aiter-prebuilt doctor` says in one line what to type for the GPUs that it found, in the words of every other message."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from aiter_prebuilt.bundles import extras, locate
from aiter_prebuilt.commands import doctor
from aiter_prebuilt.devices import device, hip_library
from aiter_prebuilt.devices.device import DeviceFacts, DriverFacts
from aiter_prebuilt.errors import NoBundleError

SCHEMA = Path(__file__).resolve().parents[2] / "src" / "aiter_prebuilt" / "schemas" / "doctor.json"


def _card(ordinal: int, arch: str, vendor: str = "amd") -> DeviceFacts:
    target = arch.partition(":")[0]
    return DeviceFacts(vendor, ordinal, "a card", arch, target, frozenset(), 304, 1 << 37, 1)


@pytest.mark.parametrize(
    ("cards", "line"),
    [
        ((_card(0, "gfx942:sramecc+:xnack-"),), "pip install 'aiter-prebuilt[gfx942]'"),
        ((_card(0, "gfx950"), _card(1, "gfx950")), "pip install 'aiter-prebuilt[gfx950]'"),
        ((_card(0, "gfx942"), _card(1, "gfx950")), "pip install 'aiter-prebuilt[gfx942,gfx950]'"),
        ((_card(0, "sm_90", "nvidia"),), "pip install 'aiter-prebuilt[sm90]'"),
        ((_card(0, "gfx90a"),), ""),
        ((), ""),
    ],
)
def test_the_line_is_about_the_cards_that_are_here(
    native: ModuleType,
    cards: tuple[DeviceFacts, ...],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(locate, "installed", lambda: ())

    def probe(vendor: str) -> DriverFacts:
        mine = tuple(card for card in cards if card.vendor == vendor)
        return DriverFacts(vendor, "/lib", 1, mine) if mine else DriverFacts(vendor, error="not here")

    monkeypatch.setattr(device, "probe", probe)
    report = doctor.examine()
    assert report["install"] == line and report["exit_code"] == 1
    jsonschema.validate(
        json.loads(json.dumps({"version": 1, "verb": "doctor", **report})), json.loads(SCHEMA.read_text())
    )
    doctor._print(report)
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == (f"to type: {line}" if line else f"problem: {report['problems'][-1]}")
    assert report["problems"][-1] == f"no bundle is installed: {line or extras.nothing_installed()}"
    for card in cards:
        with pytest.raises(NoBundleError) as caught:
            locate.for_target(card.arch, (), str(card))
        told = f"{card} has no bundle: {caught.value.fix.removeprefix('run: ')}"
        assert told in report["problems"], "a call says the same"


@pytest.mark.parametrize("loaded", [True, False])
def test_a_runtime_that_was_loaded_before_is_no_find_of_the_loader(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, loaded: bool
) -> None:
    library = tmp_path / "libamdhip64.so.7"
    library.touch()
    monkeypatch.delenv("AITER_PREBUILT_HIP", raising=False)
    monkeypatch.setattr(hip_library, "mapped", lambda: (str(library),) if loaded else ())
    found = {"amd": DriverFacts("amd", str(library), 1), "nvidia": DriverFacts("nvidia", error="not here")}
    monkeypatch.setattr(device, "probe", found.__getitem__)
    expected = (
        "this process had loaded it already" if loaded else "it is the first that the system's loader finds"
    )
    assert doctor.examine()["drivers"][0]["why"] == expected
