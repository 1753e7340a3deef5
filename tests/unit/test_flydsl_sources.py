"""Which files a FlyDSL source is made of: what its key covers, and what is refused before anything is compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.compiling import TOOLS, job

from build_tools.compile.backends import flydsl
from build_tools.compile.backends.flydsl_sources import module_of, sources_of
from build_tools.compile.fingerprint import job_key
from build_tools.errors import JobFailedError
from build_tools.records import CompileJob

FILES = {
    "k/rows.py": "import os, torch\nimport flydsl.expr as fx\nfrom parts.math import half\nfrom parts import more as other\n",
    "k/parts/__init__.py": "from .deep.tables import TABLE\n",
    "k/parts/math.py": "from . import more\nfrom .deep import numbers\n\ndef half(x):\n    import late\n    return x / 2\n",
    "k/parts/more.py": "from flydsl.expr import gpu\n",
    "k/parts/deep/tables.py": "from ..more import gpu\nTABLE = {}\n",
    "k/parts/deep/numbers.py": "",
    "k/late.py": "import parts.deep.numbers\n",
    "k/os.py": "raise ImportError\n",
    "k/torch.py": "raise ImportError\n",
    "k/flydsl/expr.py": "raise ImportError\n",
    "k/parts/unused.py": "",
    "parts/math.py": "",
}
READ = (
    "k/rows.py", "k/late.py", "k/parts/__init__.py", "k/parts/deep/numbers.py", "k/parts/deep/tables.py", "k/parts/math.py",
    "k/parts/more.py",
)  # fmt: skip


def placed(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def job_of(root: Path, source: str = "k/rows.py") -> CompileJob:
    return replace(
        job("made-up"), backend="flydsl", source=source, inputs=flydsl.expand(source, "rows", root)
    )


def test_modules_packages_and_relative_imports_are_read_and_no_library(tmp_path: Path) -> None:
    assert sources_of("k/rows.py", placed(tmp_path, FILES)) == READ


@pytest.mark.parametrize("name", READ)
def test_a_byte_more_in_any_of_them_is_another_key(tmp_path: Path, name: str) -> None:
    root = placed(tmp_path, FILES)
    before = job_key(job_of(root), TOOLS, root)
    (root / name).write_text(FILES[name] + "#")
    assert job_key(job_of(root), TOOLS, root) != before


@pytest.mark.parametrize("name", sorted(FILES.keys() - set(READ)))
def test_a_byte_more_in_what_nobody_reads_is_the_same_key(tmp_path: Path, name: str) -> None:
    root = placed(tmp_path, FILES)
    before = job_key(job_of(root), TOOLS, root)
    (root / name).write_text(FILES[name] + "#")
    assert job_key(job_of(root), TOOLS, root) == before


def test_a_package_that_comes_to_stand_before_a_module_is_another_key(tmp_path: Path) -> None:
    root = placed(tmp_path, {"rows.py": "import parts\n", "parts.py": ""})
    before = job_key(job_of(root, "rows.py"), TOOLS, root)
    placed(root, {"parts/__init__.py": ""})
    assert sources_of("rows.py", root) == ("rows.py", "parts/__init__.py")
    assert job_key(job_of(root, "rows.py"), TOOLS, root) != before


def test_modules_have_the_names_that_imports_use() -> None:
    assert module_of("k/rows.py", "k/parts/math.py") == "parts.math"
    assert module_of("k/rows.py", "k/parts/__init__.py") == "parts"
    assert module_of("rows.py", "a/b/__init__.py") == "a.b"
    assert module_of("k/rows.py", "k/rows.py") == "rows"


def test_what_is_no_python_has_no_imports(tmp_path: Path) -> None:
    root = placed(tmp_path, {"rows.py": "import parts\n", "parts.py": "def ("})
    assert sources_of("rows.py", root) == ("rows.py", "parts.py")


@pytest.mark.parametrize(
    ("link", "to", "source"),
    [
        ("tree/parts.py", "secret.py", "rows.py"),
        ("tree/parts", "packages", "package.py"),
        ("tree/rows2.py", "secret.py", "rows2.py"),
        ("tree/parts.py", "tree/../secret.py", "rows.py"),
    ],
)
def test_links_that_lead_out_of_the_tree_are_refused(tmp_path: Path, link: str, to: str, source: str) -> None:
    placed(
        tmp_path,
        {
            "secret.py": "",
            "packages/__init__.py": "",
            "tree/rows.py": "import parts\n",
            "tree/package.py": "import parts\n",
        },
    )
    (tmp_path / link).symlink_to(tmp_path / to)
    with pytest.raises(
        JobFailedError, match=f"compile {source}: .*leads out of its tree, to .*(secret|packages)"
    ):
        sources_of(source, tmp_path / "tree")


def test_a_link_inside_the_tree_is_a_file_of_it(tmp_path: Path) -> None:
    root = placed(tmp_path, {"rows.py": "import parts\n", "other/real.py": "import more\n", "more.py": ""})
    (root / "parts.py").symlink_to("other/real.py")
    assert sources_of("rows.py", root) == ("rows.py", "more.py", "parts.py")
    before = job_key(job_of(root, "rows.py"), TOOLS, root)
    (root / "other/real.py").write_text("import more #\n")
    assert job_key(job_of(root, "rows.py"), TOOLS, root) != before


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    root = placed(tmp_path, {"rows.py": "import parts\n"})
    (root / "parts.py").symlink_to("nothing.py")
    with pytest.raises(JobFailedError, match=r"parts\.py is no file of the repository"):
        sources_of("rows.py", root)


@pytest.mark.parametrize("source", ["../rows.py", "k/../../rows.py", "missing.py", "k"])
def test_sources_that_are_none_are_refused(tmp_path: Path, source: str) -> None:
    placed(tmp_path, {"rows.py": "", "tree/k/more.py": ""})
    with pytest.raises(JobFailedError, match=r"leads out of its tree|is no file of the repository"):
        sources_of(source, tmp_path / "tree")


@pytest.mark.parametrize(
    ("text", "words"),
    [("from .. import secret", "2 dots, and lies in 1 packages"), ("from ...a import b", "3 dots")],
)
def test_imports_from_above_the_source_are_refused(tmp_path: Path, text: str, words: str) -> None:
    root = placed(
        tmp_path, {"k/rows.py": "import parts.one\n", "k/parts/one.py": f"\n{text}\n", "secret.py": ""}
    )
    with pytest.raises(JobFailedError, match=rf"compile k/rows\.py: k/parts/one\.py:2 imports with {words}"):
        sources_of("k/rows.py", root)
