"""A plan without some of its jobs: recipes that launch them go, and what then has no recipe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from build_tools.records import Plan, PlannedBundle, PlannedOperator


def without(plan: Plan, left_out: Collection[str], missing: tuple[str, ...]) -> Plan:
    """``plan`` without the jobs in ``left_out``. ``missing``: what is said about them."""
    bundles = tuple(_bundle(bundle, left_out) for bundle in plan.bundles)
    needed = {job for bundle in bundles for operator in bundle.operators for job in operator.jobs}
    jobs = tuple(job for job in plan.jobs if job.id in needed)
    return replace(plan, jobs=jobs, bundles=bundles, missing=plan.missing + missing)


def _bundle(bundle: PlannedBundle, left_out: Collection[str]) -> PlannedBundle:
    operators = (_operator(planned, left_out) for planned in bundle.operators)
    return replace(bundle, operators=tuple(planned for planned in operators if planned is not None))


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
