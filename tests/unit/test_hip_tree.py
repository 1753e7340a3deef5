"""HIP sources of a source tree: which files a compile may read, which kernel a name means, one compile for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import trees
from support.compiling import separate_job

from build_tools.compile.backends import hip, hip_tree
from build_tools.compile.fingerprint import file_of
from build_tools.errors import JobFailedError
from build_tools.tools import fetch

SOURCE = "thing:csrc/kernels/a.cu"
FILES = {
    "meta/csrc/kernels/a.cu": b'#include <torch/all.h>\n#include "b.h"\n# include "deep.h"\n#include <cmath>\n',
    "meta/csrc/kernels/b.h": b'#include "../include/c.h"\n#include "../../../outside.h"\n',
    "meta/csrc/include/c.h": b'#include "b.h"\n#include "ck_tile/core.hpp"\n',
    "meta/csrc/include/ck_tile/deep.h": b"",
    "meta/csrc/include/unused.h": b"",
}
OURS = {"torch/all.h": '#include "../names.hpp"\n', "names.hpp": "", "ck_tile/core.hpp": "", "other.hpp": ""}
JOB = replace(separate_job("one"), source=SOURCE, symbol="a::k<bf16, 8>", inputs=(SOURCE,))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    place = trees.repository(tmp_path / "repository", tmp_path / "shelf", FILES)
    for name, text in OURS.items():
        file = place / hip_tree.STAND_IN / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place


def test_the_key_covers_all_that_may_be_included_and_nothing_else(root: Path) -> None:
    """Beside the file that names it first, then ours, then the tree's; what neither has is the toolchain's."""
    assert hip.expand(SOURCE, "any", root) == (
        SOURCE, "csrc/stand_in/ck_tile/core.hpp", "csrc/stand_in/names.hpp", "csrc/stand_in/torch/all.h",
        "thing:csrc/include/c.h", "thing:csrc/include/ck_tile/deep.h", "thing:csrc/kernels/b.h",
    )  # fmt: skip


def test_a_source_that_the_tree_lacks_fails_its_job(root: Path) -> None:
    with pytest.raises(JobFailedError) as caught:
        hip.expand("thing:csrc/kernels/gone.cu", "any", root)
    assert "no such file" in caught.value.found and caught.value.fix == "Correct source in the manifest"


def judged(*read: str) -> list[str]:
    known = {
        Path("/tree/csrc/kernels/a.cu"): SOURCE,
        Path("/here/csrc/stand_in/ck_tile/core.hpp"): "csrc/stand_in/ck_tile/core.hpp",
    }
    return hip_tree.judged(JOB, map(Path, read), known, (Path("/tree/csrc"), Path("/here/csrc")))


def test_what_was_read_is_named_and_the_toolchain_is_not() -> None:
    assert judged("/tree/csrc/kernels/a.cu", "/here/csrc/stand_in/ck_tile/core.hpp", "/clang/include/math.h") == [
        "csrc/stand_in/ck_tile/core.hpp", SOURCE
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        "/opt/rocm/include/ck_tile/core.hpp",
        "/tree/3rdparty/composable_kernel/x.hpp",
        "/any/ck/utility/x.hpp",
        "/any/ck_helper/x.h",
    ],
)
def test_a_file_of_composable_kernel_is_refused_wherever_it_lies(path: str) -> None:
    with pytest.raises(JobFailedError) as caught:
        judged("/tree/csrc/kernels/a.cu", path)
    assert caught.value.asked == f"compile {SOURCE} without Composable Kernel for one"
    assert caught.value.found == f"the compiler read {path}"
    assert caught.value.fix == "Say what the source needs of it in csrc/stand_in, in words of our own"


def test_so_is_one_that_the_manifest_names() -> None:
    known = {Path("/tree/ck/a.cu"): "thing:ck/a.cu", Path("/tree/h.h"): "thing:ck_helper/h.h"}
    for path in known:
        with pytest.raises(JobFailedError, match="without Composable Kernel"):
            hip_tree.judged(JOB, [path], known, ())


def test_a_file_that_the_key_does_not_cover_is_refused() -> None:
    for path in ("/tree/csrc/include/hidden.h", "/here/csrc/kernels/hip/common.hpp"):
        with pytest.raises(JobFailedError) as caught:
            judged(path)
        assert caught.value.found == f"the compiler read {path}, which the key of the job does not cover"


SYMBOLS = (
    "_ZN1a1kIDF16bLi8EEEvPT_",
    "_ZN1a1kIDF16_Li8EEEvPT_",
    "_ZN1a4bothIiEEvPT_",
    "_ZN1a4bothIiEEvPT_i",
    "plain",
)


def test_a_kernel_is_meant_by_its_name_or_its_symbol() -> None:
    assert hip_tree.chosen(JOB, SYMBOLS) == SYMBOLS[0]
    assert hip_tree.chosen(replace(JOB, symbol="a::k<f16, 8>"), SYMBOLS) == SYMBOLS[1]
    assert hip_tree.chosen(replace(JOB, symbol="plain"), SYMBOLS) == "plain"
    assert hip_tree.chosen(replace(JOB, symbol=SYMBOLS[3]), SYMBOLS) == SYMBOLS[3]


def test_the_target_says_which_fp8_a_later_sources_is() -> None:
    fp8 = JOB.target.fp8
    assert (
        hip_tree.chosen(replace(JOB, symbol=f"a::k<{fp8}>"), ["_ZN1a1kIDB8_EEvPT_", "_ZN1a1kIaEEvPT_"])
        == "_ZN1a1kIDB8_EEvPT_"
    )


def test_a_name_that_none_or_several_have_says_which_there_are() -> None:
    with pytest.raises(JobFailedError) as caught:
        hip_tree.chosen(replace(JOB, symbol="a::k<f32, 8>"), SYMBOLS)
    assert caught.value.asked == f"find kernel 'a::k<f32, 8>' of {SOURCE} for one"
    assert (
        caught.value.found
        == "it has 5 kernels, and none has that name; near: a::k<f16, 8>; a::k<bf16, 8>; a::both<i32>"
    )
    with pytest.raises(JobFailedError) as caught:
        hip_tree.chosen(replace(JOB, symbol="a::both<i32>"), SYMBOLS)
    assert caught.value.found == f"these have that name: {SYMBOLS[2]}, {SYMBOLS[3]}"
    with pytest.raises(JobFailedError, match="has 0 kernels, and none has that name; near: none"):
        hip_tree.chosen(JOB, ())


def test_all_kernels_of_a_file_are_one_compile() -> None:
    other = replace(JOB, id="two", symbol="a::k<f16, 8>", block=(64, 1, 1), kernarg_size=8)
    whole = file_of(JOB)
    assert whole is not None and whole == file_of(other) and whole.symbol == ""
    assert file_of(replace(JOB, target=replace(JOB.target, name="gfx950"))) != whole
    assert file_of(separate_job("own")) is None and file_of(replace(JOB, backend="asm")) is None
