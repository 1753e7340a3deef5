"""Several devices: each tensor goes to its own target's bundle, an unknown GPU hides nothing, features match as subsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from native import synthetic
from support.emulator import bundles

from aiter_prebuilt import errors
from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.devices import device
from promises import programs

MI300, MI350 = "gfx942:sramecc+:xnack-", "gfx950:sramecc+:xnack-"


def test_each_tensor_goes_to_its_own_bundle(extension_path: Path) -> None:
    """One process, both targets, interleaved: right results, code objects of the right bundle, no mixing of devices."""
    found, choices, mixed, again = programs.run(
        """
        say([softmax(ordinal) for ordinal in (0, 1, 0, 1, 2)])
        def chosen(ordinal):
            facts = device.facts("amd", ordinal)
            bundles = dispatch.bundles_of(facts.target, str(facts))
            tensor = DeviceArray("f32", (2, 8), ordinal=ordinal).raw
            rows = dispatch.operator("softmax").explain(bundles, facts.compute_units, [tensor, tensor], [])
            return [sorted(step["sha256"] for row in rows if row["chosen"] for step in row["steps"]), facts.target]
        say([chosen(0), chosen(1), chosen(2), dispatch.operator("softmax").stats()["modules_loaded"]])
        near, far = DeviceArray("f32", (2, 8), ordinal=0), DeviceArray("f32", (2, 8), ordinal=1)
        say(attempt(lambda: dispatch.operator("softmax")(near.raw, far.raw, stream=0)))
        say([softmax(1), softmax(0)])
        """,
        "gfx942,gfx950,gfx942:cus=80",
    )
    assert found == [[0.125] * 16] * 5 and again == [[0.125] * 16] * 2
    (one, first), (two, second), (three, third), loaded = choices
    assert (first, second, third) == ("gfx942", "gfx950", "gfx942")
    assert one and two and not set(one) & set(two), "two targets never share a code object"
    assert loaded == len(set(one)) + len(set(two)) + len(set(three)), "once for each device"
    assert mixed[0] == "ArgumentDeviceError" and "device" in mixed[1]


def write(folder: Path, target: str, name: str = "o", blob: str = "b") -> Path:
    """A bundle of one operator for ``target``, features and all."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{target}-ck-free.apb"
    op = synthetic.Op(
        name,
        [synthetic.T("x", "f32", ["N"])],
        recipes=[synthetic.R(steps=[synthetic.S("k", ["ptr x"])], blob=f"{target}-{blob}")],
    )
    path.write_bytes(synthetic.bundle_bytes([op], target=target))
    return path


CALLS = """
def call(ordinal):
    dispatch.operator("o")((4096, "f32", (8,), None, ("amd", ordinal)), stream=0)
    return device.facts("amd", ordinal).arch
seen = device.probe("amd")
say([[facts.ordinal, facts.target] for facts in seen.devices] + [len(seen.problems)])
for ordinal in range(COUNT):
    say(attempt(lambda: call(ordinal)))
"""


def test_an_unknown_gpu_hides_nothing(extension_path: Path, many_gpus: Path, tmp_path: Path) -> None:
    """Wherever it stands: an older card, one without a name, one whose properties cannot be read."""
    files = [write(tmp_path, "gfx942"), write(tmp_path, "gfx950")]
    archs = ["gfx1100", MI300, "", "!101", MI350]
    listed, *answers = programs.lines(
        CALLS.replace("COUNT", str(len(archs))),
        {
            "AITER_PREBUILT_HIP": str(many_gpus),
            "AITER_PREBUILT_BUNDLES": programs.paths(*files),
            "STUB_ARCHS": ",".join(archs),
        },
    )
    assert listed == [[0, "gfx1100"], [1, "gfx942"], [2, ""], [4, "gfx950"], 1]
    assert [answer[0] for answer in answers] == [
        "NoBundleError",
        "ran",
        "NoBundleError",
        "DriverError",
        "ran",
    ]
    assert answers[1][1] == MI300 and answers[4][1] == MI350
    assert "gfx1100" in answers[0][1] and "gfx942 (ck-free), gfx950 (ck-free)" in answers[0][1]
    assert "(101)" in answers[3][1]


@pytest.mark.parametrize(
    ("bundle", "arch", "serves"),
    [
        ("gfx942", MI300, True),
        ("gfx942", "gfx942", True),
        ("gfx942", "gfx942:sramecc+:xnack+", True),
        ("gfx942:xnack-", MI300, True),
        ("gfx942:xnack-", "gfx942:xnack-:sramecc+", True),
        ("gfx942:sramecc+:xnack-", MI300, True),
        ("gfx942:xnack+", MI300, False),
        ("gfx942:sramecc-", MI300, False),
        ("gfx942:xnack-", "gfx942", False),
        ("gfx94", MI300, False),
        ("gfx950:xnack-", MI300, False),
    ],
)
def test_features_are_matched_as_subsets(
    extension_path: Path, many_gpus: Path, tmp_path: Path, bundle: str, arch: str, serves: bool
) -> None:
    """A bundle that names no feature serves both settings; one that names some needs a device that has them all."""
    _, answer = programs.lines(
        CALLS.replace("COUNT", "1"),
        {
            "AITER_PREBUILT_HIP": str(many_gpus),
            # The folder: a path with colons would be several.
            "AITER_PREBUILT_BUNDLES": str(write(tmp_path, bundle).parent),
            "STUB_ARCHS": arch,
        },
    )
    assert answer[0] == ("ran" if serves else "NoBundleError"), answer
    if not serves:
        assert f"{bundle} (ck-free)" in answer[1] and "pip install 'aiter-prebuilt[" in answer[1]


def test_the_decision_alone() -> None:
    """Without any driver."""
    installed = tuple(InstalledBundle(f"/{name}", name, "ck-free") for name in ("gfx942", "gfx950:xnack-"))
    assert [b.target for b in locate.for_target(MI300, installed, "it")] == ["gfx942"]
    assert [b.target for b in locate.for_target("gfx950:xnack-:sramecc+", installed, "it")] == [
        "gfx950:xnack-"
    ]
    with pytest.raises(errors.NoBundleError, match=r"gfx950:xnack\+"):
        locate.for_target("gfx950:xnack+", installed, "it")
    assert device.split_arch(MI300) == ("gfx942", frozenset({"sramecc+", "xnack-"}))


def test_real_bundles_serve_both_settings() -> None:
    """Their code objects are built for any setting: what their names promise."""
    for target in ("gfx942", "gfx950"):
        for path in bundles(target, "ck-free"):
            assert opening.read_bundle(InstalledBundle(str(path), target, "ck-free")).root.target == target
