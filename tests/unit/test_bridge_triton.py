"""Triton's cache through the bridge, without Triton: its modules are stand-ins that ask as it does."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from unit.test_bridge_cache import SEED, TARGET, seeds, unpacked

from aiter_prebuilt.contract.kernel_cache import differences
from aiter_prebuilt.contract.triton_key import PARTS, CompileInputs, base32, parts_of
from aiter_prebuilt_bridge import cache_data, lookup_log, triton_cache
from aiter_prebuilt_bridge.errors import CacheDamagedError, CompileRefusedError
from build_tools.pack.cache_wheel import Seed

KERNEL = "aiter.ops.triton.x._kernel"
KEY = hashlib.sha256(b"triton key").hexdigest()
COMPILER = """
def compile(src, key, manager):
    backend, options, env_vars = src.backend, src.options, src.environment
    return manager(key).get_group(f"{src.fn.__name__}.json")
"""


class Own:
    """Triton's own manager: it compiles nothing, and holds what was put."""

    held: ClassVar[dict[str, dict[str, str]]] = {}
    made: ClassVar[list[str]] = []

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key, self.words = key, (override, dump)
        self.made.append(key)

    def get_group(self, filename: str) -> dict[str, str] | None:
        return self.held.get(self.key)

    def get_file(self, filename: str) -> str | None:
        return f"own/{filename}"

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        return f"put/{filename}"

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        self.held[self.key] = group
        return filename


def source(block: int = 64, module: str = "aiter.ops.triton.x", **options: Any) -> Any:
    """What Triton's compile is asked for."""
    function = SimpleNamespace(
        __module__=module,
        __name__="_kernel",
        __qualname__="_kernel",
        arg_names=["x", "n", "BLOCK"],
        cache_key="a" * 64,
    )
    target = SimpleNamespace(backend="hip", arch=TARGET)
    return SimpleNamespace(
        fn=function, signature={"x": "*bf16", "n": "i32", "BLOCK": "constexpr"}, constants={(2,): block},
        attrs={(0,): [["tt.divisibility", 16]], (1,): []}, options=SimpleNamespace(num_warps=4, **options), environment={},
        backend=SimpleNamespace(target=target, hash=lambda: "llvm 1"),
    )  # fmt: skip


def parts(of: Any) -> dict[str, Any]:
    return parts_of(
        CompileInputs(of, of.backend, of.options, of.environment), sys.modules["triton.runtime.cache"]
    )


@pytest.fixture
def compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Triton's compile, and a data wheel with one kernel."""
    compiler = ModuleType("triton.compiler.compiler")
    exec(COMPILER, vars(compiler))
    cache = ModuleType("triton.runtime.cache")
    vars(cache).update(FileCacheManager=Own, triton_key=lambda: "triton key")
    knobs = ModuleType("triton.knobs")
    vars(knobs)["cache"] = SimpleNamespace()
    for module in (ModuleType("triton"), ModuleType("triton.runtime"), cache, knobs):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(sys.modules["triton"])["__version__"] = "3.9.0"
    seed = Seed("KEY", KERNEL, SEED.files, parts(source()))
    builds = ({"version": "3.9.0", "key": KEY},)
    folder = unpacked(tmp_path, seeds("triton", seed, builds=builds))
    monkeypatch.setenv(cache_data.VARIABLE, str(folder))
    monkeypatch.delenv("AITER_PREBUILT_BRIDGE", raising=False)
    monkeypatch.delenv(triton_cache.TRITON_VARIABLE, raising=False)
    monkeypatch.setattr(lookup_log, "_LOGGED", set())
    Own.held, Own.made = {}, []
    _forget()
    yield lambda src, key: vars(compiler)["compile"](src, key, triton_cache.CacheManager)
    _forget()


def _forget() -> None:
    cache_data.forget()
    triton_cache.forget()
    triton_cache.HITS.clear()
    triton_cache.MISSES.clear()


