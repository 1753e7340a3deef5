"""Parts of a certificate: names of the site, the page, the verdict, and children that end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiter_prebuilt.certificate import ceilings
from aiter_prebuilt.certificate.anonymous import anonymous, public_version, without_site
from aiter_prebuilt.certificate.child import Say, lines
from aiter_prebuilt.certificate.document import Certificate
from aiter_prebuilt.certificate.golden_calls import Golden
from aiter_prebuilt.certificate.page import page
from aiter_prebuilt.contract.calls import Call
from aiter_prebuilt.errors import ArgumentError, WorkerError

WORDS = {"/home/jane doe": "(path)", "node7": "(host)", "janedoe": "(user)"}
CARD = {
    "name": "AMD Instinct MI300X", "arch": "gfx942", "target": "gfx942", "compute_units": 304, "memory_bytes": 1 << 37,
    "driver_version": 7, "embedded": False, "runtime": "0.1.0", "state": "0" * 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Cannot open /home/jane doe/x.apb: it is empty", "Cannot open (path): it is empty"),
        ("read '/srv/a b/c.calls' again", "read (path) again"),
        ("acme/bundles/gfx942.apb has 3 bytes", "(path) has 3 bytes"),
        ("~/x, ../y and C:\\Users\\j", "(path), (path) and (path)"),
        ("janedoe on node7.acme.internal, NODE7", "(user) on (host), (host)"),
        ("10.1.2.3 and fe80::1:2:3 at 0000:c1:00.0, 02:42:ac:11:00:02", "(address) and (address) at (address), (address)"),
        ("GPU-12345678-1234-1234-1234-123456789abc is lost", "(number) is lost"),
        ("https://wiki.acme.com/x or jane@acme.com", "(address) or (address)"),
        ("out[3, 1]: 1.5 is not in [0.25, 0.5]; M / N", "out[3, 1]: 1.5 is not in [0.25, 0.5]; M / N"),
        ("rms_norm N=64 T=bf16: needs N <= BLOCK and M <= BM // 2", "rms_norm N=64 T=bf16: needs N <= BLOCK and M <= BM // 2"),
        ("version 2.9.1, 16x64, a node70", "version 2.9.1, 16x64, a node70"),
    ],
)  # fmt: skip
def test_takes_out_names_of_a_site(text: str, left: str) -> None:
    assert anonymous(text, WORDS) == left


def test_fields_of_the_bundle_stay_as_they_are() -> None:
    row = {"label": "M=1 janedoe", "problems": ["janedoe"], "worst": 0.5, "rows": ({"kernel": "node7"},)}
    clean = {"label": "M=1 janedoe", "problems": ["(user)"], "worst": 0.5, "rows": [{"kernel": "node7"}]}
    assert without_site(row, WORDS) == clean


@pytest.mark.parametrize(
    ("version", "public"),
    [
        ("2.9.0+rocm7.0", "2.9.0+rocm7.0"),
        ("2.9.0+cu128", "2.9.0+cu128"),
        ("2.9.0+acme.3", "2.9.0"),
        ("2.9", "2.9"),
    ],
)
def test_a_local_version_that_a_site_named_is_dropped(version: str, public: str) -> None:
    assert public_version(version) == public


def says_two(say: Say) -> None:
    say({"a": 1})
    say({"a": 2})


def dies(say: Say) -> None:
    say({"a": 1})
    os.kill(os.getpid(), signal.SIGKILL)


def raises(say: Say) -> None:
    say({"a": 1})
    raise ValueError("no such thing")


def hangs(say: Say) -> None:
    say({"a": 1})
    time.sleep(60)


def test_a_child_says_lines() -> None:
    assert list(lines(says_two)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("work", "said"),
    [(dies, "its process ended by signal 9"), (raises, "ValueError: no such thing"), (hangs, "it said nothing for 0.5 seconds")],
)  # fmt: skip
def test_a_child_that_ends_early_is_an_error_after_its_lines(work: Callable[[Say], None], said: str) -> None:
    found: list[dict[str, Any]] = []
    with pytest.raises(WorkerError) as caught:
        found.extend(lines(work, silence=0.5))
    assert found == [{"a": 1}] and caught.value.found == said


def certificate(folder: Path, *labels: str, missing: tuple[str, ...] = ()) -> Certificate:
    calls = tuple(Call("rms_norm", label, {}, ()) for label in labels)
    golden = Golden(calls, missing, (), frozenset({"part"}), 0)
    return Certificate(folder, dict(CARD), [], golden)


def line(label: str, *problems: str, operator: str = "rms_norm", worst: float | None = 0.5) -> dict[str, Any]:
    return {
        "version": 3, "operator": operator, "label": label, "device": "it", "target": "gfx942", "kernel": "k", "variant": "v",
        "backend": "hip", "launched": [], "recipes": [], "reference": "", "judge": "0" * 16, "worst": worst, "seconds": 0.1,
        "problems": list(problems),
    }  # fmt: skip


def measured(made: Certificate) -> None:
    made.measured = {name: {"found": None, "problem": ""} for name in ceilings.names()}


def test_the_verdict_is_right_only_when_all_was_done(tmp_path: Path) -> None:
    made = certificate(tmp_path, "M=1", "M=2")
    made.add(line("M=1"))
    assert made.verdict == "incomplete" and made.not_done[0] == "1 of 2 golden calls"
    made.add(line("M=2"))
    measured(made)
    assert (made.verdict, made.not_done, made.wrong) == ("right", [], [])
    made.measured["launch"]["problem"] = "it ended its process"
    assert (made.verdict, made.wrong) == ("wrong", ["launch: it ended its process"])


def test_a_wrong_call_and_an_operator_without_one_are_wrong(tmp_path: Path) -> None:
    made = certificate(tmp_path, "M=1", missing=("silu",))
    made.add(line("M=1", "out: nan"))
    assert made.wrong == ["rms_norm M=1: out: nan", "silu: no golden call of it is installed"]
    nothing = certificate(tmp_path, "M=1")
    nothing.add(line("M=1", worst=None))
    assert nothing.wrong == ["rms_norm M=1: nothing was compared"]


def test_a_call_that_a_partial_bundle_lacks_is_left_out(tmp_path: Path) -> None:
    made = certificate(tmp_path, "M=1")
    made.add(line("M=1", "NoKernelError: none", operator="part", worst=None))
    made.add(line("M=1"))
    measured(made)
    document = made.as_json()
    assert made.verdict == "right"
    assert [row["operator"] for row in document["golden"]["left_out"]] == ["part"]
    assert [row["operator"] for row in document["golden"]["lines"]] == ["rms_norm"]


def test_a_certificate_is_continued_for_the_same_card_alone(tmp_path: Path) -> None:
    made = certificate(tmp_path, "M=1")
    made.add(line("M=1"))
    made.measured["launch"] = {"found": None, "problem": ""}
    made.write()
    again = certificate(tmp_path, "M=1")
    assert again.resume() == 2 and again.lines == made.lines and again.measured == made.measured
    for change in ({"card": {**CARD, "driver_version": 8}}, {"bundles": [{"target": "gfx942"}]}):
        other = certificate(tmp_path, "M=1")
        for name, value in change.items():
            setattr(other, name, value)
        with pytest.raises(ArgumentError, match="Name another folder"):
            other.resume()
    (tmp_path / "certify.json").write_text("{}")
    with pytest.raises(ArgumentError, match="no certificate that can be continued"):
        certificate(tmp_path, "M=1").resume()


def test_the_page_is_self_contained_and_escapes_texts(tmp_path: Path) -> None:
    made = certificate(tmp_path, "M=1")
    made.add(line("M=1", "<script>alert(1)</script>"))
    made.states = [{"clock_mhz": 2100, "notes": ["the card is shared: 2 other processes compute on it"]}]
    text = page(made.as_json())
    assert text.startswith("<!doctype html>") and "<script" not in text and "&lt;script&gt;" in text
    assert not any(word in text for word in ("http:", "https:", "src=", "href=", "url("))
    assert "2100 MHz" in text and "The card is shared" in text and 'class="verdict wrong"' in text
