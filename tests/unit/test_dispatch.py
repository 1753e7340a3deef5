"""From a device to its bundles: opened once for all devices of a target, and a failure is not remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.bundles import small_operator

from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import ArgumentKindError, NoBundleError, NoOperatorError, TunedTableError
from aiter_prebuilt.inspection import decisions
from aiter_prebuilt.launch import dispatch, loading, operator_closure, user_tables
from aiter_prebuilt.tracing import signatures

FREE = InstalledBundle("/made/up/gfx942-ck-free.apb", "gfx942", "ck-free")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No other test's bundles, and none of these left behind."""
    for cached in (dispatch.bundles_of, dispatch._opened):
        cached.cache_clear()
    yield
    for cached in (dispatch.bundles_of, dispatch._opened):
        cached.cache_clear()


def test_devices_of_one_target_share_their_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[InstalledBundle] = []

    def open_bundle(bundle: InstalledBundle) -> object:
        opened.append(bundle)
        return object()

    monkeypatch.setattr(locate, "installed", lambda: (FREE,))
    monkeypatch.setattr(opening, "open_bundle", open_bundle)
    first, second = (dispatch.bundles_of("gfx942", f"device {ordinal}") for ordinal in range(2))
    assert first[0] is second[0]
    assert opened == [FREE]


def test_a_bundle_installed_after_a_failure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    have: list[InstalledBundle] = []
    monkeypatch.setattr(locate, "installed", lambda: tuple(have))
    monkeypatch.setattr(opening, "open_bundle", lambda bundle: bundle.path)
    with pytest.raises(NoBundleError, match="device 0"):
        dispatch.bundles_of("gfx942", "device 0")
    have.append(FREE)
    opened: tuple[object, ...] = dispatch.bundles_of("gfx942", "device 0")
    assert opened == (FREE.path,)


class Operator:
    """Stands for a native operator; keeps what it is asked to load."""

    def __init__(self, name: str, asked: list[tuple[object, ...]]) -> None:
        self.name, self.asked = name, asked

    def preload(self, vendor: str, ordinal: int, tensors: object = None, attributes: object = None) -> None:
        self.asked.append((self.name, vendor, ordinal, tensors, attributes))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What operators are asked to load; the device is a made-up one with the operator ``once``."""
    pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")
    # Modules that keep views of operators are imported with real ones, whichever test comes first.
    operator_closure.import_all()
    found: list[tuple[object, ...]] = []
    facts = device.DeviceFacts("amd", 3, "made up", "gfx942", "gfx942", frozenset(), 304, 1, 1)
    monkeypatch.setattr(dispatch, "operator", lambda name: Operator(name, found))
    monkeypatch.setattr(loading, "operators", lambda vendor, ordinal: ("one", "two"))
    monkeypatch.setattr(device, "facts", lambda vendor, ordinal: facts)
    monkeypatch.setattr(locate, "installed", lambda: (FREE,))
    monkeypatch.setattr(decisions, "find_operator", lambda name, serving, verb: (small_operator(name), 304))
    return found


def test_a_device_has_its_own_compute_units_unless_others_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native side asks with three words; an explained call may say a fourth."""
    monkeypatch.setattr(dispatch, "_resolve", lambda vendor, ordinal: ((), 304))
    assert dispatch._served("one", "amd", 0) == ((), 304, ())
    assert dispatch._served("one", "amd", 0, compute_units=80) == ((), 80, ())


def bundles(target: str, *profiles: str) -> Any:
    return tuple(SimpleNamespace(names=("one",), target=target, profile=profile) for profile in profiles)


def because(name: str, target: str) -> str:
    """Why the ck-free bundle of a target lacks it, as the catalogue has it."""
    return signatures.load()[name].why[target]


