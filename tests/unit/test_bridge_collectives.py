"""``CustomAllreduce`` through the bridge: ours where it takes AITER's calls, AITER's own for methods that ours lacks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt import CustomAllreduce
from aiter_prebuilt.ops._rank_blocks import RankBlocks
from aiter_prebuilt_bridge import collectives, lookup_log, serving
from aiter_prebuilt_bridge.errors import CompileRefusedError
from aiter_prebuilt_bridge_hook import VARIABLE


class One:
    """A group of one rank: ours asks nothing of it, and no device."""

    rank, size = 0, 1

    def exchange(self, mine: bytes) -> list[bytes]:
        return [mine]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    kept = [*lookup_log.NAMES.items()]
    lookup_log.NAMES.clear()
    lookup_log._LOGGED.clear()
    yield
    lookup_log.NAMES.clear()
    lookup_log.NAMES.update(kept)


def module_of(**methods: Any) -> tuple[Any, list[Any]]:
    """A module with a class as AITER has it, and what becomes of those that are made."""
    made: list[Any] = []

    class Theirs:
        def __init__(
            self, group: Any, device: Any, max_size: int = 1 << 30, enable_register_for_capturing: bool = True
        ) -> None:
            lookup_log.compiling("module_custom_all_reduce")
            made.append((group, device, max_size))

        def capture(self) -> None: ...

        def should_custom_ar(self, inp: Any, prefill_support: bool = False) -> str:
            return "theirs"

        def all_reduce(self, inp: Any, *, out: Any = None) -> None: ...

        def custom_all_reduce(self, input: Any) -> None: ...

        def fused_qknorm_ar(self, q: Any, k: Any = 3) -> tuple[Any, Any]:
            return q, k

        def _private(self) -> None: ...

        def close(self) -> None:
            made.append("closed")

    for name, method in methods.items():
        setattr(Theirs, name, method)
    Theirs.__name__ = collectives.NAME
    module: Any = ModuleType(collectives.MODULE)
    Theirs.__module__ = module.__name__
    module.CustomAllreduce = Theirs
    return module, made


def test_the_class_is_ours_and_says_of_each_method_whose_it_is() -> None:
    module, made = module_of()
    theirs = module.CustomAllreduce
    collectives.replace(module)
    ours = module.CustomAllreduce
    assert (
        issubclass(ours, CustomAllreduce)
        and serving.is_replacement(ours)
        and ours.__module__ == module.__name__
    )
    assert getattr(ours, serving.MARK) is theirs
    whys = {name.partition(".")[2]: row.why for (_, name), row in lookup_log.NAMES.items()}
    assert whys.pop("fused_qknorm_ar") == "ours has no such method" and not any(whys.values())
    assert "_private" not in whys and "custom_all_reduce" in whys
    communicator = ours(One(), 0, max_size=1 << 20)
    assert communicator.disabled and communicator.world_size == 1 and communicator.max_size == 1 << 20
    communicator.close()
    assert not made
    collectives.replace(module)
    assert module.CustomAllreduce is ours


def test_a_method_that_ours_lacks_is_of_a_communicator_of_aiters_that_is_made_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module, made = module_of()
    collectives.replace(module)
    group = One()
    communicator = module.CustomAllreduce(group, "cuda:0", max_size=5)
    assert communicator.fused_qknorm_ar(1) == (1, 3) and communicator.fused_qknorm_ar(2, k=4) == (2, 4)
    assert made == [(group, "cuda:0", 5)]
    assert "a call goes to a communicator of AITER's own" in caplog.text
    communicator.close()
    assert made[1:] == ["closed"]


def test_aiters_own_methods_find_what_their_class_has_besides() -> None:
    module, _ = module_of(_SPLIT=7, helper=staticmethod(lambda: "helped"))
    theirs = module.CustomAllreduce
    theirs._private_constant = "kept"
    collectives.replace(module)
    ours = module.CustomAllreduce
    assert (ours._SPLIT, ours._private_constant) == (7, "kept")
    assert ours.defers_capture_registration is False, "ours, not AITER's"


def test_the_memory_may_be_asked_for_a_buffer_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As AITER's init_dist_env does, which keeps what it gets and reads it nowhere."""

    def init(self: Any, *_: Any, **__: Any) -> None:
        self._pool = object.__new__(RankBlocks)

    monkeypatch.setattr(CustomAllreduce, "__init__", init)
    module, _ = module_of()
    theirs = inspect.signature(module.CustomAllreduce.__init__)
    init.__signature__ = theirs  # type: ignore[attr-defined]
    collectives.replace(module)
    communicator = module.CustomAllreduce(One(), 0)
    assert communicator._pool["input"].tensor is None and isinstance(communicator._pool, RankBlocks)
    communicator._pool = None


def test_under_strict_such_a_call_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module, made = module_of()
    collectives.replace(module)
    communicator = module.CustomAllreduce(One(), 0)
    monkeypatch.setenv(VARIABLE, "strict")
    with pytest.raises(
        CompileRefusedError, match=r"CustomAllreduce\.fused_qknorm_ar.*ours has no such method"
    ):
        communicator.fused_qknorm_ar(1)
    assert not made


@pytest.mark.parametrize(
    ("name", "method", "words"),
    [
        ("custom_all_reduce", lambda self, inp, other: None, "custom_all_reduce: "),
        ("__init__", lambda self, group, device, more: None, "__init__: ours has no parameter more"),
        ("all_reduce", None, "all_reduce: AITER's has none"),
        ("should_custom_ar", lambda self, inp, prefill_support=True: None, "prefill_support means True"),
    ],
)
def test_a_class_whose_calls_ours_does_not_take_stays_aiters(name: str, method: Any, words: str) -> None:
    module, _ = module_of()
    theirs = module.CustomAllreduce
    if method is None:
        delattr(theirs, name)
    else:
        setattr(theirs, name, method)
    collectives.replace(module)
    assert module.CustomAllreduce is theirs
    row = lookup_log.NAMES[collectives.MODULE, collectives.NAME]
    assert words in row.why and not row.ours


def test_a_module_without_the_class_is_left_alone() -> None:
    module = ModuleType(collectives.MODULE)
    collectives.replace(module)
    assert not lookup_log.NAMES
