"""The files that a compile reads; a source that is broken must fail its own job, not the plan of all the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_tools.compile.backends.built import closure, quoted_includes, sibling_imports


def test_siblings_and_includes_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\nimport json\n")
    (tmp_path / "b.py").write_text("from c import x\n")
    (tmp_path / "c.py").write_text("x = 1\n")
    (tmp_path / "k.hip").write_text('#include "k.hpp"\n#include <cmath>\n')
    (tmp_path / "k.hpp").write_text('#include "k.hpp"\n')
    assert closure("a.py", tmp_path, sibling_imports) == ("a.py", "b.py", "c.py")
    assert closure("k.hip", tmp_path, quoted_includes) == ("k.hip", "k.hpp")


@pytest.mark.parametrize("content", [b"def (\n", b"\xff\xfe\x00", b"import b\n\x00"])
def test_a_broken_python_source_has_no_siblings(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.py").write_bytes(content)
    (tmp_path / "b.py").write_text("")
    assert closure("a.py", tmp_path, sibling_imports) == ("a.py",)
