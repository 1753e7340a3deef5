"""Bad own bundles in a folder beside the product's: each is refused alone and by name, and the product is served."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from minisign import KeyPair

import aiter_prebuilt
from aiter_prebuilt.__main__ import main as command
from aiter_prebuilt.bundles import locate, opening, own_bundles
from aiter_prebuilt.contract import header
from aiter_prebuilt.launch import dispatch
from native import synthetic
from native.synthetic import Op, R, S, T

SCHEMAS = Path(aiter_prebuilt.__file__).with_name("schemas")
OWN = "gfx942-ck-free.acme.apb"


def op(kernel: str, **more: Any) -> Op:
    recipe = R(kernel=kernel, steps=[S(symbol=kernel)], blob=kernel)
    return Op("o", [T("x", "f32", ["N"])], recipes=[recipe], kernels=[kernel], **more)


def own_bytes(*ops: Op, **facts: Any) -> bytes:
    facts = {
        "profile": "ck-free.acme",
        "distribution": "acme",
        "provenance": '{"tools":{},"cus":[304]}',
        **facts,
    }
    return synthetic.bundle_bytes(list(ops or (op("own"),)), **facts)


@pytest.fixture
def folder(native: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the product's bundle, which is all that is installed."""
    place = tmp_path / "bundles"
    place.mkdir()
    data = synthetic.bundle_bytes([op("k")], provenance='{"tools":{},"cus":[304]}')
    (place / "gfx942-ck-free.apb").write_bytes(data)
    monkeypatch.setenv(locate.VARIABLE, str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(own_bundles.WITHOUT, raising=False)
    monkeypatch.setattr(own_bundles, "_refused", {})
    for cached in (dispatch.bundles_of, dispatch._opened):
        cached.cache_clear()
    yield place
    for cached in (dispatch.bundles_of, dispatch._opened):
        cached.cache_clear()


def served() -> tuple[list[str], list[str]]:
    """Return the names of the bundles that serve gfx942, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = [Path(bundle.path).name for bundle in dispatch.bundles_of("gfx942", "device 0")]
    return names, [str(each.message) for each in caught]


def told(verb: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a verb and return its JSON, checked."""
    command([verb, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, json.loads((SCHEMAS / f"{verb}.json").read_text()))
    return found


def other_format(data: bytes) -> bytes:
    """The same bundle as another format would have it."""
    draft = header.HEADER.pack(
        *(99 if place == 1 else field for place, field in enumerate(header.HEADER.unpack_from(data)))
    )
    draft = draft[: header.HASHED]
    return draft + hashlib.sha256(draft).digest() + data[header.HEADER_SIZE :]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda: own_bytes()[:-64], "it was cut or grew", id="truncated"),
        pytest.param(lambda: own_bytes()[:100], "too few", id="cut in the header"),
        pytest.param(lambda: other_format(own_bytes()), "bundle format 99", id="another format"),
        pytest.param(lambda: own_bytes(target="gfx950"), "its content is for gfx950", id="another target"),
        pytest.param(
            lambda: own_bytes(profile="ck-free.zeta"), "its content is for gfx942", id="another tree"
        ),
        pytest.param(lambda: own_bytes(profile="ck-free"), "its content is for gfx942", id="the product's"),
        pytest.param(lambda: own_bytes(vendor=1), "of nvidia", id="another vendor"),
    ],
)
def test_a_bad_bundle_is_refused_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], make: Callable[[], bytes], said: str
) -> None:
    (folder / OWN).write_bytes(make())
    (folder / "gfx942-ck-free.zeta.apb").write_bytes(own_bytes(op("z"), profile="ck-free.zeta"))
    names, warned = served()
    assert names == ["gfx942-ck-free.apb", "gfx942-ck-free.zeta.apb"]
    assert (
        len(warned) == 1 and said in warned[0] and f"the own bundle {folder / OWN} is not used" in warned[0]
    )
    report = told("doctor", capsys)
    assert [row["ok"] for row in report["bundles"] if row["tree"] == "acme"] == [False]
    assert report["problems"] == [] and any(said in text for text in report["warnings"])
    assert [(each["tree"], each["operator"]) for each in report["overlaps"]] == [("zeta", "o")]
    assert command(["list"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "zeta adds 1 kernel to o on gfx942, before those of aiter-prebuilt" in shown
    assert "is not used" in shown
    assert {row["tree"] for row in told("list", capsys)["kernels"]} >= {"", "zeta"}


@pytest.mark.parametrize("name", ["gfx942-ck-free..apb", "gfx950-ck-free..apb", "gfx942-ck-full..apb"])
def test_an_empty_name_of_a_tree_is_refused_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Such a file would count as the product's, whose errors stop all."""
    (folder / name).write_bytes(own_bytes(profile="ck-free."))
    (folder / OWN).write_bytes(own_bytes())
    names, warned = served()
    assert names == ["gfx942-ck-free.apb", OWN]
    assert len(warned) == 1 and f"the own bundle {folder / name} is not used" in warned[0]
    assert "no name of a tree" in warned[0]
    assert own_bundles.is_own(name) and not own_bundles.is_own("gfx942-ck-free.apb")
    report = told("doctor", capsys)
    assert report["problems"] == [] and any("no name of a tree" in text for text in report["warnings"])
    told("list", capsys)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    own_bundles._refused.clear()
    dispatch.bundles_of.cache_clear()
    names, warned = served()
    assert names == ["gfx942-ck-free.apb", OWN]
    assert len(warned) == 1 and "a named pipe" in warned[0]


def test_what_is_no_file_or_has_no_bundle_s_name_is_refused(folder: Path) -> None:
    os.mkfifo(folder / OWN)
    (folder / "gfx942-strange.beta.apb").write_bytes(own_bytes())
    names, warned = served()
    assert names == ["gfx942-ck-free.apb"]
    assert len(warned) == 2 and "a named pipe" in warned[1] + warned[0]


def test_two_files_of_one_tree_in_the_setting(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / OWN).write_bytes(own_bytes())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / OWN).write_bytes(own_bytes(op("different")))
    monkeypatch.setenv(locate.VARIABLE, os.pathsep.join((str(folder), str(tmp_path / "other"))))
    names, warned = served()
    assert names == ["gfx942-ck-free.apb", OWN]
    assert len(warned) == 1 and "is of the same tree, target and profile" in warned[0]


def test_an_unsigned_bundle_is_refused_where_keys_are_set(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = KeyPair.generate()
    (tmp_path / "key.pub").write_bytes(bytes(pair.public_key) + b"\n")
    monkeypatch.setenv(opening.KEYS, str(tmp_path / "key.pub"))

    def sign(name: str, version: str) -> None:
        signed = pair.secret_key.sign(
            (folder / name).read_bytes()[:128], trusted_comment=f"version:{version}"
        )
        (folder / f"{name}.minisig").write_bytes(bytes(signed) + b"\n")

    sign("gfx942-ck-free.apb", "99.0.0")
    (folder / OWN).write_bytes(own_bytes())
    names, warned = served()
    assert names == ["gfx942-ck-free.apb"] and len(warned) == 1 and "there is no signature" in warned[0]
    sign(OWN, "0.0.1")  # its releases are its own
    dispatch.bundles_of.cache_clear()
    dispatch._opened.cache_clear()
    assert served()[0] == ["gfx942-ck-free.apb", OWN]


def test_overlaps_that_the_runtime_refuses_are_said_before_any_call(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / OWN).write_bytes(own_bytes(op("own", signature="o(y)"), replace(op("more"), name="more")))
    report = told("list", capsys)
    (refused,) = report["refused"]
    assert (
        refused["operator"] == "o"
        and "its signature is 'o(y)', that of aiter-prebuilt is 'o(x)'" in refused["reason"]
    )
    assert report["overlaps"] == []
    (folder / OWN).write_bytes(own_bytes(op("k")))
    own_bundles._refused.clear()
    (refused,) = told("list", capsys)["refused"]
    assert "aiter-prebuilt has k[v], too" in refused["reason"]


def test_a_tree_is_left_out_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / OWN).write_bytes(own_bytes())
    monkeypatch.setenv(own_bundles.WITHOUT, "zeta, acme")
    assert served() == (["gfx942-ck-free.apb"], [])


def test_golden_calls_that_were_wrong_refuse_a_bundle_until_they_are_right(folder: Path) -> None:
    (folder / OWN).write_bytes(own_bytes())
    data = own_bytes()[:128]
    own_bundles.mark(data, "its golden calls ended the process that executed them")
    names, warned = served()
    assert names == ["gfx942-ck-free.apb"]
    assert (
        "its golden calls ended the process" in warned[0] and "aiter-prebuilt verify --execute" in warned[0]
    )
    own_bundles.mark(data, "")
    dispatch.bundles_of.cache_clear()
    dispatch._opened.cache_clear()
    assert served()[0] == ["gfx942-ck-free.apb", OWN]


def test_own_bundles_alone_serve_a_device(folder: Path) -> None:
    (folder / "gfx942-ck-free.apb").unlink()
    (folder / OWN).write_bytes(own_bytes())
    assert served() == ([OWN], [])


def test_a_bad_bundle_of_the_product_is_an_error_as_before(folder: Path) -> None:
    (folder / OWN).write_bytes(own_bytes())
    product = folder / "gfx942-ck-free.apb"
    product.write_bytes(product.read_bytes()[:-1])
    with pytest.raises(aiter_prebuilt.errors.BundleDamagedError):
        dispatch.bundles_of("gfx942", "device 0")
