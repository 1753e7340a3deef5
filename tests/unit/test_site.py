"""The page of ``site``: its files say what the documents say, no text is markup, nothing names another machine."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import page, repository

from build_tools.__main__ import cli
from build_tools.errors import SiteError, UsageError
from build_tools.judge.receipts import Receipt
from build_tools.release import record
from build_tools.report.coverage import compute
from build_tools.site import documents, models, tables, write

ROOT = Path(__file__).resolve().parents[2]
VOID = {"meta", "link", "br", "img", "input"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    write.write(made, page.content())
    return made


def table(folder: Path, name: str) -> Any:
    """What a file of data hands over."""
    text = (folder / "data" / f"{name}.js").read_text()
    found = re.fullmatch(r'site\.take\("([^"]+)",(.*)\);\n', text, re.DOTALL)
    assert found is not None and found[1] == name
    return json.loads(found[2])


def test_the_counts_are_the_documents(folder: Path) -> None:
    told, index = page.documents(), table(folder, "index")
    rows = {row["operator"]: row for row in told["coverage"]["rows"]}
    assert [row["name"] for row in index["operators"]] == sorted(rows)
    entries = sum(cell["entries"] for row in rows.values() for cell in row["cells"].values())
    assert entries == sum(cell[3] for row in index["operators"] for cell in row["cells"])
    assert entries == sum(row["entries"] for row in told["status"]["kernels"]) - 2
    assert index["built"] == [entries, entries - 2] and index["receipts"] == page.RECEIPTS + 1
    assert index["targets"] == list(page.TARGETS) and index["backends"] == ["ck", "triton"]
    assert index["release"]["release"] == "0.2.0"
    assert [record["release"] for record in table(folder, "sizes")] == ["0.1.0", "0.2.0"]
    assert table(folder, "times") == [page.time(), page.time(True)]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("operator_000", "proved"),
        (page.HOSTILE, "built"),
        ("only_declared", "declared"),
        ("lacking", "missing"),
        ("half", "missing on gfx950"),
    ],
)
def test_states(folder: Path, name: str, state: str) -> None:
    (row,) = (row for row in table(folder, "index")["operators"] if row["name"] == name)
    assert row["state"] == state


def test_one_kernel_without_a_receipt_makes_its_operator_built() -> None:
    told = page.documents()
    (one,) = (row for row in told["coverage"]["rows"] if row["operator"] == "operator_000")
    one["cells"]["triton/gfx942"] |= {"entries": 4}
    one["status"] = "covered, 2 not proved"
    (row,) = (row for row in tables.operators(told) if row["name"] == "operator_000")
    assert row["state"] == "built"
    assert [cell[2:] for cell in row["cells"]] == [["built", 4, 2], ["proved", 2, 2]]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("proved", "proved"),
        ("missing on gfx950", "missing on gfx950"),
        ("missing", "missing"),
        ("covered, 1 not proved", "covered, 1 not proved"),
    ],
)
def test_an_operator_is_proved_where_the_coverage_says_so(status: str, state: str) -> None:
    told = page.documents()
    (one,) = (row for row in told["coverage"]["rows"] if row["operator"] == "operator_000")
    one["status"] = status
    (row,) = (row for row in tables.operators(told) if row["name"] == "operator_000")
    assert row["state"] == state and [cell[2] for cell in row["cells"]] == ["proved", "proved"]


def test_a_target_that_the_coverage_lacks_is_the_ledgers() -> None:
    told = page.documents()
    told["status"]["kernels"] += [page.kernel("operator_000", "sm_90"), page.kernel("operator_000", "sm_90")]
    (row,) = (row for row in tables.operators(told) if row["name"] == "operator_000")
    assert [cell[0] for cell in row["cells"]] == ["gfx942", "gfx950", "sm_90"]
    assert row["cells"][2] == ["sm_90", "triton", "proved", 4, 4]


def test_the_bundles_say_how_much_is_built() -> None:
    told = page.content()
    assert write.data(replace(told, here=True))["index"]["built"] == [3000, 2]
    assert write.data(told)["index"]["here"] is False


def test_each_receipt_is_there_in_full(folder: Path) -> None:
    found = table(folder, "operator/operator_000")
    assert len(found["receipts"]) == page.RECEIPTS
    row, one = found["receipts"][7], page.receipt("operator_000", 7)
    said = found["said"]
    assert row[:3] == ["operator_000_row", one["variant"], "gfx942"]
    assert (said[row[3]], said[row[4]], said[row[11]]) == (one["device"], one["checks"], "triton 3.9.0")
    assert row[5:11] == [3, 0.25, one["code_objects"], one["recipe"], one["reference"], one["cases"]]


def test_a_kernel_is_proved_where_all_that_was_built_of_it_is() -> None:
    told = page.documents()
    declared = page.kernel("operator_000", "gfx942", "source only")
    told["status"]["kernels"].append(declared)
    first = models.pages(told)["A-Model"]["calls"][0][6][0]
    assert first[9] is True
    declared["state"] = "compiled"
    assert models.pages(told)["A-Model"]["calls"][0][6][0][9] is False


def test_sizes_that_choose_alike_are_one_run() -> None:
    (model,) = models.overview(page.documents())
    assert model["sums"]["gfx942"][""] == {"steps": [4, 5], "sizes": [5, 5]}
    assert model["sums"]["gfx950"]["vllm"] == {"steps": [0, 1], "sizes": [0, 1]}
    found = models.pages(page.documents())["A-Model"]
    said = found["said"]
    first, other, host = found["calls"]
    runs = [(said[run[0]], run[1], run[2], said[run[5]], said[run[6]]) for run in first[6]]
    assert runs == [
        ("gfx942", 1, 8, "operator_000_row", "4096 · 8192"),
        ("gfx942", 64, 64, "other_row", "4096"),
        ("gfx950", 1, 1, "", ""),
    ]
    # other_row has no line in the ledger, HOSTILE's kernel was compiled and not proved
    assert [run[9] for call in (first, other, host) for run in call[6]] == [True, False, False, False, False]
    assert tables.pages(page.documents())["operator_000"]["models"] == [["A-Model", 4, 3]]


class Tags(HTMLParser):
    """Every tag is closed by its own, every id is there once."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in told), (tag, told)
        self.ids += [told["id"] or ""] if "id" in told else []
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_is_well_formed_and_names_its_own_files_only(folder: Path) -> None:
    text = (folder / "index.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and len(set(tags.ids)) == len(tags.ids)
    assert '<html lang="en">' in text and "{{" not in text
    for link in tags.links:
        assert link.startswith(("#", "data:,")) or (folder / link).is_file(), link
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy[1] and "http" not in policy[1]


def test_no_file_of_ours_asks_another_machine(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".js", ".css", ".html") and not path.name.startswith("uPlot"):
            assert "//" not in re.sub(r"(?m)(^|\s)//.*$", "", path.read_text()).replace("data:,", ""), (
                path.name
            )
    for path in write.PAGE.glob("*.js"):
        text = path.read_text()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
            "XMLHttpRequest",
        ):
            assert word not in text, (path.name, word)