@pytest.mark.parametrize(
    ("name", "target", "profiles", "found", "fix"),
    [
        (
            "fmoe_g1u1_mxfp4", "gfx942", ("ck-free", "ck-full"),
            f"call fmoe_g1u1_mxfp4 on gfx942: it exists only for gfx950, because {because('fmoe_g1u1_mxfp4', 'gfx942')}",
            "For what gfx942 has: aiter-prebuilt list --target gfx942",
        ),
        (
            "moe_cktile2stages_gemm1", "gfx942", ("ck-free",),
            (
                "call moe_cktile2stages_gemm1 on gfx942: its kernels are in the bundle gfx942 (ck-full), which is not installed, "
                f"because {because('moe_cktile2stages_gemm1', 'gfx942')}"
            ),
            "Run: pip install 'aiter-prebuilt[gfx942-ck]'",
        ),
        (
            "silu_and_mul", "gfx950", ("ck-free",), "call silu_and_mul on gfx950: it is not in the installed bundles for gfx950",
            "Run: pip install --upgrade 'aiter-prebuilt[gfx950]'",
        ),
    ],
)  # fmt: skip
def test_an_operator_that_the_bundles_lack_says_where_it_is(
    name: str, target: str, profiles: tuple[str, ...], found: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls and explanations alike: for other targets, in another profile's bundle, or in a newer one."""
    made = bundles(target, *profiles)
    monkeypatch.setattr(dispatch, "_resolve", lambda vendor, ordinal: (made, 304))
    with pytest.raises(NoOperatorError) as refused:
        dispatch._served(name, "amd", 0)
    assert str(refused.value) == f"Cannot {found}. {fix}"
    monkeypatch.setattr(opening, "read_bundle", lambda installed: made[0])
    installed = tuple(InstalledBundle("/made/up", target, profile) for profile in profiles)
    with pytest.raises(NoOperatorError) as refused:
        decisions.find_operator(name, installed)
    assert str(refused.value) == f"Cannot {found.replace('call', 'explain', 1)}. {fix}"


def test_a_name_that_no_wheel_has_is_left_to_the_native_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bundles("gfx942", "ck-free")
    monkeypatch.setattr(dispatch, "_resolve", lambda vendor, ordinal: (made, 304))
    assert dispatch._served("nobody", "amd", 0) == (made, 304, ())


def test_an_operators_records_come_with_the_usual_compute_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target has cards of several sizes: the first that its table names is the usual one."""

    class Root:
        provenance = json.dumps({"cus": [304, 228, 80]})

    class Opened:
        names, root = ("one",), Root

        def operator(self, name: str) -> object:
            return small_operator(name)

    monkeypatch.setattr(opening, "read_bundle", lambda installed: Opened())
    found, units = decisions.find_operator("one", (FREE,))
    assert (found.name, units) == ("one", 304)


def test_preload_of_names(asked: list[tuple[object, ...]]) -> None:
    assert loading.preload("a", ops=("b", "c"), vendor="amd", ordinal=3) == 3
    assert loading.preload(ops="d", vendor="nvidia") == 1
    assert loading.preload(vendor="amd") == 2
    assert [line[:3] for line in asked] == [
        ("a", "amd", 3), ("b", "amd", 3), ("c", "amd", 3), ("d", "nvidia", 0), ("one", "amd", 0), ("two", "amd", 0),
    ]  # fmt: skip
    assert all(line[3:] == (None, None) for line in asked)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({"ops": 5}, "ops must be a name or a list of names, got 5"),
        ({"ops": [5]}, "name must be a str, got 5"),
        ({"ops": "\ud800"}, "name must be a str, got"),
        ({"ops": "a", "vendor": "x"}, "vendor must be .*, got 'x'"),
        ({"ops": "a", "vendor": ""}, "vendor must be .*, got ''"),
        ({"ops": "a", "ordinal": None}, "ordinal must be an int, got None"),
        ({"ops": "a", "ordinal": True}, "ordinal must be an int, got True"),
    ],
)  # fmt: skip
def test_preload_refuses_what_names_nothing(
    asked: list[tuple[object, ...]], words: dict[str, Any], found: str
) -> None:
    with pytest.raises(ArgumentKindError, match=found):
        loading.preload(**{"vendor": "amd", **words})
    assert not asked


def test_preload_of_shapes(asked: list[tuple[object, ...]]) -> None:
    shapes = [{"M": 3, "N": 5, "out.align": 4}, {"M": "7", "N": 1}]
    assert loading.preload("a", "b", shapes=shapes, vendor="amd", ordinal=3) == 4
    assert [line[0] for line in asked] == ["a", "a", "b", "b"]
    out, x = cast("list[tuple[Any, ...]]", asked[0][3])
    assert out[1:] == x[1:] == ("f32", (3, 5), (5, 1), ("amd", 3)), (
        "the described tensors are on the device that is asked"
    )
    assert out[0] % 8 == 4 and x[0] % 256 == 0
    asked.clear()
    call = (object(), object(), 0.5)
    assert loading.preload(shapes={"a": [call], "b": [{"M": 1, "N": 1}]}, vendor="amd", ordinal=3) == 2
    assert asked[0] == ("a", "amd", 3, list(call), None), "the arguments of a call are passed on as they are"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shapes": [{"M": 1}]}, "shapes needs the name of an operator"),
        ({"ops": "a", "shapes": "M=1"}, "shapes must be a list, got 'M=1'"),
        ({"ops": "a", "shapes": [7]}, "must be a dict of symbols or a tuple of arguments, got 7"),
        ({"ops": "a", "shapes": {"b": [{"M": 1}]}}, "a list of calls for each operator, but one is missing"),
        ({"shapes": {"M": 1}}, "a list of calls for each operator, but not for 'M'"),
    ],
)
def test_preload_says_how_shapes_are_written(
    asked: list[tuple[object, ...]], arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentKindError, match=words) as caught:
        loading.preload(vendor="amd", **arguments)
    assert caught.value.fix.startswith("For example: ") and not asked


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), (True, "true"), (False, "false"), (17, "17"), ("f16", "f16")]
)
def test_words_of_a_described_call(value: object, text: str) -> None:
    assert loading.word(value) == text


def test_tables_are_only_looked_for_when_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(user_tables.VARIABLE, raising=False)
    monkeypatch.setattr(user_tables, "native_tables", lambda *_: pytest.fail("nobody named a table"))
    assert dispatch.tuned_tables("a", "gfx942", 304, ()) == ()


def test_a_table_for_what_only_the_second_bundle_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The operator is only in what CK adds: its table is as good as one for an operator of the first bundle."""
    table = tmp_path / "only_ck.csv"
    table.write_text("target,cus,M,kernel,variant,types\ngfx942,304,1,k,v,bf16\n")
    monkeypatch.setenv(user_tables.VARIABLE, str(table))
    bundles = cast("Any", tuple(SimpleNamespace(names=names) for names in (("both",), ("both", "only_ck"))))
    ((_, rows, modelled),) = dispatch.tuned_tables("only_ck", "gfx942", 304, bundles)
    assert not modelled and rows == ((f"{table}:2", 304, (1,), "k", "v", "bf16"),)
    assert dispatch.tuned_tables("both", "gfx942", 304, bundles) == ()
    with pytest.raises(TunedTableError, match="operator 'only_ck'"):
        dispatch.tuned_tables("both", "gfx942", 304, bundles[:1])
