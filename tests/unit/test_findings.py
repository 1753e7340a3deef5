"""``hsa/findings.toml``: each finding is about bytes that the pinned tree has."""

from __future__ import annotations

import sys
from pathlib import Path

from build_tools.objects import codeobject
from build_tools.tools import tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def test_each_finding_is_about_bytes_of_the_tree() -> None:
    table = tomllib.loads((ROOT / "hsa/findings.toml").read_text())
    assert table["edition"] == 1 and table["finding"]
    for row in table["finding"]:
        assert set(row) == {"file", "sha256", "kernel", "offset", "check", "what", "calls"}
        assert row["check"] in ("addresses", "lds", "races", "hazards", "alignment")
        if tree.tree_of(row["file"], ROOT).pinned:
            assert tree.digest(row["file"], ROOT) == row["sha256"]
            facts = codeobject.read(tree.located(row["file"], ROOT).read_bytes())
            assert row["kernel"] in [kernel.symbol for kernel in facts.kernels]
