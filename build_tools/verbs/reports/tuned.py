"""Report the use of tables that upstreams measured."""

from __future__ import annotations

import click

from build_tools.report.lines import say
from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import console, print_json, print_table


@example("report tuned")
@click.command()
@options.json
def tuned(as_json: bool) -> None:
    """Tables of measured rows: which rows can choose a kernel, and line by line those that name nothing here, or a kernel that
    takes none of their calls.
    """
    from build_tools.compile.inputs import inputs_of
    from build_tools.manifest.parse import load
    from build_tools.plan.plan import make_plan
    from build_tools.report.measured import compute

    plan = make_plan(load(options.ROOT / "manifests"), options.ROOT, inputs_of(options.ROOT), prove=False)
    tables = compute(plan, options.ROOT)
    if as_json:
        print_json({"tables": [table.as_json() for table in tables], "missing": list(plan.missing)})
        return
    rows = [
        (table.name, table.rows, table.assembly, use.operator, use.target,
         use.meant, len(use.unused), use.taken, use.chooses, use.shapes)
        for table in tables
        for use in table.uses
    ]  # fmt: skip
    columns = [
        "table",
        "rows",
        "assembly",
        "operator",
        "target",
        "meant",
        "name nothing",
        "taken",
        "can choose",
        "ranges",
    ]
    print_table("measured rows", columns, rows)
    reasons = [
        (table.name, use.operator, use.target, count, why)
        for table in tables
        for use in table.uses
        for why, count in use.reasons.items()
    ]
    print_table(
        "rows that choose nothing: the cost does", ["table", "operator", "target", "rows", "why"], reasons
    )
    for table in tables:
        for use in table.uses:
            for row in (*use.unused, *use.refused):
                text = f"{table.name}:{row.line}: {use.operator} on {use.target}: {row.why} ({row.says})"
                say(console(), text)
    free = [(table.name, table.rows, table.assembly) for table in tables if not table.uses]
    print_table("tables that no operator takes rows of", ["table", "rows", "assembly"], free)
    for line in plan.missing:
        click.echo(f"left out: {line}", err=True)
