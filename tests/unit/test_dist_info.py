"""What a wheel says about itself can be read back, and nothing invalid is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.metadata import Metadata

from build_tools.pack import dist_info, licences, sbom
from build_tools.tools import pins

ROOT = Path(__file__).resolve().parents[2]
ABOUT = dist_info.About(
    "What it is", "A text\nwith two lines.\n", ("aiter-prebuilt==1.0",), "py2.py3-none-any", True
)


def bill(name: str) -> sbom.Bill:
    return sbom.Bill(name, "1.0", b"bundle", ("hip", "triton"), {}, (("one.hip", "a" * 64),))


def test_the_files_say_what_was_asked() -> None:
    files = dist_info.members(ABOUT, bill("aiter-prebuilt-gfx950"), ROOT, pins.load(ROOT))
    folder = "aiter_prebuilt_gfx950-1.0.dist-info"
    assert {name.split("/")[0] for name in files} == {folder}
    read = Metadata.from_email(files[f"{folder}/METADATA"])
    assert (read.metadata_version, read.name, str(read.version)) == ("2.4", "aiter-prebuilt-gfx950", "1.0")
    assert read.license_expression == licences.expression(["hip", "triton"])
    assert [str(need) for need in read.requires_dist or ()] == ["aiter-prebuilt==1.0"]
    assert read.description == ABOUT.description
    assert {f"{folder}/licenses/{name}" for name in read.license_files or ()} < set(files)
    assert files[f"{folder}/WHEEL"].decode().splitlines() == [
        "Wheel-Version: 1.0",
        f"Generator: {dist_info.GENERATOR}",
        "Root-Is-Purelib: true",
        "Tag: py2-none-any",
        "Tag: py3-none-any",
        "",
    ]


def test_metadata_that_an_index_would_refuse_is_not_written() -> None:
    with pytest.raises(Exception, match="invalid metadata") as caught:
        dist_info.metadata(ABOUT, bill("not a name"))
    assert "not a name" in repr(caught.value)
