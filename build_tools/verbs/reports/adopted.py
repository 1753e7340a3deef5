"""Report the adopted code objects that are launched."""

from __future__ import annotations

import click

from build_tools.report.lines import say
from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import console, print_json, print_table


@example("report adopted")
@click.command()
@options.json
def adopted(as_json: bool) -> None:
    """Code objects of source trees, family by family: how many are launched, proved, how they are chosen, and why others are left
    out.
    """
    from build_tools.compile.inputs import inputs_of
    from build_tools.manifest.parse import load
    from build_tools.plan.plan import make_plan
    from build_tools.prove.known import known
    from build_tools.report import left_out
    from build_tools.report.adopted import compute

    manifest = load(options.ROOT / "manifests")
    plan = make_plan(manifest, options.ROOT, inputs_of(options.ROOT), prove=False)
    receipts = known(options.ROOT).values()
    executed = {(receipt.target, digest) for receipt in receipts for digest in receipt.code_objects}
    found = compute(plan, manifest, options.ROOT, executed, left_out.read(options.ROOT))
    if as_json:
        print_json({"families": [family.as_json() for family in found], "missing": list(plan.missing)})
        return
    columns = ["target", "family", "objects", "launchable", "proved", "chosen by", "left out"]
    rows = [
        (
            each.target, each.family, each.objects, each.launchable, each.proved,
            ", ".join(f"{way} {count}" for way, count in each.chosen.items()), each.objects - each.launchable,
        )
        for each in found
    ]  # fmt: skip
    print_table("code objects of source trees", columns, rows)
    for each in found:
        for reason, count in each.left_out.items():
            say(console(), f"{each.target} {each.family}: {count} left out: {reason}")
        for name in each.unnamed:
            say(console(), f"{name}: left out, and {left_out.FILE} does not say why")
    for line in plan.missing:
        click.echo(f"left out: {line}", err=True)
