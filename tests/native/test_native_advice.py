"""What a missing or stale native extension advises: in a checkout it is compiled, elsewhere it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiter_prebuilt.devices import native
from aiter_prebuilt.errors import NativeError


@pytest.mark.parametrize(("checkout", "words"), [(True, "build_tools develop"), (False, "force-reinstall")])
def test_the_remedy_fits_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkout: bool, words: str
) -> None:
    if checkout:
        verb = tmp_path / "build_tools/verbs/develop.py"
        verb.parent.mkdir(parents=True)
        verb.touch()
    monkeypatch.setattr(native, "__file__", str(tmp_path / "src/aiter_prebuilt/devices/native.py"))
    monkeypatch.setattr(native, "NATIVE_ABI", -1)
    with pytest.raises(NativeError, match=words):
        native.module()
