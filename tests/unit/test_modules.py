"""The modules of a source tree: their classes and functions, read from its files and never executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import upstream

from build_tools.errors import UsageError
from build_tools.modules import config, exports
from build_tools.modules.read import Module, Modules, read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    return read(ROOT, str(upstream.checkout(tmp_path_factory.mktemp("aiter"))))


def module(tree: Modules, name: str) -> Module:
    return next(each for each in tree.modules if each.name == name)


def functions(tree: Modules, name: str) -> list[tuple[str, bool, list[str]]]:
    return [
        (each.name, each.exported, [f"{place.file}.{place.name}" for place in each.places])
        for each in module(tree, name).functions
    ]


def test_the_class_comes_of_sources_and_generators(tree: Modules) -> None:
    assert not tree.pinned and tree.version == "unpinned (AITER_DIR)"
    assert {each.name: (each.first, each.kinds) for each in tree.modules} == {
        "module_one": ("hip", ("hip",)),
        "module_two_asm": ("asm", ("asm",)),
        "module_three": ("ck", ("ck",)),
        "module_three_tune": ("tuning", ("tuning", "ck")),
        "module_tiles": ("ck_tile", ("ck_tile",)),
        "module_mixed": ("asm", ("ck_tile", "asm", "hip")),
        "module_core": ("pybind", ("pybind",)),
        "module_blas": ("blas", ("blas",)),
        "libtiles": ("ck_tile", ("ck_tile",)),
        "module_opus": ("hip", ("hip",)),
    }
    assert module(tree, "module_two_asm").third_party == ("Elsewhere",)


def test_functions_are_those_of_cpp_and_of_python(tree: Modules) -> None:
    assert functions(tree, "module_one") == [
        ("one_add", True, ["aiter.ops.one.one_add"]),
        ("one_mul", True, ["aiter.ops.one._one_mul"]),
    ]
    assert functions(tree, "module_two_asm") == [
        ("two_asm", True, ["aiter.ops.one.two_low"]),
        ("two_size", True, ["aiter.ops.one.two_size"]),
        ("two_gone", False, ["aiter.ops.one.two_gone"]),
    ]  # two_own and two_name have C names alone, which nothing in Python stands for
    assert functions(tree, "module_three") == [("three", True, ["aiter.three.three"])]
    assert functions(tree, "module_three_tune") == [("three_tune", True, [])]
    assert functions(tree, "module_blas") == [("blas_mm", True, [])]
    assert functions(tree, "module_core") == [] and module(tree, "module_core").types == ("Kind", "tensor_t")


def test_what_a_python_function_comes_to_call(tree: Modules) -> None:
    python = tree.python
    assert python.functions_reached_by("one_mul") == {("module_one", "one_mul")}
    assert python.functions_reached_by("both") == {("module_two_asm", "two_asm"), ("module_one", "one_add")}
    assert python.functions_reached_by("outer") == {
        *python.functions_reached_by("both"),
        ("module_three", "three"),
    }
    assert (
        python.functions_reached_by("stepped") == {("module_one", "one_mul")} and python.named("Step") == ()
    )
    assert (
        python.functions_reached_by("alone")
        == python.functions_reached_by("nothing")
        == python.functions_reached_by("nobody")
        == frozenset()
    )
    (place,) = python.named("one_add")
    assert place.parameters == ("x", "y", "limit") and python.named("nobody") == ()


def test_texts_of_expressions_are_parsed_and_not_evaluated() -> None:
    said = ["'a' if 1 / 0 else 'b'", "f'{CK_DIR}/x/'", "f'{os.environ[\"HOME\"]}/y'", "''", "None"]
    assert list(config.texts(said)) == ["a", "b", "ck/x", "{os.environ['HOME']}/y", ""]
    assert list(config.texts(None)) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "not an object of modules"),
        ({"module_one": 1}, "module_one is not an object"),
        ({"module_one": {"srcs": ["a b"]}}, "invalid syntax"),
        ({"module_one": {"srcs": 1}}, "1 is no text of an expression"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, given: object, words: str) -> None:
    with pytest.raises(
        UsageError, match=f"read AITER's modules in aiter/jit/optCompilerConfig.json: .*{words}"
    ):
        read(ROOT, str(upstream.checkout(tmp_path, given)))


def test_a_checkout_without_the_list_is_refused(tmp_path: Path) -> None:
    upstream.checkout(tmp_path)
    (tmp_path / config.FILE.replace("package/", "aiter/")).unlink()
    with pytest.raises(
        UsageError, match=r"aiter/jit/optCompilerConfig\.json is missing\. Name a whole checkout"
    ):
        read(ROOT, str(tmp_path))


def test_comments_are_none_in_strings() -> None:
    assert exports.uncommented('a("x // y"); // z\n/* b */c') == 'a("x // y");  \n c'
    assert exports.macros("#define A(x) \\\n  b \\\n  c\nd")["A"].split() == ["b", "c"]