def test_no_text_of_a_document_ends_a_script(folder: Path) -> None:
    for path in (folder / "data").rglob("*.js"):
        assert "<" not in path.read_text(), path
    assert page.HOSTILE in json.dumps(table(folder, "index")).replace('\\"', '"')


def test_names_of_files() -> None:
    assert tables.file_of("rms_norm") == "rms_norm" and tables.file_of("Llama-3.1-8B") == "Llama-3.1-8B"
    strange = [page.HOSTILE, "../../x", "", ".", "a/b", "x" * 200]
    names = [tables.file_of(name) for name in strange]
    assert len(set(names)) == len(names) and all(re.fullmatch("[0-9a-f]{24}", name) for name in names)


def test_a_release_is_escaped(tmp_path: Path) -> None:
    told = page.content()
    write.write(tmp_path, write.Content(told.documents, [page.release(page.HOSTILE, 1000)], []))
    text = (tmp_path / "index.html").read_text()
    assert page.HOSTILE not in text and "&lt;/script&gt;" in text


def test_the_same_documents_make_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    count = write.write(tmp_path, page.content())
    files = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) == count
    assert files == {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_page_is_written_again_and_nothing_else_is(tmp_path: Path) -> None:
    write.write(tmp_path, page.content())
    (tmp_path / "data" / "operator" / "gone.js").write_text("old")
    write.write(tmp_path, page.content())
    assert not (tmp_path / "data" / "operator" / "gone.js").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    with pytest.raises(SiteError, match="holds something else"):
        write.write(other, page.content())
    assert [path.name for path in other.iterdir()] == ["letter.txt"]


def test_vendored_files_are_the_pinned_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (write.VENDOR / "THIRD_PARTY.txt").read_text()
    assert "MIT" in text and "Copyright (c) 2022 Leon Sorokin" in text
    for name in write.PINS:
        (tmp_path / name).write_bytes((write.VENDOR / name).read_bytes() + b" ")
    monkeypatch.setattr(write, "VENDOR", tmp_path)
    with pytest.raises(SiteError, match="not the file that is pinned"):
        write.write(tmp_path / "site", page.content())


@pytest.mark.parametrize("name", sorted({**documents.NEEDED, **documents.MORE}))
def test_a_row_that_is_none_is_refused_by_its_place(tmp_path: Path, name: str) -> None:
    folder, field = page.written(tmp_path), {**documents.NEEDED, **documents.MORE}[name]
    told = page.documents()[name]
    good = told[field][0]
    assert documents.read(folder)[name] == told
    rows: list[Any] = [1, None, [], {}, {**good, "target": 1, "status": 1, "what": None}]
    for broken in rows:
        (folder / f"{name}.json").write_text(json.dumps({**told, field: [good, broken]}))
        with pytest.raises(SiteError, match=rf"{field}\[1\] (is|has no)"):
            documents.read(folder)


@pytest.mark.parametrize("name", sorted(documents.NEEDED))
def test_what_is_no_document_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = page.written(tmp_path)
    for broken in ("{", "[]", '{"version": 2}', json.dumps({**page.documents()[name], "version": 99})):
        (folder / f"{name}.json").write_text(broken)
        with pytest.raises(SiteError, match=f"python -m build_tools {name} --json"):
            documents.read(folder)
    (folder / f"{name}.json").unlink()
    with pytest.raises(SiteError, match=name):
        documents.read(folder)


def test_the_verb_from_files(tmp_path: Path) -> None:
    told = page.written(tmp_path / "documents")
    (told / "shapes.json").unlink()
    earlier = tmp_path / record.NAME
    earlier.write_bytes(record.text(page.release("0.0.9", 5000)))
    times = tmp_path / "times"
    times.mkdir()
    (times / "one.json").write_text(json.dumps({"version": 1, "verb": "bench", **page.time()}))
    out, none = tmp_path / "out", tmp_path / "none"
    words = [
        "site",
        str(out),
        "--documents",
        str(told),
        "--record",
        str(earlier),
        "--times",
        str(times),
        "--bundles",
        str(none),
    ]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0 and str(out / "index.html") in done.output
    index = table(out, "index")
    assert (
        index["models"] is None
        and index["modules"] == ["module_norm", "module_ranks"]
        and "shapes" not in index["has"]
        and not (out / "data" / "model").exists()
    )
    assert [each["release"] for each in table(out, "sizes")] == ["0.0.9"]
    assert table(out, "times") == [page.time()]
    silent = {key: value for key, value in page.time().items() if key != "embedded"}
    for broken in ({"version": 1, "verb": "explain"}, {"version": 1, "verb": "bench", **silent}):
        (times / "one.json").write_text(json.dumps(broken))
        with pytest.raises(SiteError, match="aiter-prebuilt bench"):
            CliRunner().invoke(cli, words, catch_exceptions=False)


def test_predicted_times_are_the_models(tmp_path: Path) -> None:
    text = "target,cus,M,N,kernel,variant,types,us,source\n"
    text += "gfx950,256,4,64,operator_000_row,4096,bf16,7.25,modelled; the cost rule's\n"
    text += "gfx950,256,8,64,operator_000_row,4096,bf16,1.0,measured\n"
    path = tmp_path / "operator_000.csv"
    path.write_text(text)
    assert documents.predicted([path]) == [page.predicted()]
    for broken in ("target,cus\n", text + "gfx950,x\n"):
        path.write_text(broken)
        with pytest.raises(SiteError, match="tune --by-model"):
            documents.predicted([path])
    told, out = page.written(tmp_path / "documents"), tmp_path / "out"
    path.write_text(text)
    words = ["site", str(out), "--documents", str(told), "--predicted", str(tmp_path)]
    words += ["--bundles", str(tmp_path / "none")]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    found = table(out, "predicted")
    assert found["rows"] == [page.predicted()]
    fitted = json.loads((ROOT / "build_tools/timing/fitted.json").read_text())["families"]
    assert {row["family"]: row["median"] for row in found["errors"]} == {
        name: family["held_out"]["median"] for name, family in fitted.items()
    }


def test_the_receipts_that_hold_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(operator: str, target: str) -> Receipt:
        tools = {"triton": "3", "clang": "2"}
        return Receipt(
            f"{operator}-{target}", "norm", f"{operator}.row", "1 T=bf16", target, "a device", "races", frozenset(("b", "a")),
            "meaning", "calls", 4, 0.5, tools,
        )  # fmt: skip

    held = [made("two", "gfx950"), made("two", "gfx942"), made("one", "gfx942")]
    monkeypatch.setattr("build_tools.prove.known.known", lambda root: {each.digest: each for each in held})
    rows = json.loads(CliRunner().invoke(cli, ["receipts", "--json"]).output)["receipts"]
    assert [row["recipe"] for row in rows] == ["one-gfx942", "two-gfx942", "two-gfx950"]
    assert rows[0] == {
        "operator": "one", "family": "norm", "kernel": "one.row", "variant": "1 T=bf16", "target": "gfx942", "device": "a device",
        "checks": "races", "calls": 4, "worst": 0.5, "code_objects": ["a", "b"], "recipe": "one-gfx942", "reference": "meaning",
        "cases": "calls", "tools": {"clang": "2", "triton": "3"}, "cards": {},
    }  # fmt: skip
    words = ["receipts", "--json", "--operator", "two", "--target", "gfx950"]
    (row,) = json.loads(CliRunner().invoke(cli, words).output)["receipts"]
    assert row["recipe"] == "two-gfx950"
    assert "3 receipts" in CliRunner().invoke(cli, ["receipts"]).output
    with pytest.raises(UsageError, match="no receipt of such an operator"):
        CliRunner().invoke(cli, ["receipts", "--operator", "three"], catch_exceptions=False)
    assert CliRunner().invoke(cli, ["receipts", "--json", __file__]).exit_code == 2


def test_coverage_tells_what_an_operator_is() -> None:
    table = compute(repository.manifest(), "ck-full", ("gfx942", "gfx950"), None)
    rows = {row["operator"]: row for row in table.as_json()["rows"]}
    told = rows["rms_norm"]
    assert (told["family"], told["module"]) == ("norm", "module_rmsnorm")
    assert told["signature"].startswith("rms_norm(input: torch.Tensor, weight: torch.Tensor, epsilon: float")
    assert told["summary"]
