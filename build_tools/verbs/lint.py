"""All problems of the manifests at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json

if TYPE_CHECKING:
    from build_tools.manifest.model import Manifest


@example("lint --operator rms_norm")
@click.command()
@options.root
@click.option(
    "--operator",
    "operators",
    multiple=True,
    help="Ask the cases of this operator alone what they would notice, which takes longest.",
)
@options.json
def lint(root: Path, operators: tuple[str, ...], as_json: bool) -> None:
    """Check every manifest: structure, names, signatures, expressions, assumptions; that no part of an operator is missing, that
    its cases would notice a wrong kernel, that each documented limit has a call that it refuses, that every code object of a
    pinned tree is launched or left out with a reason, that every module of AITER's list for its JIT is served or has one, as has
    every operator that a target's ck-free bundle lacks, that every call of a model's step fits our function or says why not, that
    calls of AITER's own functions whose kernels are compiled ahead of time can be made, and that generated files are what the
    manifests say. Of a tree of one's own only its own operators are looked at.
    """
    from build_tools.cases import limits, parts, sensitivity, table
    from build_tools.cases.subject import subjects
    from build_tools.compile.inputs import inputs_of
    from build_tools.errors import ManifestError
    from build_tools.generate import outputs
    from build_tools.manifest.names import refuse_unknown
    from build_tools.manifest.parse import read
    from build_tools.manifest.problems import Problems
    from build_tools.plan.plan import plan_into
    from build_tools.report import adopted, left_out, missing_problems

    own, root = options.own_tree(root), root.resolve()
    problems = Problems()
    manifest = read(root / "manifests", problems)
    plan = None
    if manifest is not None:
        plan = plan_into(manifest, root, inputs_of(root), problems)
    declared: dict[str, str] = {}
    if manifest is not None and not problems.lines:  # cases of an operator that cannot be read say nothing
        problems.lines += parts.unreferenced(subjects(manifest), root / "manifests")
        problems.lines += parts.unknown(subjects(manifest), root / "manifests")
        problems.lines += limits.problems_of(manifest, root / "manifests")
    if manifest is not None and not problems.lines:
        try:
            cases = table.load(root / "manifests", subjects(manifest), manifest.targets)
            problems.lines += parts.uncalled(cases, manifest.targets)
            refuse_unknown("lint operators", operators, cases)
            blind, declared = sensitivity.check_all(cases, manifest.targets, operators)
        except ManifestError as error:
            problems.lines += error.problems
        else:
            problems.lines += map(str, blind)
    # A repository that says of nothing why it is left out takes what it likes.
    told = (root / left_out.FILE).is_file()
    if told and plan is not None and manifest is not None and not problems.lines:
        problems.lines += adopted.problems(plan, manifest, root, left_out.read(root))
        problems.lines += missing_problems.problems(manifest)
    if manifest is not None and not problems.lines and not own:
        problems.lines += _beside_operators(manifest, root) + _pages(manifest)
    if problems.lines or plan is None or manifest is None:
        raise ManifestError(problems.lines)
    if not own:
        outputs.check(manifest, root)
    served = {planned.operator.name for bundle in plan.bundles for planned in bundle.operators}
    if as_json:
        counts = {"operators": len(served), "jobs": len(plan.jobs), "bundles": len(plan.bundles)}
        print_json({"version": 1, **counts, "insensitive": declared})
        return
    for line in reasons(declared, operators):
        click.echo(line)
    click.echo(
        f"manifests are right: {len(served)} operators, {len(plan.jobs)} jobs, {len(plan.bundles)} bundles"
    )


def _pages(manifest: Manifest) -> list[str]:
    """List what the generated pages lack: the page of a module, the example of a verb."""
    from build_tools.generate import api_reference
    from build_tools.verbs import examples

    operators = [each for family in manifest.families.values() for each in family.operators]
    program = click.get_current_context().find_root().command
    verbs = examples.problems(program) if isinstance(program, click.Group) else []
    return [*api_reference.problems(operators), *verbs]


def reasons(declared: Mapping[str, str], operators: Collection[str]) -> list[str]:
    """Return lines about parts that no case needs to notice: each of these operators, the others as a count.

    Args:
        declared: the part (``operator.name``) -> why no case needs to notice it.
        operators: those that were asked for.
    """
    shown = [
        f"No case has to notice a change of {what}: {reason}"
        for what, reason in declared.items()
        if what.partition(".")[0].removesuffix(", yet").rpartition(" ")[2] in operators
    ]
    left = len(declared) - len(shown)
    if not left:
        return shown
    many = "s" if left > 1 else ""
    rest = f"{left} part{many} may change without a case that notices it."
    if shown:
        rest = f"There {'are' if many else 'is'} {left} more such part{many}."
    return [*shown, f"{rest} The reasons: python -m build_tools lint --json"]


def _beside_operators(manifest: Manifest, root: Path) -> list[str]:
    """List problems of unserved modules and of calls.

    The calls are those of clients, and of AITER's functions whose kernels are compiled ahead of time.
    """
    from build_tools.report import module_problems, module_reasons
    from build_tools.seed import flydsl_calls, triton_calls
    from build_tools.shapes import problems as shapes

    if (root / module_reasons.FILE).is_file() and (lines := module_problems.of_repository(manifest, root)):
        return lines
    amd = {name: row.fp8 for name, row in manifest.amd.items()}
    return [
        *shapes.of_repository(manifest, root),
        *triton_calls.problems(root, amd),
        *flydsl_calls.problems(root, amd),
    ]
