"""The ledger of modules for people."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console
from rich.table import Table

from build_tools.report.lines import say
from build_tools.report.modules import NOT, PARTLY, REPLACED, STATUSES, ModuleLedger, ModuleLine, Served


def render(ledger: ModuleLedger, console: Console, only: Collection[str] = ()) -> None:
    """Print counts by class, modules, and unserved ones with reasons.

    ``only``: modules whose functions are listed one by one, instead of all that.
    """
    if only:
        for line in ledger.lines:
            if line.name in only:
                _functions(line, console)
        return
    say(console, f"AITER {ledger.version}: {len(ledger.lines)} modules in its list for the JIT")
    say(
        console,
        "served: every function has an operator here; through: only where AITER's function of its name calls it",
    )
    say(
        console,
        "of some parameters certain values alone are served: docs/operators.md, or this command with a module's name",
    )
    say(console, "what is not served AITER compiles itself, when it is first called")
    _counts(ledger, console)
    _modules(ledger, console)
    for line in ledger.lines:
        if line.status == PARTLY:
            for reason, functions in _by_reason(line):
                names = ", ".join(functions)
                say(
                    console,
                    f"{line.name}: not served: {names}: {reason}"
                    if reason
                    else f"{line.name}: missing: {names}",
                )
    for line in ledger.lines:
        lacking = {
            each.operator: each.lacks for function in line.functions for each in function.by if each.lacks
        }
        if lacking:
            told = "; ".join(f"{name}: {', '.join(lacks)}" for name, lacks in lacking.items())
            say(console, f"{line.name}: parameters of AITER's that ours lack: {told}")
    _without(ledger, console)
    for each in ledger.elsewhere:
        loads = ", ".join(each.loads) or "none"
        say(
            console,
            f"{each.operator} ({each.module}) stands for a Python function of AITER, which may load: {loads}",
        )


def _without(ledger: ModuleLedger, console: Console) -> None:
    """Say why each module is not served, or what replaces it."""
    for line in ledger.lines:
        why = line.reason or "nobody says why"
        if line.status == NOT:
            say(console, f"{line.name}: not served: {why}")
        elif line.status == REPLACED:
            say(console, f"{line.name}: replaced by {', '.join(line.instead)}: {why}")


def _counts(ledger: ModuleLedger, console: Console) -> None:
    table = Table(title="modules by class", title_justify="left")
    for column in ("class", "modules", *STATUSES):
        table.add_column(column)
    counts = ledger.counts()
    for first, by_status in counts.items():
        table.add_row(first, str(sum(by_status.values())), *(str(by_status[status]) for status in STATUSES))
    total = [sum(each[status] for each in counts.values()) for status in STATUSES]
    table.add_row("all", str(sum(total)), *map(str, total))
    console.print(table)


def _modules(ledger: ModuleLedger, console: Console) -> None:
    table = Table(title="modules", title_justify="left")
    for column in ("module", "class", "functions", "status", "by"):
        table.add_column(column, overflow="fold")
    for line in ledger.lines:
        others = [kind for kind in line.kinds if kind != line.first]
        first = line.first + (f" ({', '.join(others)})" if others else "")
        table.add_row(line.name, first, _served(line), line.status, "\n".join(_places(line)))
    console.print(table)


def _served(line: ModuleLine) -> str:
    through = sum(all(each.through for each in function.by) for function in line.functions if function.by)
    return f"{line.served}/{len(line.functions)}" + (f", {through} through" if through else "")


def _places(line: ModuleLine) -> list[str]:
    """``asm: gfx942 tested, gfx950 tested``: the worst state of a backend's operators on a target, with what is proved of it."""
    found = []
    for backend in dict.fromkeys(place.backend for place in line.places):
        cells = []
        for target in dict.fromkeys(place.target for place in line.places if place.backend == backend):
            mine = [place for place in line.places if (place.backend, place.target) == (backend, target)]
            states = dict.fromkeys(place.state for place in mine)
            entries, proved = sum(place.entries for place in mine), sum(place.proved for place in mine)
            cells.append(f"{target} {', '.join(states)} {proved}/{entries}")
        found.append(f"{backend}: {'; '.join(cells)}")
    return found


def _by_reason(line: ModuleLine) -> list[tuple[str | None, list[str]]]:
    found: dict[str | None, list[str]] = {}
    for function in line.functions:
        if not function.by:
            found.setdefault(function.reason, []).append(function.name)
    return list(found.items())


def _functions(line: ModuleLine, console: Console) -> None:
    say(console, f"{line.name} ({line.first}): {line.status}" + (f": {line.reason}" if line.reason else ""))
    for function in line.functions:
        left = f"not served: {function.reason}" if function.reason else "missing"
        who = ", ".join(_who(each) for each in function.by) or left
        say(console, f"  {function.name}: {who}")
    for place in line.places:
        has = f"{place.state}, {place.proved} of {place.entries} entries proved"
        say(console, f"  {place.operator}, {place.backend} on {place.target}: {has}")


def _who(served: Served) -> str:
    through = "through " if served.through else ""
    parts = [f"without {', '.join(served.lacks)}"] if served.lacks else []
    parts += [f"certain values alone of {', '.join(served.limited)}"] if served.limited else []
    return f"{through}{served.operator}" + (f" ({'; '.join(parts)})" if parts else "")
