"""Code by meaning: prose, layout and names do not show, everything else does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.pythons import other_pythons

from aiter_prebuilt.contract.code_graph import CodeGraph

TEXT = '''
"""Module."""
import math
from math import inf

LIMIT = 2.0
TABLE = {}


class Shape:
    """Of a tensor."""

    size: int = 4

    def last(self):
        """The last one."""
        return self.size - 1


def helper(x, scale=1.0):
    """Help."""
    total = math.fsum(x) * scale  # a comment
    for each in x:
        if each > LIMIT:
            raise ValueError(f"{each} is too large")
    names = [str(each) for each in x]
    return total, names, lambda y: y + total


def root(x):
    try:
        return helper(x, scale=3.0)[0] + Shape().last()
    except ValueError as error:
        print(f"root: {error}")
        return inf


def other(x):
    return x + 1
'''


def digest(text: str, *roots: str) -> str:
    graph = CodeGraph({})
    graph.add("m", text)
    return graph.digest([("m", root) for root in roots or ("root",)])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Module."""', '"""Another text."""'),
        ('    """Help."""\n', ""),
        ('        """The last one."""', '        """Its last element."""'),
        ("  # a comment", ""),
        ("total = math.fsum(x) * scale", "total = (\n        math.fsum(x)\n        * scale\n    )"),
        ("total", "whole"),
        ("LIMIT", "MOST"),
        ("helper", "assistant"),
        ("Shape", "Extent"),
        ('as error:\n        print(f"root: {error}")', 'as wrong:\n        print(f"root: {wrong}")'),
        ("is too large", "is larger than anyone expects"),
        ("import math\nfrom math import inf", "import math as m\nfrom math import inf as far"),
        ("def helper(x, scale=1.0):", "def helper(x: list[float], scale: float = 1.0) -> tuple[float, ...]:"),
        ("return x + 1", "return x + 2"),
        ("LIMIT = 2.0", "LIMIT: float = 2.0"),
        ('"root: {error}"', "'root: {error}'"),
        ("    names = [", "    pass\n    names = ["),
    ],
)
def test_does_not_show(before: str, after: str) -> None:
    assert before in TEXT
    changed = TEXT.replace(before, after)
    if before.startswith("import"):
        changed = changed.replace("math.fsum", "m.fsum").replace("return inf", "return far")
    assert digest(changed) == digest(TEXT)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 2.0", "LIMIT = 2.5"),
        ("each > LIMIT", "each >= LIMIT"),
        ("math.fsum", "math.prod"),
        ("from math import inf", "from math import nan as inf"),
        ("scale=1.0):", "scale=2.0):"),
        ("scale=3.0", "scale=4.0"),
        ("size: int = 4", "size: int = 5"),
        ("size: int = 4", "size: ClassVar[int] = 4"),
        ("self.size - 1", "self.size"),
        ("lambda y: y + total", "lambda total: total + total"),
        ("str(each) for each in x", "str(x) for each in x"),
        ("except ValueError", "except TypeError"),
        ('f"root: {error}"', 'f"root: {error!r}"'),
        ("TABLE = {}", "TABLE = {}\nTABLE[1] = 2"),
        ("TABLE = {}", "TABLE = {}\nfor each in range(3):\n    TABLE[each] = 1"),
        ("raise ValueError", "raise RuntimeError"),
        ("helper(x, scale=3.0)", "helper(LIMIT, scale=3.0)"),
        ("class Shape:", "@final\nclass Shape:"),
    ],
)
def test_shows(before: str, after: str) -> None:
    assert before in TEXT
    assert digest(TEXT.replace(before, after)) != digest(TEXT)


def test_two_locals_are_not_one() -> None:
    one = "def root(a):\n    x = a\n    y = a + 1\n    return x * y"
    assert digest(one) == digest(one.replace("y", "z"))
    assert digest(one) != digest(one.replace("x * y", "x * x"))
    assert digest(one) != digest(one.replace("x * y", "y * x"))


def test_a_local_is_not_the_global_of_its_name() -> None:
    local = "x = 1\ndef root(a):\n    x = a\n    return x"
    assert digest(local) == digest(local.replace("x = 1", "x = 2"))
    through = "x = 1\ndef root(a):\n    global x\n    x = a\n    return x"
    assert digest(through) != digest(through.replace("x = 1", "x = 2"))
    of_class = "x = 1\nclass root:\n    x = 3\n    def get(self):\n        return x"
    assert digest(of_class) != digest(of_class.replace("x = 1", "x = 2"))


