"""A plan without some of its jobs: recipes that launch them go, and what then has no recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from build_tools.records import LeftOut, Plan, PlannedBundle, PlannedOperator

_ALONE: Final = "every recipe that launches it launches something that is left out"


def without(plan: Plan, reasons: Mapping[str, str]) -> Plan:
    """``plan`` without the jobs in ``reasons``, which says of each why; the others that go with them say so."""
    of = {job.id: job for job in plan.jobs}
    bundles, left = [], []
    for bundle in plan.bundles:
        kept = []
        for planned in bundle.operators:
            less = _operator(planned, reasons)
            if less is not None:
                kept.append(less)
            for job in sorted(set(planned.jobs) - set(less.jobs if less else ())):
                why = reasons.get(job, _ALONE)
                name = planned.operator.name
                left.append(LeftOut(of[job].source, why, name, bundle.target.name, bundle.profile, job))
        bundles.append(replace(bundle, operators=tuple(kept)))
    gone = (_needed(plan.bundles) - _needed(bundles)) | reasons.keys()
    # A shard has no bundles: what fails in it is named all the same.
    told = {each.entry for each in left}
    left += [
        LeftOut(
            job.source,
            reasons[job.id],
            job.id.split("-", 2)[2].partition(".")[0],
            job.target.name,
            "",
            job.id,
        )
        for job in plan.jobs
        if job.id in reasons and job.id not in told
    ]
    jobs = tuple(job for job in plan.jobs if job.id not in gone)
    return replace(plan, jobs=jobs, bundles=tuple(bundles), left_out=(*plan.left_out, *left))


def _needed(bundles: Iterable[PlannedBundle]) -> set[str]:
    return {job for bundle in bundles for operator in bundle.operators for job in operator.jobs}


def _operator(planned: PlannedOperator, left_out: Collection[str]) -> PlannedOperator | None:
    if not set(left_out) & set(planned.jobs):
        return planned
    operator = planned.operator
    kept = [
        place
        for place, recipe in enumerate(operator.recipes)
        if not any(planned.jobs[step.entry] in left_out for step in recipe.steps)
    ]
    if not kept:
        return None
    used = sorted({step.entry for place in kept for step in operator.recipes[place].steps})
    entry_of = {before: now for now, before in enumerate(used)}
    recipe_of = {before: now for now, before in enumerate(kept)}
    recipes = tuple(
        replace(
            operator.recipes[place],
            steps=tuple(replace(step, entry=entry_of[step.entry]) for step in operator.recipes[place].steps),
        )
        for place in kept
    )
    tuned = tuple(
        replace(row, recipe=recipe_of[row.recipe]) for row in operator.tuned if row.recipe in recipe_of
    )
    changed = replace(
        operator, recipes=recipes, tuned=tuned, tuned_slots=operator.tuned_slots if tuned else ()
    )
    return PlannedOperator(changed, tuple(planned.jobs[place] for place in used))
