"""`aiter-prebuilt doctor` says in one line what to type for the GPUs that it found, in the words of every other message."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from aiter_prebuilt.bundles import extras, locate
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.commands import doctor, doctor_text
from aiter_prebuilt.devices import device, hip_library
from aiter_prebuilt.devices.device import DeviceFacts, DriverFacts
from aiter_prebuilt.errors import NoBundleError
from native import synthetic
from native.test_damage import ops

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
    shown = doctor_text.lines(report)
    count = len(report["problems"])
    end = [f"Not ready: {count} problem{'s' if count > 1 else ''}."]
    assert shown[-2:] == [*end, f"Run: {line}"] if line else shown[-1:] == end
    assert report["problems"][-1] == f"no bundle is installed. Run: {line or extras.nothing_installed()}"
    assert f"    {line or extras.nothing_installed()}" in shown, "whole, to copy"
    for card in cards:
        with pytest.raises(NoBundleError) as caught:
            locate.for_target(card.arch, (), str(card))
        told = f"{card} has no bundle. {caught.value.fix}"
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


def test_a_second_hip_runtime_in_the_process_is_named(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    used, other = tmp_path / "torch.so", tmp_path / "system.so"
    used.touch()
    other.touch()
    monkeypatch.delenv("AITER_PREBUILT_HIP", raising=False)
    monkeypatch.setattr(hip_library, "mapped", lambda: (str(other), str(used)))
    found = {"amd": DriverFacts("amd", str(used), 1), "nvidia": DriverFacts("nvidia", error="not here")}
    monkeypatch.setattr(device, "probe", found.__getitem__)
    report = doctor.examine()
    assert report["drivers"][0]["path"] == str(used) and report["drivers"][0]["others"] == [str(other)]
    text = " ".join(line.strip() for line in doctor_text.lines(report))
    assert f"Not used: {other}, a second HIP runtime in this process." in text


def _installed(folder: Path, *names: str) -> tuple[InstalledBundle, ...]:
    made = []
    for name in names:
        target, _, profile = name.partition("-")
        path = folder / f"{name}.apb"
        path.write_bytes(synthetic.bundle_bytes(ops("owners"), target=target, profile=profile))
        made.append(InstalledBundle(str(path), target, profile))
    return tuple(made)


@pytest.mark.parametrize(
    ("names", "cards", "code", "said", "unsaid"),
    [
        (("gfx942-ck-free",), (), 3, "Bundle gfx942 (ck-free): 2 operators, ready: no gfx942 GPU is here", "NVIDIA"),
        (("gfx942-ck-free", "sm_90-ck-free"), (), 3, "NVIDIA driver: not here", "not used"),
        (("gfx942-ck-full",), (_card(0, "gfx942"),), 1, "not used: it needs the bundle gfx942 (ck-free)", "NVIDIA"),
        (("gfx942-ck-free",), (_card(0, "gfx942"),), 0, "Ready: 1 GPU is served.", "not used"),
        # A card that the wheels are not for serves nobody.
        (("gfx942-ck-free",), (_card(0, "sm_90", "nvidia"),), 3, "No GPU is here that a bundle serves", "NVIDIA"),
    ],
)  # fmt: skip
def test_one_line_a_fact_within_80_columns(
    native: ModuleType,
    names: tuple[str, ...],
    cards: tuple[DeviceFacts, ...],
    code: int,
    said: str,
    unsaid: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def probe(vendor: str) -> DriverFacts:
        mine = tuple(card for card in cards if card.vendor == vendor)
        error = f"Cannot open the {vendor} driver: not here. Install one."
        return DriverFacts(vendor, "/lib", 1, mine) if mine else DriverFacts(vendor, error=error)

    monkeypatch.setenv("COLUMNS", "80")
    found = _installed(tmp_path, *names)
    monkeypatch.setattr(locate, "installed", lambda: found)
    monkeypatch.setattr(device, "probe", probe)
    report = doctor.examine()
    lines = doctor_text.lines(report)
    text = " ".join(line.strip() for line in lines)
    assert (report["exit_code"], said in text, unsaid in text) == (code, True, False), text
    assert max(map(len, lines)) <= 80


def test_the_copy_that_hides_another_is_named(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (mine,) = _installed(tmp_path, "gfx942-ck-free")
    other = InstalledBundle("/other/gfx942-ck-free.apb", "gfx942", "ck-free")
    monkeypatch.setattr(locate, "installed", lambda: (mine,))
    monkeypatch.setattr(locate, "shadowed", lambda: (locate.Shadowed(other, mine),))
    text = " ".join(line.strip() for line in doctor_text.lines(doctor.examine()))
    assert f"Not used: /other/gfx942-ck-free.apb, since {mine.path} comes first on sys.path" in text


@pytest.mark.parametrize("here", [True, False])
def test_the_emulator_is_offered_for_installation_only_where_it_is_missing(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: bool
) -> None:
    found = _installed(tmp_path, "gfx942-ck-free")
    monkeypatch.setattr(locate, "installed", lambda: found)
    monkeypatch.setattr(
        device, "probe", lambda vendor: DriverFacts(vendor, error=f"Cannot open the {vendor} driver.")
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if here else None)
    lines = doctor_text.lines(doctor.examine())
    assert any("[emulator]" in line for line in lines) != here
    assert any("aiter-prebuilt-emulator run" in line for line in lines)


def test_builds_of_one_compiler_version_are_said_once(native: ModuleType) -> None:
    report = doctor.examine()
    build = {"tool": "triton", "version": "3.9.0", "entries": 105}
    cache = {"target": "gfx942", "compilers": [build | {"key": "a"}, build | {"key": "b"}]}
    bridge = {"bridge": "0", "mode": "on", "aiter": "0", "caches": [cache]}
    lines = doctor_text.lines(report | {"bridge": bridge})
    assert "Kernels inside AITER for gfx942: 105 for triton 3.9.0" in lines
