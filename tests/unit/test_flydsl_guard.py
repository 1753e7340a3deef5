"""What a source can reach while it is compiled: the files of its key, and nothing else. No FlyDSL is needed."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
from pathlib import Path
from build_tools.compile.backends.flydsl_guard import only
root, scratch, source, *inputs = sys.argv[1:]
try:
    with only(source, [source, *inputs], Path(root), Path(scratch)) as module:
        print(module.VALUE)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
left = sorted(name for name in sys.modules if name.partition(".")[0] in ("parts", "rows", "kernel_source_rows"))
print("left", left, "build_tools" in sys.modules)
open(Path(root) / "secret.txt").close()  # it is over
"""


def told(root: Path, *inputs: str, source: str = "rows.py") -> str:
    scratch = root.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    words = [sys.executable, "-c", PROGRAM, str(root), str(scratch), source, *inputs]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, left = done.stdout.splitlines()
    assert left == "left [] True"
    return said


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "rows.py": "VALUE = 1\n", "secret.txt": "1", "parts/__init__.py": "", "parts/one.py": "VALUE = 2\n",
        "parts/two.py": "VALUE = 3\n", "bare/deep/one.py": "VALUE = 4\n", "numbers.py": "VALUE = 5\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


@pytest.mark.parametrize(
    ("text", "inputs", "words"),
    [
        ("VALUE = 1", (), "1"),
        ("from parts.one import VALUE", ("parts/__init__.py", "parts/one.py"), "2"),
        ("from bare.deep.one import VALUE", ("bare/deep/one.py",), "4"),
        ("import numbers\nVALUE = numbers.Number.__name__", ("numbers.py",), "Number"),  # Python's own
        ("import dataclasses\n@dataclasses.dataclass\nclass A:\n    b: 'int'\nVALUE = A(3).b", (), "3"),
        ("from parts.two import VALUE", ("parts/__init__.py", "parts/one.py"), "No module named 'parts.two' in a FlyDSL compile"),
        ("import importlib\nVALUE = importlib.import_module('par' + 'ts')", (), "No module named 'parts' in a FlyDSL compile"),
        ("import build_tools.errors as VALUE", (), "No module named 'build_tools' in a FlyDSL compile"),
        ("import pytest as VALUE", (), "No module named 'pytest' in a FlyDSL compile"),
        ("try:\n    import pytest\nexcept ImportError:\n    VALUE = 'without'", (), "without"),
        ("VALUE = open(__file__[:-7] + 'secret.txt').read()", (), "NotInKeyError: the source would read"),
        ("from pathlib import Path\nVALUE = (Path(__file__).parent / 'secret.txt').read_text()", (), "secret.txt, which is not"),
        ("import os\nVALUE = os.open(__file__[:-7] + 'new.txt', os.O_WRONLY | os.O_CREAT)", (), "the source would write"),
        ("VALUE = open('/etc/hostname').read()", (), "the source would read /etc/hostname, which is not among the files"),
        ("VALUE = open(__file__).read(5)", (), "VALUE"),
        ("VALUE = open('/proc/self/environ').read()", (), "NotInKeyError: the source would read /proc/"),
        ("VALUE = open('/dev/shm/other', 'w')", (), "NotInKeyError: the source would write /dev/shm/other"),
        ("VALUE = open('/dev/null').read()", (), ""),
        ("import os\nVALUE = os.listdir(os.path.dirname(__file__))", (), "NotInKeyError: the source would read"),
        ("import os\nVALUE = list(os.scandir('/etc'))", (), "NotInKeyError: the source would read /etc"),
        ("import os\nVALUE = os.fork()", (), "NotInKeyError: the source asks for os.fork"),
        ("import subprocess\nVALUE = subprocess.run(['true'])", (), "asks for subprocess.Popen of 'true'"),
        ("import os\nVALUE = os.system('true')", (), "asks for os.system"),
        ("import socket\nVALUE = socket.create_connection(('127.0.0.1', 9))", (), "NotInKeyError: the source asks for socket."),
    ],
)  # fmt: skip
def test_a_source_reaches_its_own_files_alone(
    root: Path, text: str, inputs: tuple[str, ...], words: str
) -> None:
    (root / "rows.py").write_text(text + "\n")
    assert words in told(root, *inputs)
    assert not (root / "new.txt").exists()


def test_a_link_to_a_file_that_is_not_listed_is_no_way_around(root: Path) -> None:
    (root / "linked.txt").symlink_to("secret.txt")
    (root / "rows.py").write_text("VALUE = open(__file__[:-7] + 'linked.txt').read()\n")
    assert "secret.txt, which is not among the files of its key" in told(root)


def test_a_source_may_be_called_as_a_module_of_python(root: Path) -> None:
    (root / "select.py").write_text("import select as its\nVALUE = hasattr(its, 'poll')\n")
    assert told(root, source="select.py") == "True"


def test_bytecode_beside_a_source_is_not_believed(root: Path) -> None:
    """Python takes bytecode whose note says the time and size of the text: another text can have both."""
    module = root / "parts" / "one.py"
    py_compile.compile(str(module))
    (root / "parts" / "__init__.py").write_text("")
    stamp = module.stat()
    module.write_text("VALUE = 9\n")
    os.utime(module, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    (root / "rows.py").write_text("from parts.one import VALUE\n")
    assert told(root, "parts/__init__.py", "parts/one.py") == "9"


def test_bytecode_of_pythons_own_library_may_be_kept_elsewhere(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPYCACHEPREFIX, as the sessions of noxfile.py set it; nothing else there may be read."""
    kept = tmp_path / "kept"
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(kept))
    # The session may have been told to write none.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    subprocess.run([sys.executable, "-c", "import colorsys"], check=True)
    assert list(kept.rglob("colorsys.*.pyc"))
    (root / "rows.py").write_text("import colorsys\nVALUE = colorsys.ONE_THIRD > 0\n")
    assert told(root) == "True"
    (kept / "other.txt").write_text("1")
    (root / "rows.py").write_text(f"VALUE = open({str(kept / 'other.txt')!r}).read()\n")
    assert "NotInKeyError: the source would read" in told(root)
