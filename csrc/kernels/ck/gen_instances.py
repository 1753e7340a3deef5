"""Write one small .hip source per ck_tile kernel instance.

    python gen_instances.py --op OP --working-path DIR                     all of an operator
    python gen_instances.py --op OP --working-path DIR --instance NAME     one of them
    python gen_instances.py --op OP --list                                 names, one per line

The table is `instances.toml` beside this file.  A source holds one `extern "C"` kernel with plain arguments
(pointers, 32-bit integers, fp32 scalars) that fills ck_tile's argument record on the device: no host struct
layout crosses the launch, so a manifest can describe the arguments.

A compile sets macros by the manifest's names: the type variables (T, and Q), which choose the element types,
and ROWS, COLUMNS (the largest N, 0 when there is none), VECTOR and THREADS, which the manifest's predicates,
grid and block use and which the source compares with the table.

The text depends on the table alone.  A name that is not in it ends with exit status 2 and the names that are.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLE = Path(__file__).resolve().parent / "instances.toml"
WAVE = 64
"""Lanes of a wave on every CDNA target."""


@dataclass(frozen=True)
class Instance:
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

    def facts(self) -> dict[str, int]:
        """What a manifest repeats about the instance, by the name of its constant."""
        limit = 0 if self.two_pass else self.columns
        return {"ROWS": self.rows, "COLUMNS": limit, "VECTOR": self.vector, "THREADS": self.threads}


def read_table(path: Path = TABLE) -> dict[str, Any]:
    """The parsed table; tomllib.TOMLDecodeError or OSError when it cannot be read."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def instance_of(table: Mapping[str, Any], name: str) -> Instance:
    """The instance of that name; ValueError when its lanes cannot cover its block evenly."""
    row = dict(table["instances"][name])
    along_rows, along_columns = row.pop("waves")
    instance = Instance(name=name, waves=(along_rows, along_columns), **row)
    if instance.rows != along_rows:
        raise ValueError(f"{name}: {instance.rows} rows for {along_rows} waves; a lane holds one row")
    if instance.columns % (WAVE * instance.vector * along_columns):
        raise ValueError(f"{name}: {instance.columns} columns are no multiple of lanes * vector * waves")
    return instance


def render(table: Mapping[str, Any], op: str, instance: Instance) -> str:
    """The text of the instance's .hip file for an operator."""
    entry = table["ops"][op]
    numbers = ", ".join(map(str, (instance.rows, instance.columns, *instance.waves, instance.vector)))
    types = ", ".join(f"aiter_ck::types::{variable}" for variable in entry["types"])
    flags = ", ".join(str(flag).lower() for flag in (instance.pad, instance.two_pass))
    agree = " && ".join(f"{name} == {value}" for name, value in instance.facts().items())
    arguments = ",\n    ".join(entry["arguments"])
    return (
        f"// {op} {instance.name}: written by gen_instances.py from instances.toml.\n"
        f'#include "{entry["header"]}"\n\n'
        f"using Shape  = aiter_ck::RowShape<{numbers}>;\n"
        f"using Kernel = {entry['kernel']}<{types}, Shape, {flags}>;\n"
        f"static_assert(Shape::BlockSize == {instance.threads});\n"
        f"static_assert({agree},\n"
        f'              "the manifest says something else about {instance.name}");\n\n'
        f'extern "C" __global__ __launch_bounds__({instance.threads}) void {entry["symbol"]}(\n'
        f"    {arguments})\n"
        "{\n"
        f"    Kernel{{}}(Kernel::Kargs{{{', '.join(entry['fields'])}}});\n"
        "}\n"
    )


def pick(known: Sequence[str], name: str | None) -> list[str]:
    """That name, or all when it is None; ValueError names the nearest one."""
    if name is None:
        return list(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
        raise ValueError(f"'{name}' is not an instance ({hint})")
    return [name]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 when every source was written, 2 for a name that is not in the table."""
    table = read_table()
    parser = argparse.ArgumentParser(description="write ck_tile kernel instances")
    parser.add_argument("--op", required=True, choices=sorted(table["ops"]))
    parser.add_argument("--working-path", type=Path, help="folder of the .hip files, made if it is not there")
    parser.add_argument("--instance", help="only this one")
    parser.add_argument("--list", action="store_true", help="print the names instead")
    options = parser.parse_args(argv)
    if options.working_path is None and not options.list:
        parser.error("--working-path or --list is needed")
    try:
        chosen = pick(table["ops"][options.op]["instances"], options.instance)
        instances = [instance_of(table, name) for name in chosen]
    except ValueError as error:
        sys.stderr.write(f"gen_instances.py: {error}\n")
        return 2
    if options.list:
        sys.stdout.write("".join(f"{name}\n" for name in chosen))
        return 0
    options.working_path.mkdir(parents=True, exist_ok=True)
    for instance in instances:
        path = options.working_path / f"{options.op}_{instance.name}.hip"
        path.write_text(render(table, options.op, instance), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
