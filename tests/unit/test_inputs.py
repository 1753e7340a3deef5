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


@pytest.mark.parametrize(
    "text",
    [
        "if True:\n    import os; import b\n", "from b import (\n    x,\n)\n", "from . import (\n    os,\n    b,\n)\n",
        "from \\\n    b \\\n    import x\n", "import os, \\\n    b\n", "from .b import x\n", "import b.x as y\n",
    ],
)  # fmt: skip
def test_an_import_may_be_written_in_any_way(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.py").write_text(text)
    (tmp_path / "b.py").write_text("x = 1\n")
    assert closure("k.py", tmp_path, sibling_imports) == ("k.py", "b.py")


def test_a_source_that_names_no_file_beside_it_is_not_read_as_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.py").write_text("import os\nbeside = 1\n")
    (tmp_path / "beside.py").write_text("")
    monkeypatch.setattr("build_tools.compile.backends.built.ast.parse", None)
    assert closure("k.py", tmp_path, sibling_imports) == ("k.py",)
