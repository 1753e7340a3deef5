"""From a device to its bundles: opened once for all devices of a target, and a failure is not remembered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiter_prebuilt import dispatch, locate
from aiter_prebuilt.errors import NoBundleError

FREE = locate.InstalledBundle("/made/up/gfx942-ck-free.apb", "gfx942", "ck-free")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No other test's bundles, and none of these left behind."""
    for cached in (dispatch.bundles_of, dispatch._opened):
        cached.cache_clear()
    yield
    for cached in (dispatch.bundles_of, dispatch._opened):
        cached.cache_clear()


def test_devices_of_one_target_share_their_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(locate, "installed", lambda: (FREE,))
    monkeypatch.setattr(locate, "open_bundle", lambda bundle: opened.append(bundle) or object())
    first, second = (dispatch.bundles_of("gfx942", f"device {ordinal}") for ordinal in range(2))
    assert first[0] is second[0]
    assert opened == [FREE]


def test_a_bundle_installed_after_a_failure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    have: list[locate.InstalledBundle] = []
    monkeypatch.setattr(locate, "installed", lambda: tuple(have))
    monkeypatch.setattr(locate, "open_bundle", lambda bundle: bundle.path)
    with pytest.raises(NoBundleError, match="device 0"):
        dispatch.bundles_of("gfx942", "device 0")
    have.append(FREE)
    assert dispatch.bundles_of("gfx942", "device 0") == (FREE.path,)