def test_a_kernel_of_the_wheel_is_found_and_triton_makes_no_folder(compile: Any) -> None:
    found = compile(source(), "KEY")
    assert {name: Path(path).read_bytes() for name, path in found.items()} == dict(SEED.files)
    assert not Own.made and triton_cache.HITS == {KERNEL: 1} and not triton_cache.MISSES


def test_what_is_not_there_goes_tritons_own_way_and_is_said_once(
    compile: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert compile(source(block=128), "OTHER") is None
    (told,) = [row.getMessage() for row in caplog.records]
    assert told == (
        f"{KERNEL}: Triton compiles it, because of 1 entries of it the nearest differs: constexprs BLOCK: 128, there 64"
    )
    assert triton_cache.MISSES == {KERNEL: 3} and Own.made == ["OTHER"] * 3


def test_what_triton_has_compiled_before_is_no_miss(compile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    Own.held["OTHER"] = {"_kernel.json": "own"}
    assert compile(source(block=128), "OTHER") == {"_kernel.json": "own"} and not triton_cache.MISSES


def test_strict_says_the_kernels_name_before_it_is_compiled(
    compile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    assert compile(source(), "KEY") is not None
    with pytest.raises(
        CompileRefusedError, match=r"launch aiter\.ops\.triton\.x\._kernel: Triton would compile it now"
    ) as error:
        compile(source(block=32), "OTHER")
    assert "constexprs BLOCK: 32, there 64" in str(error.value)


def test_a_kernel_that_no_entry_is_of_is_said_so(compile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    with pytest.raises(CompileRefusedError, match="no entry is of this kernel"):
        compile(source(module="aiter.ops.triton.y"), "OTHER")


@pytest.mark.parametrize("module", ["vllm.x", "torch._inductor.y", "aiterations.z"])
def test_kernels_of_others_are_left_alone(compile: Any, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Also where a wheel has their key."""
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    for key in ("KEY", "OTHER"):
        assert compile(source(module=module), key) is None
    assert Own.made == ["KEY", "OTHER"] and not triton_cache.HITS and not triton_cache.MISSES


def test_lookups_that_are_no_compile_go_to_tritons_own(compile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host part, dumps and overrides."""
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    manager = triton_cache.CacheManager("HOST")
    assert manager.get_file("hip_utils.so") == "own/hip_utils.so" and manager.put(b"", "a") == "put/a"
    assert manager.get_group("a") is None and manager.put_group("a", {"a": "b"}) == "a"
    dump = triton_cache.CacheManager("KEY", dump=True)
    assert dump.get_group("_kernel.json") is None and dump._own.words == (False, True)


def test_another_build_of_triton_is_said_once_and_finds_nothing(
    compile: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.modules["triton.runtime.cache"], "triton_key", lambda: "another")
    for _ in range(2):
        assert compile(source(), "KEY") is None
    says = f"Triton 3.9.0 ({hashlib.sha256(b'another').hexdigest()[:12]}) is not one of those that kernels were compiled with"
    assert (
        sum(says in row.getMessage() and row.getMessage().startswith("triton:") for row in caplog.records)
        == 1
    )
    assert len(caplog.records) == 1 and triton_cache.MISSES == {KERNEL: 2}
    assert says in triton_cache.report()["why"] or not triton_cache.report()["active"]
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    with pytest.raises(CompileRefusedError, match="is not one of those"):
        compile(source(), "KEY")


def test_a_build_that_compiles_the_same_finds_what_the_other_compiled(
    compile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A miss does not name Triton among the parts that differ, and an entry of another build is none."""
    builds = ({"version": "3.9.0", "key": KEY, "as": "f" * 64}, {"version": "3.8.0", "key": "e" * 64})
    made = [
        Seed(key, KERNEL, SEED.files, parts(source(block)) | {"triton": build}, (f"{key}2",))
        for key, block, build in (("A", 64, "f" * 64), ("B", 32, "e" * 64))
    ]
    monkeypatch.setenv(
        cache_data.VARIABLE, str(unpacked(tmp_path / "other", seeds("triton", *made, builds=builds)))
    )
    _forget()
    assert compile(source(), "A2") is not None and compile(source(32), "B2") is None
    (told,) = [row.getMessage() for row in caplog.records]
    assert told.endswith("because of 1 entries of it the nearest differs: constexprs BLOCK: 32, there 64")
    (row,) = cache_data.summary()
    assert [(build["version"], build["entries"]) for build in row["compilers"]] == [
        ("3.9.0", 1),
        ("3.8.0", 1),
    ]


def test_a_damaged_file_is_an_error_and_no_compile(compile: Any, tmp_path: Path) -> None:
    for path in tmp_path.rglob("*.hsaco"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CacheDamagedError, match="another SHA-256"):
        compile(source(), "KEY")
    assert not Own.made


def test_without_a_wheel_strict_says_which_to_install(
    compile: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(cache_data.VARIABLE)
    _forget()
    assert compile(source(), "KEY") is None and not caplog.records
    monkeypatch.setenv("AITER_PREBUILT_BRIDGE", "strict")
    _forget()
    with pytest.raises(CompileRefusedError, match="no data wheel with kernels of Triton's is installed"):
        compile(source(), "KEY")


def test_it_is_installed_in_this_process_alone_and_not_over_a_users_own(
    compile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = vars(sys.modules["triton.knobs"])["cache"]
    assert triton_cache.install() and vars(cache)["manager_class"] is triton_cache.CacheManager
    assert triton_cache.report()["active"] and triton_cache.TRITON_VARIABLE not in os.environ
    vars(cache)["manager_class"] = Own
    assert not triton_cache.install() and not triton_cache.report()["active"]
    vars(cache).clear()
    monkeypatch.setenv(triton_cache.TRITON_VARIABLE, "a.b:C")
    assert not triton_cache.install() and not vars(cache)
    assert triton_cache.report()["why"] == "TRITON_CACHE_MANAGER=a.b:C names another class"


def test_tritons_variable_may_name_it() -> None:
    """Triton looks for this name among the bases of the class that its variable names."""
    assert any(each.__name__ == "CacheManager" for each in triton_cache.CacheManager.mro())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"constants": {(2,): 32}}, "constexprs BLOCK: 32, there 64"),
        ({"signature": {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}}, "signature x: *fp32, there *bf16"),
        ({"attrs": {}}, "attributes x: none, there [['tt.divisibility', 16]]"),
        ({"options": SimpleNamespace(num_warps=8)}, "options num_warps: 8, there 4"),
        ({"environment": {"A": "1"}}, "environment A: 1, there none"),
    ],
)
def test_each_part_that_differs_is_named(compile: Any, change: dict[str, Any], says: str) -> None:
    other = source()
    for name, value in change.items():
        setattr(other, name, value)
    assert differences(PARTS, parts(other), parts(source())) == [says]
    assert differences(PARTS, parts(source()), parts(source())) == []


def test_parts_hold_no_path_of_this_machine(compile: Any) -> None:
    found = parts(source(extern_libs=(("ocml", "/home/somebody/triton/ocml.bc"),)))
    assert "/home" not in json.dumps(found) and "ocml.bc" in found["options"]["extern_libs"]


def test_a_hash_is_written_as_triton_writes_it() -> None:
    assert base32("00" * 32) == "A" * 52


def test_an_index_that_others_may_write_is_not_read(compile: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Who may write the index may write the hashes."""
    assert compile(source(), "KEY")
    (folder,) = cache_data.folders()
    (folder / "index.json").chmod(0o666)
    _forget()
    assert compile(source(), "KEY") is None and Own.made == ["KEY"]
    assert "may be written by" in caplog.text and not triton_cache.HITS
