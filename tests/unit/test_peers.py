"""The table of other projects' tests, its page, and what the session makes of a run."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import peer_rows  # noqa: E402
import peers  # noqa: E402
import peers_page  # noqa: E402

SOURCE = {"project": "AITER", "commit": "x"}


def trees() -> dict[str, Any]:
    return {name: tree["rows"] for name, tree in peers.read()["trees"].items()}


def test_page_says_what_the_table_has() -> None:
    assert peers.PAGE.read_text(encoding="utf-8") == peers_page.page(
        peers.read(), peer_rows.entries("explained")
    )


#: Right cases that the table of each checkout has at least. Raise it with a new record; never lower it.
LEAST = {"e4048607a5": 2973, "e6015f3a6a": 580, "vLLM 4ba787ec9": 157, "Triton 7c56a5e40f": 444}


def test_right_cases_of_a_checkout_never_become_fewer() -> None:
    found = {name: peers_page.totals(rows)["right"] for name, rows in trees().items()}
    assert found.keys() == LEAST.keys()
    for name, least in LEAST.items():
        assert found[name] >= least, f"{name}: {found[name]} right cases, the table had {least}"


def test_table_has_rows_of_the_session_alone() -> None:
    assert trees()
    for rows in trees().values():
        assert rows and not rows.keys() - peer_rows.rows().keys()
        for name, row in rows.items():
            assert sum(row.get(each, 0) for each in peers_page.OUTCOMES) == row["cases"], name
            reasons = sum(count for count, _, _ in row["reasons"])
            assert row["end"] or row.get("right", 0) + reasons == row["cases"], (
                f"{name}: not all, and no reason"
            )


def test_table_names_no_folder_of_a_machine() -> None:
    """A line of a process that ended names its files as the project and the checkout have them."""
    folders = re.findall(r"(?<![\w.<])/(?:[\w.-]+/){2,}", peers.TABLE.read_text(encoding="utf-8"))
    assert folders == []
    text = f"import under {peer_rows.ROOT}/src/a.py, {Path('/some/aiter')}/b.py"
    assert peers.named_shortly(text, Path("/some/aiter")) == "import under src/a.py, b.py"


def test_table_is_one_line_a_row() -> None:
    table = peers.read()
    text = peers.text_of(table)
    assert text == peers.TABLE.read_text(encoding="utf-8") and json.loads(text) == table
    assert len(text.splitlines()) == 2 + sum(len(rows) + 2 for rows in trees().values())


def test_every_explanation_explains_something() -> None:
    ended = [
        (row, "ended", figures["end"])
        for rows in trees().values()
        for row, figures in rows.items()
        if figures["end"]
    ]
    asked = ended + [
        (row, outcome, text)
        for rows in trees().values()
        for row, figures in rows.items()
        for _, outcome, text in figures["reasons"]
    ]
    for each in peers_page.explanations(peer_rows.entries("explained")):
        assert any(peers_page.explained(row, outcome, text, [each]) for row, outcome, text in asked), (
            each.match.pattern
        )


def test_every_table_says_its_project_and_commit() -> None:
    for name, tree in peers.read()["trees"].items():
        source = tree["source"]
        assert name == (
            source["commit"] if source["project"] == "AITER" else f"{source['project']} {source['commit']}"
        )
        assert {peer_rows.project_of(row).name for row in tree["rows"]} == {source["project"]}


def test_page_of_another_project_names_its_commit_and_aiters() -> None:
    source = {"project": "vLLM", "commit": "abc", "aiter": "x"}
    rows = {"vllm:ops.gfx942": row(3, 1, (1, "not built", "B"), (1, "no kernel", "K"))}
    page = peers_page.page({"trees": {"vLLM abc": {"source": source, "rows": rows}}}, ENTRIES)
    assert "| vLLM abc (AITER x) | 1 | 3 | 1 | 2 | 50.0 % | 1 | 100.0 % |" in page
    assert "## vLLM abc: each row" in page and "| ops.gfx942 | 3 | 1 |" in page


def test_a_row_that_does_not_exist_is_named() -> None:
    known = peer_rows.rows()
    assert peer_rows.chosen(["quant"], known) == ["quant.gfx942", "quant.gfx950"]
    assert peer_rows.chosen(["quant.gfx950"], known) == ["quant.gfx950"]
    with pytest.raises(SystemExit, match="no row 'qant'"):
        peer_rows.chosen(["qant"], known)


def test_summary_counts_each_outcome() -> None:
    lines: list[dict[str, Any]] = [
        {"case": "test_a", "outcome": "right", "why": ""},
        {"case": "test_a", "outcome": "refused", "why": "X"},
        {"case": "test_a", "outcome": "refused", "why": "X"},
        {"case": "", "outcome": "other", "why": "SystemExit: 2"},
    ]
    found = peers.summary(lines, "")
    assert (found["cases"], found.get("right"), found["failed"], found["refused"]) == (3, None, 1, 2)
    lines[0]["outcome"] = "no comparison"
    assert peers.summary(lines, "")["failed"] == 1
    lines[0] |= {"outcome": "right", "checks": 1}
    found = peers.summary(lines, "")
    assert (found["cases"], found["right"], found["refused"]) == (3, 1, 2)
    assert found["reasons"] == [[2, "refused", "X"]] and found["end"] == "other: SystemExit: 2"


def test_a_file_that_judges_at_its_end_compares_all_its_cases() -> None:
    cases: list[dict[str, Any]] = [
        {"case": "bench_a", "outcome": "no comparison", "why": "the case compares nothing"},
        {"case": "bench_a", "outcome": "no kernel", "why": "the case launches no kernel"},
    ]
    yes, no = (
        {"case": "", "outcome": "ended", "why": ""},
        {"case": "", "outcome": "other", "why": "SystemExit: 1"},
    )
    found = peers.summary([*cases, yes], "", judged=True)
    assert (found["right"], found["no kernel"], found.get("no comparison")) == (1, 1, None)
    assert found["reasons"] == [[1, "no kernel", "the case launches no kernel"]]
    assert peers.summary([*cases, yes], "")["no comparison"] == 1
    for lines, end in (([*cases, no], ""), (cases, "cut off"), ([*cases, yes], "exit code 1")):
        copies = [dict(line) for line in lines]
        assert "right" not in peers.summary(copies, end, judged=True)


def test_files_with_settings_of_their_own_have_rows() -> None:
    named = {row.rpartition(".")[0] for row in peer_rows.rows()}
    data = peer_rows.settings()
    assert set(data["judged_at_end"]) | set(data["cases"]) | set(data["targets"]) <= named


def test_cases_that_no_machine_passes_are_told_by_row_and_reason() -> None:
    entries = [{"rows": "^mha_varlen", "match": "^other: RuntimeError: Mismatch", "outcome": "own error"}]
    lines: list[dict[str, Any]] = [
        {"case": "test_a", "outcome": "other", "why": "RuntimeError: Mismatch in shape"},
        {"case": "test_a", "outcome": "failed", "why": "RuntimeError: Mismatch in shape"},
        {"case": "", "outcome": "other", "why": "RuntimeError: Mismatch in shape"},
    ]
    found = [line["outcome"] for line in peers.reclassified("mha_varlen.gfx942", lines, entries)]
    assert found == ["own error", "failed", "other"]
    assert peers.reclassified("mha.gfx942", lines, entries) == lines
    assert {each["outcome"] for each in peer_rows.entries("reclassified")} <= set(peers_page.UNJUDGED)


def test_torch_refuses_a_gradient_of_another_shape_without_any_kernel() -> None:
    """The evidence for mha_varlen: the reference of the test, plain torch, cannot end with such a gradient."""
    torch = pytest.importorskip("torch")
    q, k = (torch.randn(4, 192, requires_grad=True) for _ in range(2))
    v = torch.randn(4, 128, requires_grad=True)
    out = (q @ k.T).softmax(-1) @ v
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output") as caught:
        torch.autograd.grad(out, (q, k, v), torch.randn_like(q))
    entry = next(each for each in peer_rows.entries("reclassified") if each["rows"] == "^mha_varlen")
    assert re.search(entry["match"], f"other: RuntimeError: {caught.value}")


@pytest.mark.parametrize(("option", "right"), [("--record", 3), ("--record-fewer", 2)])
def test_record_lowers_a_row_only_when_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, right: int
) -> None:
    (tmp_path / "op_tests").mkdir()
    (tmp_path / "op_tests" / "test_quant.py").touch()
    old = {"cases": 3, "right": 3, "reasons": [], "end": ""}
    new = {"cases": 3, "right": 2, "failed": 1, "reasons": [[1, "failed", "X"]], "end": ""}
    monkeypatch.setattr(peers, "TABLE", tmp_path / "table.json")
    monkeypatch.setattr(peers, "PAGE", tmp_path / "page.md")
    peers.TABLE.write_text(json.dumps({"trees": {"x": {"source": SOURCE, "rows": {"quant.gfx942": old}}}}))
    monkeypatch.setenv("AITER_DIR", str(tmp_path))
    monkeypatch.setenv("AITER_COMMIT", "x")
    monkeypatch.setattr(sys, "argv", ["peers", option, "quant.gfx942"])
    monkeypatch.setattr(peers, "run", lambda *_: new)
    assert peers.main() == 1
    assert peers.read()["trees"]["x"]["rows"]["quant.gfx942"]["right"] == right


def test_a_failed_comparison_of_another_size_is_not_explained() -> None:
    known = peers_page.explanations(peer_rows.entries("explained"))
    judged = peers_page.explained("moe_blockscale.gfx942", "failed", "checkAllclose: 8.59% outside", known)
    assert judged is not None
    other = peers_page.explained("moe_blockscale.gfx942", "failed", "checkAllclose: 80.59% outside", known)
    assert other is None


@pytest.mark.parametrize(("right", "code"), [(2, 0), (1, 1), (3, 0)])
def test_session_fails_when_a_number_goes_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, right: int, code: int
) -> None:
    (tmp_path / "op_tests").mkdir()
    monkeypatch.setenv("AITER_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["peers", "quant.gfx942"])
    monkeypatch.setenv("AITER_COMMIT", "x")
    (tmp_path / "op_tests" / "test_quant.py").touch()
    table = {"trees": {"x": {"rows": {"quant.gfx942": {"cases": 3, "right": 2, "reasons": [], "end": ""}}}}}
    monkeypatch.setattr(peers, "read", lambda: table)
    monkeypatch.setattr(peers, "run", lambda *_: {"cases": 3, "right": right, "reasons": [], "end": ""})
    assert peers.main() == code


def test_record_keeps_rows_that_did_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "op_tests").mkdir()
    (tmp_path / "op_tests" / "test_quant.py").touch()
    old = {"cases": 3, "right": 3, "reasons": [], "end": ""}
    new = {"cases": 4, "right": 4, "reasons": [], "end": ""}
    monkeypatch.setattr(peers, "TABLE", tmp_path / "table.json")
    monkeypatch.setattr(peers, "PAGE", tmp_path / "page.md")
    peers.TABLE.write_text(
        json.dumps(
            {
                "trees": {
                    "x": {"source": SOURCE, "rows": {"rope.gfx942": old}},
                    "y": {"source": SOURCE, "rows": {"quant.gfx942": old}},
                }
            }
        )
    )
    monkeypatch.setenv("AITER_DIR", str(tmp_path))
    monkeypatch.setenv("AITER_COMMIT", "x")
    monkeypatch.setattr(sys, "argv", ["peers", "--record", "quant.gfx942", "sample.gfx942"])
    monkeypatch.setattr(peers, "run", lambda *_: new)
    assert peers.main() == 0
    written = peers.read()["trees"]
    assert written["x"]["rows"] == {"quant.gfx942": new, "rope.gfx942": old}
    assert written["y"]["rows"] == {"quant.gfx942": old}
    assert "| quant.gfx942 | 4 | 4 |" in peers.PAGE.read_text(encoding="utf-8")


ENTRIES: list[dict[str, Any]] = [
    {"match": "^slow: TimeUp", "says": "the case takes long"},
    {"match": "^failed: checkAllclose", "rows": "^mla", "says": "ties in bf16"},
]
REFUSED = "ArgumentDTypeError: norm: argument input: its type is f32, the signature says T, which is {} in this call"


def row(cases: int, right: int, *reasons: tuple[int, str, str]) -> dict[str, Any]:
    figures = Counter({"cases": cases, "right": right})
    for count, outcome, _ in reasons:
        figures[outcome] += count
    return {**figures, "reasons": [list(each) for each in reasons], "end": ""}


def test_reasons_are_grouped_over_rows_most_frequent_first() -> None:
    rows = {
        "a.gfx942": row(
            5, 2, (2, "refused", REFUSED.format("f16")), (1, "slow", "TimeUp: longer than 30.0 s")
        ),
        "b.gfx950": row(4, 1, (3, "refused", REFUSED.format("bf16"))),
        "mla.gfx942": row(
            2, 0, (1, "failed", "checkAllclose: 1.00% outside"), (1, "failed", "checkAllclose: 2.00% outside")
        ),
        "c.gfx942": row(1, 0, (1, "failed", "checkAllclose: 3.00% outside")),
    }
    found = peers_page.groups(rows, peers_page.explanations(ENTRIES))
    assert [(each.cases, each.outcome, each.says) for each in found] == [
        (5, "refused", "norm: type f32 for argument input"),
        (2, "failed", "ties in bf16"),
        (1, "failed", "a comparison of the test lies outside its tolerance"),
        (1, "slow", "the case takes long"),
    ]
    assert found[0].rows == {"a.gfx942", "b.gfx950"}


def test_shares_leave_out_cases_that_no_card_could_pass() -> None:
    rows = {
        "a.gfx942": row(
            8, 2, (1, "own error", "X"), (1, "other", "Y"), (2, "not replaced", "Z"), (1, "no kernel", "K"),
            (1, "no comparison", "C"),
        ),
        "b.gfx942": row(2, 1, (1, "triton", "T")),
    }  # fmt: skip
    total = peers_page.totals(rows)
    assert (total["cases"], total["right"], total["possible"], total["ours"]) == (10, 3, 7, 4)
    page = peers_page.page({"trees": {"x": {"source": SOURCE, "rows": rows}}}, ENTRIES)
    assert "| AITER x | 2 | 10 | 3 | 7 | 42.9 % | 4 | 75.0 % |" in page


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "CompileRefusedError: call get_padded_m: AITER would compile module_x now, because there is no function of ours with",
            "get_padded_m",
        ),
        (
            "CompileRefusedError: launch aiter.ops.triton.gemm._gemm_kernel: Triton would compile it now, because no data wheel",
            "_gemm_kernel",
        ),
        (
            "UnsupportedError: f(bias=...): no prebuilt kernel covers it. use bias=None; help(f) says",
            "f(bias=...)",
        ),
        (
            "NoKernelError: f: all 16 candidates were refused. Change what the reasons below name / k 1: dim must be even",
            "f: k 1: dim must be even",
        ),
        ("ArgumentDTypeError: f: x must be bf16, got f32. Convert it first.", "f: type f32 for argument x"),
        ("ArgumentStrideError: f: x must be contiguous, got strides [8]. Call", "f: x must be contiguous"),
        ("UnsupportedError: f(requires_grad=True): x requires a gradient, and", "f(requires_grad=True)"),
        (
            "CompileRefusedError: Cannot call f: AITER would compile m now, because there is no function of ours",
            "f",
        ),
        (
            "NoKernelError: f: no kernel takes this call: all 2 candidates were refused. Change one of these: / k 1: no",
            "f: k 1: no",
        ),
        (
            "ArgumentStrideError: f: argument x: it is not contiguous: shape [32, 8]. Call it",
            "f: argument x: it is not contiguous",
        ),
        ("x" * 300, "x" * 106 + " ..."),
    ],
)
def test_a_reason_is_one_short_line(text: str, says: str) -> None:
    assert peers_page.short(text) == says
