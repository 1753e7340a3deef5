"""One run of the fuzzer in a process of its own, so that a crash of the native reader is seen and not shared.

    python fuzz_worker.py EXTENSION STUB SEED CASES

Each case is one damaged bundle; both readers read all of it. They must agree: on the error, word for word, or that there is
none; and nothing but a ``FormatError`` may come out of the Python reader, nothing but an ``AiterPrebuiltError`` out of the
native one. One JSON line per disagreement; the seed and number of the case come first, so that a crash names its case.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.mutate import damaged

from aiter_prebuilt import errors
from aiter_prebuilt.contract import bundle as contract
from build_tools.pack import writer
from native.conftest import load_extension
from native.synthetic import A, Op, R, S, T, bundle_bytes, encode_operator, zstd_frame

CORPUS = Path(__file__).resolve().parents[1] / "data" / "fuzz"


def operators(name: str) -> list[Op]:
    """Two operators that use every kind of record; ``name`` makes their code objects new ones."""
    tensors = [
        T("x", "T", ["N"]),
        T("out", "T", ["N", "2 * N"], role="out"),
        T("w", "f32", ["N"], strides=["s"]),
    ]
    attributes = [
        A("n", "int", "3"),
        A("flag", "bool", "true"),
        A("eps", "float", "1e-6"),
        A("m", "enum", "a", ("a", "b")),
        A("t", "text", "none"),
    ]
    step = S(
        "k", ["ptr x", "ptr workspace + 8", "i32 N", "f32 eps", "ptr null"], ["N", "cdiv(N, 2)"], lds="N"
    )
    recipes = [
        R(variant=kind, types=(kind,), when=["N < 9 or N % 4 == 0"], cost="N", workspace="N", steps=[step], blob=f"{name}-{kind}")
        for kind in ("f32", "bf16")
    ]  # fmt: skip
    more: dict[str, Any] = {
        "types": {"T": ["f32", "bf16"]},
        "tuned_on": ["N"],
        "tuned": [(304, 1, [8]), (304, 0, [9])],
    }
    return [Op(op, tensors, attributes, recipes=recipes, **more) for op in ("one", "two")]


def fresh(name: str, encoding: str) -> bytes:
    """A bundle to damage; "mixed" has raw blocks, which are damaged under their hash, and zstd code objects."""
    if encoding != "mixed":
        return bundle_bytes(operators(name), encoding=encoding)
    from native.synthetic import code_object, root

    blobs = sorted(f"{name}-{kind}" for kind in ("f32", "bf16"))
    images = [code_object(blob) for blob in blobs]
    frames = tuple(zstd_frame(image, images[0]) for image in images)
    encoded = tuple(encode_operator(op, blobs) for op in operators(name))
    return writer.encode(root(), encoded, frames, (zstd_frame(images[0]),))


def python_reads(data: bytes, decoder: contract.Decoder) -> dict[str, str]:
    """What is wrong with the file ("") and with each operator; no word means nothing."""
    try:
        bundle = contract.Bundle(data, decoder)
        _ = bundle.table
    except contract.FormatError as error:
        return {"": str(error)}
    found = {"": ""}
    for name in bundle.names:
        try:
            operator = bundle.operator(name)
            found[name] = ""
            for recipe in operator.recipes:
                for step in recipe.steps:
                    bundle.code_object(operator.entries[step.entry])
        except contract.FormatError as error:
            found[name] = str(error)
    return found


def native_reads(native: Any, path: Path) -> dict[str, str]:
    """The same from the native reader; every code object is read, since a load needs its bytes."""
    try:
        bundle = native.Bundle(str(path))
    except (errors.BundleDamagedError, errors.BundleVersionError) as error:
        return {"": error.found}
    found = {"": ""}
    for name in bundle.names:
        try:
            native.Operator(name, lambda vendor, ordinal: ((bundle,), 304)).preload("amd", 0)
            found[name] = ""
        except errors.BundleDamagedError as error:
            found[name] = error.found
        except errors.AiterPrebuiltError as error:  # a whole bundle that says something that cannot be done
            found[name] = f"({type(error).__name__})"
    return found


def agree(ours: dict[str, str], theirs: dict[str, str], loaded: bool) -> bool:
    """Word for word. But a code object fails for all its entries with the words of the first; where a block is whole and
    useless ("(...)") the native reader stops before code objects; and one that is ``loaded``, or failed to load, in an
    earlier case is not read again.
    """

    def alike(our: str, their: str) -> bool:
        of_code = our.startswith(("code object", "dictionary"))
        if their.startswith("(") or (loaded and their == ""):
            return our == "" or of_code
        if their.startswith(("code object", "dictionary")):
            return of_code or (loaded and our == "")
        return our == their

    return ours.keys() == theirs.keys() and all(alike(ours[name], theirs[name]) for name in ours)


def main(extension: str, stub: str, seed: int, cases: int) -> int:
    """Run ``cases`` cases; 1 when the readers disagreed."""
    native = load_extension(Path(extension))
    native.open_driver("amd", stub)
    library = ctypes.CDLL(stub)
    rng, wrong, refused = random.Random(seed), 0, 0
    corpus = sorted(CORPUS.glob("*.apb"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz.apb"
        for case in range(cases):
            print(f"case {seed} {case}", flush=True)
            kind = rng.choice(("raw", "mixed", "mixed", "zstd", "corpus"))
            base = rng.choice(corpus).read_bytes() if kind == "corpus" else fresh(f"{seed}-{case}", kind)
            data = damaged(rng, base, native.zstd_decompress)
            path.write_bytes(data)
            ours, theirs = python_reads(data, native.zstd_decompress), native_reads(native, path)
            refused += any(ours.values())
            if not agree(ours, theirs, kind == "corpus"):
                wrong += 1
                print(json.dumps({"case": [seed, case, kind], "python": ours, "native": theirs}), flush=True)
    print(json.dumps({"refused": refused, "launches": library.stub_launches()}), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
