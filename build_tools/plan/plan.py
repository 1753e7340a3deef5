"""From the manifests to the exact list of jobs, and the recipes that need them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from aiter_prebuilt.contract.records import BACKENDS, PROFILES, Kernel, Operator, Recipe, TunedRow
from build_tools.errors import FetchError, ManifestError, UsageError
from build_tools.manifest import model
from build_tools.manifest.names import unknown_target
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan.assumptions import check_assumptions
from build_tools.plan.measured import Called, Imported, Importer, called
from build_tools.plan.recipe import JobDraft, RecipeDraft, draft
from build_tools.plan.rows import rows_of
from build_tools.plan.sets import holds, may_lack, set_of
from build_tools.plan.shared_inputs import Once
from build_tools.plan.slots import Slots, attribute_records
from build_tools.plan.tuned_rows import tuned_rows
from build_tools.plan.variants import Variant, expand
from build_tools.records import (
    CompileJob,
    InputsOf,
    LeftOut,
    MeasuredTable,
    Plan,
    PlannedBundle,
    PlannedOperator,
    TargetFacts,
    in_tree,
)

#: The backends that take files of source trees as they are, and how the names of those end.
OF_TREES: Final = {"asm": "", "hip": ".cu"}
#: The axis that a kernel's table is.
ROW: Final = "row"


def target_facts(manifest: model.Manifest) -> dict[str, TargetFacts]:
    """Return the target table as records of the pipeline."""
    return {
        name: TargetFacts(
            name=name,
            **{**row.model_dump(exclude={"apus"}), "cus": tuple(row.cus), "devices": tuple(row.devices)},
        )
        for name, row in manifest.targets.items()
    }


class _At(NamedTuple):
    """The place of the planner, for things that it leaves out."""

    operator: str
    target: str
    profile: str


@dataclass
class _Planner:
    manifest: model.Manifest
    root: Path
    inputs_of: InputsOf
    problems: Problems
    prove: bool
    ck: str
    once: Once
    jobs: dict[str, CompileJob] = field(default_factory=dict)
    left_out: dict[LeftOut, None] = field(default_factory=dict)
    shared: dict[tuple[object, ...], str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    measured: list[MeasuredTable] = field(default_factory=list)

    def bundle(self, target: TargetFacts, profile: str) -> PlannedBundle:
        operators = []
        for family in self.manifest.families.values():
            with self.problems.file(self.manifest.files[family.family]):
                for spec in family.operators:
                    with self.problems.at("operators", spec.name):
                        planned = self.operator(spec, target, profile)
                    if planned is not None:
                        operators.append(planned)
        return PlannedBundle(
            target, profile, tuple(sorted(operators, key=lambda planned: planned.operator.name))
        )

    def operator(self, spec: model.Operator, target: TargetFacts, profile: str) -> PlannedOperator | None:
        slots = self.once.signature(spec)
        tensors, types = self.once.records(slots, target.fp8)
        order = list(dict.fromkeys(kernel.name for kernel in spec.kernels))
        kernels: list[Kernel] = []
        recipes: list[Recipe] = []
        jobs: dict[str, int] = {}
        names: list[Called] = []
        for kernel in spec.kernels:
            if target.name not in kernel.targets or kernel.profile != profile:
                continue
            if not self.once.reads(*kernel.files()):
                continue
            rank = order.index(kernel.name)
            kernels.append(Kernel(kernel.name, BACKENDS.index(kernel.backend), PROFILES.index(profile), rank))
            with self.problems.at("kernels", kernel.name):
                self.kernel(spec, kernel, slots, target, len(kernels) - 1, recipes, jobs, names)
        if not kernels or (not recipes and (self.left_out or self.ck != model.TUNED)):
            return None
        if spec.tuned_from is None:
            compared, rows = tuned_rows(
                spec.tuned, self.root, slots, kernels, recipes, target.name, set(self.manifest.targets), self.problems
            )  # fmt: skip
        else:
            compared, rows = self.tuned_from(spec, spec.tuned_from, slots, names, target, profile)
        operator = Operator(
            name=spec.name,
            summary=spec.summary,
            signature=slots.text(),
            return_count=slots.return_count,
            type_variables=types,
            tensors=tensors,
            attributes=attribute_records(slots),
            slots=slots.names,
            floats=slots.floats,
            kernels=tuple(kernels),
            recipes=tuple(recipes),
            entries=(),
            tuned_slots=compared,
            tuned=rows,
        )
        return PlannedOperator(operator, tuple(jobs))

    def kernel(
        self, spec: model.Operator, kernel: model.Kernel, slots: Slots, target: TargetFacts, index: int,
        recipes: list[Recipe], jobs: dict[str, int], names: list[Called],
    ) -> None:  # fmt: skip
        for name in sorted(kernel.slack.keys() - spec.arguments.keys()):
            self.problems.add(
                f"{name!r} is no tensor that is passed{suggestion(name, spec.arguments)}", "slack", name
            )
        at = _At(spec.name, target.name, kernel.profile)
        with_rows = self.with_rows(kernel, target, at)
        if with_rows is None:
            return
        if kernel.sets and kernel.backend != "ck":
            self.problems.add("only kernels of Composable Kernel have sets of instances", "sets")
        table = kernel.variants_from.table if kernel.variants_from else ""
        problems = self.trial(table)
        variants = expand(with_rows, slots, target, problems)
        if self.fails(problems, table, at):
            return
        found, smallest = 0, set()
        for variant in variants:
            problems = self.trial(table)
            drafted = draft(with_rows, variant, slots, problems)
            if drafted is None:
                self.fails(problems, table, at, partial(_id_of, spec, kernel, variant, target))
                continue
            found += 1
            smallest.add(mine := set_of(with_rows, variant, problems))
            if not holds(self.ck, mine) or not self.complete(drafted, spec, kernel, variant, target):
                continue
            if self.prove:
                check_assumptions(drafted, slots, problems)
            named = called(with_rows, variant, slots, len(recipes), problems)
            if not self.fails(problems, table, at, partial(_id_of, spec, kernel, variant, target)):
                names += named
                recipes.append(self.finish(spec, kernel, variant, drafted, target, index, jobs))
        if found and model.SAMPLE not in smallest and not may_lack(kernel):
            self.problems.add(f"no variant on {target.name} is of the sample", "sets")
        if not found:
            problems = self.trial(table)
            problems.add(
                f"no variant is left on {target.name}: every one is excluded or can never be chosen",
                "variants",
            )
            self.fails(problems, table, at)

    def trial(self, table: str) -> Problems:
        """Return the problem list for a kernel with rows in ``table``.

        "": in the manifest. A table that is not pinned has a list of its own: rows that do not fit there are left out, and are no
        problem of a manifest.
        """
        return Problems() if self.once.unpinned(table) else self.problems

    def fails(self, problems: Problems, table: str, at: _At, entry: Callable[[], str] = str) -> bool:
        """Did a trial fail? Then ``entry`` (all of the table, when it is "") is left out."""
        if problems is self.problems or not problems.lines:
            return False
        more = f", and {len(problems.lines) - 1} more" if len(problems.lines) > 1 else ""
        name = table.replace("{target}", at.target)
        self.left_out[LeftOut(name, f"{problems.lines[0]}{more}", *at, entry())] = None
        return True

    def with_rows(self, kernel: model.Kernel, target: TargetFacts, at: _At) -> model.Kernel | None:
        """Return the kernel with the rows of its table as an axis.

        None when there are none.
        """
        said = kernel.variants_from
        if said is None:
            return kernel
        problems = self.trial(said.table)
        with self.problems.at("variants_from"):
            try:
                rows = rows_of(said, target.name, self.root, problems)
            except FetchError as error:
                table = said.table.replace("{target}", target.name)
                self.lacking(table, f"{error.asked}: {error.found}", at)
                return None
        if self.fails(problems, said.table, at) or not rows:
            return None
        return kernel.model_copy(update={"variants": {**kernel.variants, ROW: rows}})

    def complete(
        self, drafted: RecipeDraft, spec: model.Operator, kernel: model.Kernel, variant: Variant, target: TargetFacts
    ) -> bool:  # fmt: skip
        """Are all sources there? A name with braces was not seen when the manifest was read, nor were the files of trees."""
        there = True
        for job in drafted.jobs:
            try:
                found = job.source in self.known or self.once.exists(job.source)
            except FetchError as error:
                self.problems.add(f"{error.found}. {error.fix}", "source")
                return False
            if found:
                self.known.add(job.source)
            else:
                at = _At(spec.name, target.name, kernel.profile)
                entry = _id_of(spec, kernel, variant, target, job)
                self.lacking(job.source, f"there is no {job.source}", at, entry)
                there = False
        return there

    def lacking(self, source: str, problem: str, at: _At, entry: str = "") -> None:
        """Report a missing file.

        It is wrong in the manifest; of a tree that is not pinned it is only missing.
        """
        if self.once.unpinned(source):
            self.left_out[LeftOut(source, "there is no such file", *at, entry)] = None
        else:
            self.problems.add(problem)

    def finish(
        self, spec: model.Operator, kernel: model.Kernel, variant: Variant, drafted: RecipeDraft, target: TargetFacts,
        index: int, jobs: dict[str, int],
    ) -> Recipe:  # fmt: skip
        steps = []
        for step, job in zip(drafted.recipe.steps, drafted.jobs, strict=True):
            job_id = self.job(spec, kernel, variant, job, target)
            steps.append(replace(step, entry=jobs.setdefault(job_id, len(jobs))))
        return replace(drafted.recipe, kernel=index, steps=tuple(steps))

    def job(
        self, spec: model.Operator, kernel: model.Kernel, variant: Variant, job: JobDraft, target: TargetFacts
    ) -> str:
        identity = (
            target.name,
            job.backend,
            job.source,
            job.symbol,
            job.constants,
            id(job.args),  # equal ones are one object, kept for good
            job.kernarg_size,
            job.block,
        )
        if identity in self.shared:
            return self.shared[identity]
        job_id = _id_of(spec, kernel, variant, target, job)
        if job_id in self.jobs:
            self.problems.add(
                f"two different jobs have the id {job_id!r}: name the differing constants in 'uses'"
            )
        if in_tree(job.source) and not job.source.endswith(OF_TREES.get(job.backend, "/")):
            self.problems.add(
                f"backend {job.backend!r} takes no source of a source tree: {job.source}", "source"
            )
            return job_id
        inputs = self.inputs_of(job.backend, job.source, job.symbol, dict(job.constants))
        self.jobs[job_id] = CompileJob(
            id=job_id,
            target=target,
            backend=job.backend,
            source=job.source,
            symbol=job.symbol,
            constants=job.constants,
            args=job.args,
            kernarg_size=job.kernarg_size,
            block=job.block,
            inputs=inputs,
            demangled=job.demangled,
        )
        self.shared[identity] = job_id
        return job_id

    def tuned_from(
        self, spec: model.Operator, said: model.TunedFrom, slots: Slots, names: list[Called], target: TargetFacts,
        profile: str,
    ) -> tuple[tuple[int, ...], tuple[TunedRow, ...]]:  # fmt: skip
        if spec.tuned is not None:
            self.problems.add("an operator has tuned or tuned_from, not both", "tuned")
            return (), ()
        if not names and any(kernel.measured for kernel in spec.kernels):
            return (), ()  # the kernels that rows name are in another bundle
        at = _At(spec.name, target.name, profile)
        there = [table for table in said.tables if self.once.reads(table) and self.has_table(table, at)]

        def imported(tables: list[str], problems: Problems) -> Imported:
            kept = said.model_copy(update={"tables": tables})
            return Importer(kept, slots, names, target, profile, self.root, problems).rows()

        problems = Problems() if any(map(self.once.unpinned, there)) else self.problems
        with self.problems.at("tuned_from"):
            compared, rows, told = imported(there, problems)
            if problems is not self.problems and problems.lines:
                compared, rows, told = self.without_odd_tables(there, imported, at)
        self.measured += told
        return (compared, rows) if rows else ((), ())

    def without_odd_tables(
        self, tables: list[str], imported: Callable[[list[str], Problems], Imported], at: _At
    ) -> Imported:
        """Once more, without those tables of a tree that is not pinned in which alone something is wrong: they are left out. What
        is wrong without them, too, is wrong in the manifest.
        """
        kept = []
        for table in tables:
            problems = self.trial(table)
            if problems is not self.problems:
                imported([table], problems)
            if not self.fails(problems, table, at):
                kept.append(table)
        return imported(kept, self.problems)

    def has_table(self, table: str, at: _At) -> bool:
        """Is it there? What a tree that is not pinned lacks is only missing."""
        with self.problems.at("tuned_from", "tables"):
            try:
                found = self.once.exists(table)
            except FetchError as error:
                self.problems.add(f"{error.found}. {error.fix}")
                return False
            if not found:
                self.lacking(table, f"there is no {table}", at)
        return found


def _id_of(
    spec: model.Operator, kernel: model.Kernel, variant: Variant, target: TargetFacts, job: JobDraft | None = None
) -> str:  # fmt: skip
    """Return the id of a job.

    Without one that of the variant, as far as it is known before its jobs are.
    """
    step = f".{job.step}" if job and job.step else ""
    used = None if job is None or job.used is None else set(job.used)
    backend = job.backend if job else kernel.backend
    parts = [target.name, backend, f"{spec.name}.{kernel.name}{step}", variant.name_of(used)]
    return "-".join([*parts, *(["_".join(variant.types)] if variant.types else [])])


def make_plan(
    manifest: model.Manifest, root: Path, inputs_of: InputsOf, profiles: Iterable[str] = (), targets: Iterable[str] = (),
    *, prove: bool = True, ck: str = model.TUNED,
) -> Plan:  # fmt: skip
    """Every job and bundle of the chosen profiles and targets (all, when none are named).

    ``prove=False`` leaves out the trial of assumptions, for manifests that have passed it before. ``ck``: the set of Composable
    Kernel's instances (``sets.py``).

    Raises:
        ManifestError: with every problem of every manifest.
        UnknownTargetError, UsageError: a target or profile that the manifests do not have.
    """
    problems = Problems()
    plan = plan_into(manifest, root, inputs_of, problems, tuple(profiles), tuple(targets), prove=prove, ck=ck)
    if problems.lines:
        raise ManifestError(problems.lines)
    return plan


def plan_into(
    manifest: model.Manifest,
    root: Path,
    inputs_of: InputsOf,
    problems: Problems,
    profiles: tuple[str, ...] = (),
    targets: tuple[str, ...] = (),
    *,
    prove: bool = True,
    ck: str = model.TUNED,
) -> Plan:
    """Plan as :func:`make_plan`, adding problems to ``problems``."""
    check_filters(manifest, profiles, targets)
    planner = _Planner(manifest, root, inputs_of, problems, prove, ck, Once(root, problems))
    facts = target_facts(manifest)
    with _uncollected():
        bundles = tuple(
            planner.bundle(facts[target], name)
            for name, profile_row in manifest.profiles.items()
            for target in profile_row.targets
            if (not profiles or name in profiles) and (not targets or target in targets)
        )
    jobs = tuple(planner.jobs[job_id] for job_id in sorted(planner.jobs))
    return Plan(jobs, bundles, tuple(planner.left_out), tuple(planner.measured))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nearly all that planning makes stays, in no circles: looking for garbage meanwhile takes a tenth of its time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def check_filters(manifest: model.Manifest, profiles: Iterable[str], targets: Iterable[str]) -> None:
    """Refuse names that people typed and the manifests do not have.

    Raises:
        UnknownTargetError, UsageError: with the name that was perhaps meant.
    """
    for target in targets:
        if target not in manifest.targets:
            raise unknown_target(target, manifest.targets)
    for profile in profiles:
        if profile not in manifest.profiles:
            raise UsageError(
                asked=f"look for profile {profile!r}",
                found=f"not a profile{suggestion(profile, manifest.profiles)}",
                fix="see manifests/profiles.toml for the profiles there are",
            )
