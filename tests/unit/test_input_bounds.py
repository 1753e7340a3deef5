"""Files that somebody else wrote are read in bounded time: manifests, tables of measured rows, axes of variants."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.made_manifest import placed, problems_of

from aiter_prebuilt.contract import tuned_grammar
from aiter_prebuilt.contract.bytecode import INT64_MAX
from build_tools.files.regular import read_regular
from build_tools.manifest.parse import MOST, MOST_LINE, document
from build_tools.manifest.problems import Problems


def _problem(path: Path) -> str:
    problems = Problems()
    with problems.file(path.name):
        assert document(path, problems) is None
    (line,) = problems.lines
    return line


def test_a_named_pipe_is_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "operators.toml"
    os.mkfifo(path)
    assert "cannot be read: not a regular file" in _problem(path)


def test_a_manifest_of_one_long_line_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "operators.toml"
    path.write_text("edition = 2\n" + "a." * 100_000 + "b = 1\n")
    assert f"line 2 has 200005 characters; at most {MOST_LINE} are read" in _problem(path)
    path.write_text("# " + "x" * (MOST_LINE - 2) + "\nedition = 2\n")
    assert document(path, Problems()) == {"edition": 2}


def test_a_manifest_of_more_than_a_mebibyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "operators.toml"
    path.write_text("# a line\n" * (MOST // 9 + 1))
    assert f"larger than {MOST} bytes" in _problem(path)


def test_reads_a_regular_file_and_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_regular(tmp_path / "b", 3) == b"abc"
    with pytest.raises(OSError, match="larger than 2 bytes"):
        read_regular(tmp_path / "a", 2)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path)


def test_a_table_with_too_many_columns_is_refused() -> None:
    table = tuned_grammar.read("target,cus,kernel,variant,types," + ",".join(map(str, range(150_000))) + "\n")
    (problem,) = table.problems
    assert "names 150005 columns" in problem.text


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 5000, str(INT64_MAX + 1)])
def test_a_cell_with_too_many_digits_is_no_number(digits: str) -> None:
    text = f"target,cus,M,kernel,variant,types\ngfx942,304,{digits},k,v,bf16\n"
    (problem,) = tuned_grammar.read(text).problems
    assert (
        problem.text.startswith("M is '9")
        and problem.text.endswith("not a number")
        and len(problem.text) < 80
    )
    right = text.replace(digits, "0" * 5000 + str(INT64_MAX))
    (row,) = tuned_grammar.read(right).rows
    assert row.values == (INT64_MAX,)


def test_a_product_of_axes_of_a_million_variants_is_refused(tmp_path: Path) -> None:
    axes = ", ".join(f"A{axis} = [{', '.join(map(str, range(10)))}]" for axis in range(6))
    found = problems_of(placed(tmp_path), ("BLOCK = [1024, 4096]", f"BLOCK = [1024, 4096], {axes}"))
    assert any(
        "16000000 combinations of types and variants on gfx942; at most 16384 are planned" in line
        for line in found
    ), found
