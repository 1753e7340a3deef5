"""Wrong results at the tuned call's own size, who wins, and the state of a card."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt.errors import DriverError, NoKernelError
from aiter_prebuilt.tuning.card_state import State, amd_state
from aiter_prebuilt.tuning.judged import difference, sample
from aiter_prebuilt.tuning.measure import Tuner
from aiter_prebuilt.tuning.outcome import Limits, Measured, Timing, decide
from aiter_prebuilt.tuning.replays import spread_of


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def test_results_that_differ_by_roundings_are_right() -> None:
    right = floats(*[1.0] * 1000)
    assert difference("f32", right, right) == ""
    assert difference("f32", floats(*[1.001] * 1000), right) == ""


def test_wrong_results_are_described() -> None:
    right = floats(*[1.0] * 1000)
    assert difference("f32", floats(*[1.1] * 1000), right) == "it is 0.1 of the norm away"
    hole = floats(*[1.0] * 999, float("nan"))
    said = "1 of 1000 elements are NaN where the others are not, or are not written"
    assert difference("f32", hole, right) == said and difference("f32", right, hole) == said
    assert difference("f32", hole, hole[:-4] + struct.pack("<f", float("nan"))) == ""
    assert difference("f32", floats(1.0), floats(0.0)) == "it is inf of the norm away"


def test_integers_may_differ_seldom() -> None:
    right = struct.pack("<100i", *range(100))
    assert difference("i32", struct.pack("<100i", *range(99), 7), right) == ""
    assert difference("i32", bytes(400), right) == "99.0% of its integers differ"
    assert difference("i8", bytes([1] * 100), bytes(100)) == "", (
        "codes of int8 next to each other are roundings"
    )
    assert difference("i8", bytes([2] * 100), bytes(100)) == "100.0% of its integers differ"


def test_a_sample_has_the_first_and_the_last_elements() -> None:
    data = random.Random(1).randbytes(2 * 100_000)
    found = sample(data, 2)
    assert len(found) == 2 * 128 * 256
    assert found[:512] == data[:512] and found[-512:] == data[-512:]
    assert sample(data[:100], 2) == data[:100]


def timed(
    cold: float, *, default: bool = False, problem: str = "", spread: float = 0.01, warm: float = 1.0
) -> Timing:
    name = "default" if default else f"v{cold:g}"
    return Timing("k", name, "hip", "bf16", default, cold, warm, spread, problem)


def winner(*candidates: Timing, limits: Limits = Limits(0.05, None)) -> str:  # noqa: B008  # frozen
    found = Measured("op", "op", {}, "bf16", list(candidates))
    decide(found, limits)
    return found.problem if found.best is None else found.candidates[found.best].variant


def test_the_fastest_wins_where_it_beats_the_default_by_more_than_noise() -> None:
    assert winner(timed(10, default=True), timed(8), timed(9)) == "v8"
    assert winner(timed(10, default=True), timed(9.9)) == "default"


def test_a_wrong_candidate_never_wins() -> None:
    assert winner(timed(10, default=True), timed(1, problem="wrong")) == "default"
    assert winner(timed(10, default=True, problem="wrong"), timed(12)) == "v12"
    assert winner(timed(10, problem="wrong")) == "no candidate is right"


def test_an_unsteady_winner_has_no_row() -> None:
    assert (
        winner(timed(10, default=True), timed(5, spread=0.2))
        == "the times of k[v5] spread by 20% after 5 tries"
    )


def test_warm_times_rank_where_they_are_asked_for() -> None:
    pair = timed(10, default=True, warm=1.0), timed(8, warm=2.0)
    assert winner(*pair) == "v8" and winner(*pair, limits=Limits(0.05, None, cold=False)) == "default"


def test_the_spread_is_that_of_the_middle_half() -> None:
    assert spread_of([10.0] * 11) == 0.0
    assert spread_of([10.0] * 10 + [1000.0]) == 0.0, "one interrupt says nothing"
    assert spread_of([8.0, 12.0] * 6) == pytest.approx(0.4)


def compared(*results: bytes | Exception, passed: tuple[int, ...] = (0,)) -> list[str]:
    """The problems of candidates that write these bytes, or raise; the first is the default."""
    tuner = Tuner.__new__(Tuner)
    card: Any = SimpleNamespace(synchronize=lambda: None)
    tuner.card, tuner.limits, tuner._say = card, Limits(0.05, None), lambda _name: None
    written: list[bytes] = []

    def operator(result: bytes | Exception) -> Any:
        def launch(*_arguments: Any, stream: int) -> None:
            assert stream == 0
            if isinstance(result, Exception):
                raise result
            written[:] = [result]

        return launch

    inputs: Any = SimpleNamespace(
        sets=[[]], restore=written.clear, results=lambda _most: [("out", "f32", written[0])]
    )
    timings = [timed(place, default=place == 0) for place in range(len(results))]
    tuner._compare_results(timings, set(passed), [operator(each) for each in results], inputs, [])
    return [each.problem for each in timings]


def test_a_candidate_with_other_results_is_thrown_out() -> None:
    right, wrong = floats(1.0, 2.0, 3.0), floats(1.0, 2.0, 9.0)
    assert compared(right, right, wrong) == ["", "", "wrong: out: it is 1.6 of the norm away"]


def test_the_one_that_is_right_at_a_golden_call_judges() -> None:
    right, wrong = floats(1.0, 2.0, 3.0), floats(1.0, 2.0, 9.0)
    first, second, third = compared(wrong, right, right, passed=(2,))
    assert first.startswith("wrong: out: ") and (second, third) == ("", "")


def test_a_candidate_that_refuses_is_left_out_and_a_lost_device_ends_the_process() -> None:
    right = floats(1.0)
    assert compared(right, NoKernelError("op", "it has none", "")) == ["", "op: it has none."]
    with pytest.raises(DriverError):
        compared(right, DriverError("launch", "the driver answered 700", ""))


def test_the_state_of_an_amd_card(tmp_path: Path) -> None:
    assert amd_state(tmp_path / "nothing") == State()
    (tmp_path / "pp_dpm_sclk").write_text("0: 500Mhz\n1: 2100Mhz *\n")
    (tmp_path / "current_compute_partition").write_text("SPX\n")
    (tmp_path / "current_memory_partition").write_text("NPS1\n")
    (tmp_path / "gpu_busy_percent").write_text("3\n")
    assert amd_state(tmp_path) == State(2100)
    (tmp_path / "current_compute_partition").write_text("CPX\n")
    (tmp_path / "gpu_busy_percent").write_text("80\n")
    assert amd_state(tmp_path).notes == (
        "the card is in partition mode CPX",
        "the card was busy to 80 % before anything was timed: others use it",
    )
