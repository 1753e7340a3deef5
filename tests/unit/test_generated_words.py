"""The small parts of what is generated: dims as Python, where a size is to be had, and a block of a manifest."""

from __future__ import annotations

import pytest

from build_tools.generate import result_allocation, scaffold
from build_tools.generate.python_text import substituted
from build_tools.manifest.grammar import parse_tensor


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("N", "x.shape[1]"), ("N * 2 + M", "x.shape[1] * 2 + m"), ("cdiv(N, 4)", "-(-x.shape[1] // 4)"),
        ("min(N, M)", "min(x.shape[1], m)"), ("max(cdiv(M, 2), 1)", "max(-(-m // 2), 1)"),
        ("f.cdiv(N, 4)", "f.cdiv(x.shape[1], 4)"),
    ],
)  # fmt: skip
def test_a_dim_as_python(expression: str, text: str) -> None:
    assert substituted(expression, {"N": "x.shape[1]", "M": "m"}) == text
    with pytest.raises(KeyError, match="N"):
        substituted("N + 1", {"M": "m"})


def test_where_a_size_is_to_be_had() -> None:
    given = [
        parse_tensor(name, text, {})
        for name, text in (("a", "f32[*M, N, K, 3, K*2]"), ("b", "f32[P, _, N, Q]"), ("c", "f32[*Q, M]"))
    ]
    assert result_allocation._places(given) == {
        "N": "a.shape[-4]", "K": "a.shape[-3]", "P": "b.shape[0]", "Q": "b.shape[3]", "M": "c.shape[-1]",
    }  # fmt: skip


def test_a_block_ends_where_its_lines_do() -> None:
    first = "[x]\nb = 2\n[x.y]\n# inside\n\nc = 3"
    for behind in ("", "\n", "\n\n# of the next one\n", "\n# a\n\n# b\n\n"):
        assert scaffold._block(f"a = 1\n{first}\n{behind}[xy]\nd = 4\n[w]\n", "x") == first
    assert scaffold._block(f"{first}\n[xy]\nd = 4\n[[x.z]]\ne = 5\n", "x") == f"{first}\n[[x.z]]\ne = 5"
    assert scaffold._block("", "x") == scaffold._block("# [x]\n", "x") == ""
    assert scaffold._block("[x]\n\n# none", "x") == "[x]"
