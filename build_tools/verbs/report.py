"""``python -m build_tools report KIND``: what is there and what is missing. A report changes nothing."""

from __future__ import annotations

import click

from build_tools.verbs.reports.adopted import adopted
from build_tools.verbs.reports.coverage import coverage
from build_tools.verbs.reports.modules import modules
from build_tools.verbs.reports.shapes import shapes
from build_tools.verbs.reports.status import status
from build_tools.verbs.reports.tuned import tuned


@click.group()
def report() -> None:
    """Say what is covered, compiled, proved and chosen, and what is missing and why."""


for kind in (coverage, status, shapes, tuned, adopted, modules):
    report.add_command(kind)
