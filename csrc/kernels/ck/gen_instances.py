"""Write one small .hip source per ck_tile kernel instance.

    python gen_instances.py --op OP --working-path DIR                     all of an operator
    python gen_instances.py --op OP --working-path DIR --instance NAME     one of them
    python gen_instances.py --op OP --working-path DIR --constant K=V ...  the one of a manifest variant
    python gen_instances.py --op OP --list                                 names, one per line

The table is `instances.toml` beside this file.  A source holds one `extern "C"` kernel with plain arguments
(pointers, 32-bit integers, fp32 scalars) that fills ck_tile's argument record on the device: no host struct
layout crosses the launch, so a manifest can describe the arguments.  The text depends on the table alone; the
paths written are printed, one per line.  A wrong name or constant ends with exit status 2 and the right ones.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).resolve().parent / "instances.toml"
WAVE = 64
"""Lanes of a wave on every CDNA target."""


@dataclass(frozen=True)
class Shape:
    """How one workgroup covers rows: see the head of instances.toml for the guarantees."""

    name: str
    rows: int
    columns: int
    waves: tuple[int, int]
    vector: int
    two_pass: bool
    pad: bool

    @property
    def threads(self) -> int:
        """Workgroup size, the manifest's `block`."""
        return WAVE * self.waves[0] * self.waves[1]


@dataclass(frozen=True)
class Instance:
    """One kernel in one source file; `targets` is empty when every target can have it."""

    name: str
    op: str
    types: tuple[str, ...]
    shape: Shape
    targets: tuple[str, ...]


def read_table(path: Path = TABLE) -> dict[str, Any]:
    """The parsed table; tomllib.TOMLDecodeError or OSError when it cannot be read."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def shape_of(table: Mapping[str, Any], name: str) -> Shape:
    """The shape of that name; ValueError when its lanes cannot cover its block evenly."""
    row = table["shapes"][name]
    rows, columns = row["block"]
    waves = (row["waves"][0], row["waves"][1])
    shape = Shape(name, rows, columns, waves, row["vector"], row["two_pass"], row["pad"])
    if rows != waves[0]:
        raise ValueError(
            f"shape {name}: {rows} rows for {waves[0]} waves along the rows; a lane holds one row"
        )
    if columns % (WAVE * shape.vector * waves[1]):
        raise ValueError(f"shape {name}: {columns} columns are no multiple of {WAVE} lanes * vector * waves")
    return shape


def instances(table: Mapping[str, Any], op: str) -> list[Instance]:
    """Every instance of an operator, in the table's order."""
    entry = table["ops"][op]
    result = []
    for types in itertools.product(*entry["types"]):
        limits = [set(table["types"][t]["targets"]) for t in types if "targets" in table["types"][t]]
        targets = tuple(sorted(set.intersection(*limits))) if limits else ()
        for shape in entry["shapes"]:
            name = "_".join((op, *types, shape))
            result.append(Instance(name, op, types, shape_of(table, shape), targets))
    return result


def guard(instance: Instance) -> str:
    """Preprocessor lines that stop a compile for a target whose hardware has the other fp8."""
    if not instance.targets:
        return ""
    known = " || ".join(f"defined(__{target}__)" for target in instance.targets)
    message = f"{instance.name} is for {' and '.join(instance.targets)}"
    return f'#if defined(__HIP_DEVICE_COMPILE__) && !({known})\n#error "{message}"\n#endif\n\n'


def render(table: Mapping[str, Any], instance: Instance) -> str:
    """The text of the instance's .hip file."""
    entry = table["ops"][instance.op]
    shape = instance.shape
    numbers = (shape.rows, shape.columns, *shape.waves, shape.vector)
    types = ", ".join(table["types"][t]["ck"] for t in instance.types)
    flags = ", ".join(str(flag).lower() for flag in (shape.pad, shape.two_pass))
    arguments = ",\n    ".join(entry["arguments"])
    return (
        f"// {instance.name}: written by gen_instances.py from instances.toml.\n"
        f'#include "{entry["header"]}"\n\n'
        f"{guard(instance)}"
        f"using Shape  = aiter_ck::RowShape<{', '.join(map(str, numbers))}>;\n"
        f"using Kernel = {entry['kernel']}<{types}, Shape, {flags}>;\n"
        f"static_assert(Shape::BlockSize == {shape.threads});\n\n"
        f'extern "C" __global__ __launch_bounds__({shape.threads}) void {entry["symbol"]}(\n'
        f"    {arguments})\n"
        "{\n"
        f"    Kernel{{}}(Kernel::Kargs{{{', '.join(entry['fields'])}}});\n"
        "}\n"
    )


def name_for(table: Mapping[str, Any], op: str, constants: Mapping[str, str]) -> str:
    """The instance of a manifest variant: type variables and SHAPE choose, other constants must agree.

    ROWS, VECTOR and THREADS are the shape's own; COLUMNS is its largest N, 0 when there is none.  ValueError
    when a choosing one is missing, or another says what is not so: the manifest's predicates and grid would
    then be wrong.
    """
    chosen = []
    for key in (*table["ops"][op]["variables"], "SHAPE"):
        if key not in constants:
            raise ValueError(
                f"constant {key} is missing (there are: {', '.join(sorted(constants)) or 'none'})"
            )
        chosen.append(constants[key])
    if constants["SHAPE"] not in table["shapes"]:
        raise ValueError(
            f"SHAPE={constants['SHAPE']} is not a shape (there are: {', '.join(table['shapes'])})"
        )
    shape = shape_of(table, constants["SHAPE"])
    facts = {
        "ROWS": shape.rows,
        "COLUMNS": 0 if shape.two_pass else shape.columns,
        "VECTOR": shape.vector,
        "THREADS": shape.threads,
    }
    for key, fact in facts.items():
        if key in constants and constants[key] != str(fact):
            raise ValueError(f"{key}={constants[key]}, but shape {shape.name} has {key} {fact}")
    return "_".join((op, *chosen))


def pick(known: Sequence[Instance], name: str | None) -> list[Instance]:
    """The instance of that name, or all; ValueError names the nearest one."""
    if name is None:
        return list(known)
    chosen = [instance for instance in known if instance.name == name]
    if not chosen:
        names = [instance.name for instance in known]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}"
        raise ValueError(f"'{name}' is not an instance ({hint})")
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 when every source was written, 2 for a name that is not in the table."""
    table = read_table()
    parser = argparse.ArgumentParser(description="write ck_tile kernel instances")
    parser.add_argument("--op", required=True, choices=sorted(table["ops"]))
    parser.add_argument(
        "--working-path", type=Path, help="folder for the .hip files, made if it is not there"
    )
    parser.add_argument("--instance", help="only this one")
    parser.add_argument(
        "--constant", action="append", default=[], metavar="K=V", help="of a manifest variant"
    )
    parser.add_argument("--list", action="store_true", help="print the names instead")
    options = parser.parse_args(argv)
    if options.working_path is None and not options.list:
        parser.error("--working-path or --list is needed")
    try:
        name = options.instance
        if options.constant:
            name = name_for(table, options.op, dict(pair.split("=", 1) for pair in options.constant))
        chosen = pick(instances(table, options.op), name)
    except ValueError as error:
        print(f"gen_instances.py: {error}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(instance.name for instance in chosen))
        return 0
    options.working_path.mkdir(parents=True, exist_ok=True)
    for instance in chosen:
        path = options.working_path / f"{instance.name}.hip"
        path.write_text(render(table, instance), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