def test_follows_names_into_other_modules(tmp_path: Path) -> None:
    def graph(**texts: str) -> str:
        shutil.rmtree(tmp_path / "p", ignore_errors=True)
        (tmp_path / "p").mkdir()
        for name, text in texts.items():
            (tmp_path / "p" / f"{name}.py").write_text(text)
        return CodeGraph({"p": tmp_path / "p"}, ["p.errors", "p.out.*"]).digest([("p.a", "root")])

    here = graph(a="def help(x):\n    return x * 2\ndef root(x):\n    return help(x)")
    for line, call in (
        ("from p.b import help", "help(x)"),
        ("from p.b import help as aid", "aid(x)"),
        ("from p import b", "b.help(x)"),
        ("import p.b as c", "c.help(x)"),
    ):
        a = f"{line}\ndef root(x):\n    return {call}"
        b = "SIZE = 1\ndef help(x):\n    return x * 2\ndef other():\n    return 1"
        assert graph(a=a, b=b) == here, line
        assert graph(a=a, b=b.replace("x * 2", "x * 3")) != here, line
        assert graph(a=a, b=b.replace("return 1", "return 2")) == here, line
        inside = f"def root(x):\n    {line}\n    return {call}"
        moved = graph(a=inside, b=b)
        assert graph(a=inside, b=b.replace("x * 2", "x * 3")) != moved, line
    handed = "from p.b import help\ndef root(x):\n    return help(x)"
    assert graph(a=handed, b="from p.c import help", c="def help(x):\n    return x * 2") == here
    errors = graph(a="from p.errors import E\ndef root(x):\n    raise E(x)", errors="E = ValueError")
    assert errors == graph(a="from p.errors import E\ndef root(x):\n    raise E(x)", errors="E = TypeError")


def test_reads_a_circle() -> None:
    text = "def root(x):\n    return other(x - 1)\ndef other(x):\n    return root(x) if x else 0"
    assert digest(text) != digest(text.replace("else 0", "else 1"))


def test_refuses_a_root_that_is_not_there() -> None:
    with pytest.raises(LookupError, match="m has no missing"):
        digest(TEXT, "missing")


def test_the_text_of_a_fixed_program_is_known() -> None:
    """The same in every Python: receipts travel between machines."""
    assert digest(FIXED) == "aeb236c200444f82"


FIXED = """
def root(x, /, *rest, key=None, **more):
    @staticmethod
    def inner(y):
        nonlocal found
        found = f"{y!r:>{x}} and" " more"
        return [z for z in y if (w := z)] or {**more, "a": -1.5e300, b"b": 2j}
    found = ""
    match x:
        case [1, *others] if others:
            return inner(others)
        case {"k": v, **left}:
            del left
            return v[1:, ..., ::2]
        case _:
            assert key is not None, "words"
    with open(x) as file, file:
        return (yield from file)
"""


def test_another_python_reads_the_same(tmp_path: Path) -> None:
    """With every interpreter that is on PATH."""
    source = Path(__file__).resolve().parents[2] / "src/aiter_prebuilt/contract"
    package = tmp_path / "aiter_prebuilt/contract"
    package.mkdir(parents=True)
    for name in ("code_graph.py", "code_text.py"):
        shutil.copy(source / name, package)
    code = (
        "import sys; from aiter_prebuilt.contract.code_graph import CodeGraph as G; g = G({}); "
        "g.add('m', sys.argv[1]); print(g.digest([('m', 'root')]))"
    )
    for python in other_pythons():
        ran = subprocess.run(
            [python, "-c", code, FIXED], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip() == digest(FIXED), python


def test_a_module_that_is_not_followed_may_move(tmp_path: Path) -> None:
    """It is known by its own name, wherever it lies; what lies in no package, by its whole name."""
    found = {}
    for place in ("p", "p.room", "q"):
        folder = tmp_path / place / "p"
        (folder / "room").mkdir(parents=True)
        for file in ("__init__.py", "room/__init__.py"):
            (folder / file).write_text("")
        if place != "q":
            (folder / place.partition(".")[2] / "driver.py").write_text("def call():\n    return 1\n")
        (folder / "user.py").write_text(
            f"from {place} import driver\n\n\ndef use():\n    return driver.call()\n"
        )
        graph = CodeGraph({"p": folder}, without=("p.driver", "p.room.driver"))
        found[place] = graph.digest([("p.user", "use")])
    assert found["p"] == found["p.room"] != found["q"]
