"""The notes of a release, as Markdown: what a user and a builder of wheels want to know first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from build_tools.release.changes import MOST, Changes, Entry


def render(changes: Changes) -> str:
    """Return the page."""
    lines = [f"# aiter-prebuilt {changes.new}", "", f"Compared with {changes.old}.", ""]
    for title, part in (
        ("Operators", _operators(changes)),
        ("Entries", _entries(changes)),
        ("Compilers", [f"- {name} {old or 'none'} -> {new or 'none'}" for name, (old, new) in changes.tools.items()]),
        ("Receipts", _receipts(changes)),
        ("Sizes", _sizes(changes)),
        ("Wheels", _wheels(changes)),
    ):  # fmt: skip
        told = list(part)
        if told:
            lines += [f"## {title}", "", *told, ""]
    return "\n".join(lines).rstrip() + "\n"


def _operators(changes: Changes) -> Iterator[str]:
    for word, rows in (("New", changes.added), ("Gone", changes.removed)):
        for name, targets in rows.items():
            yield f"- {word}: `{name}` on {', '.join(targets)}"
    for name, (old, new) in changes.signatures.items():
        yield f"- `{name}` takes other arguments of its kernels: `{old}` -> `{new}`"
    if not (changes.added or changes.removed or changes.signatures):
        yield "None is new, gone, or takes other arguments."


def _entries(changes: Changes) -> Iterator[str]:
    for word, rows in (("New", changes.more), ("Gone", changes.fewer)):
        for (operator, target, profile), names in rows.items():
            yield f"- {word}: {len(names)} of `{operator}` on {target} ({profile}): {_some(names)}"
    for (operator, why), entries in _grouped(changes.changed).items():
        places = ", ".join(sorted({entry.target for entry in entries}))
        reason = "; ".join(why) or "nothing that the records name changed beside it"
        yield f"- Changed: {len(entries)} of `{operator}` on {places}: {reason}"
    if not (changes.more or changes.fewer or changes.changed):
        yield "All are the same."


def _grouped(entries: Iterable[Entry]) -> Mapping[tuple[str, tuple[str, ...]], list[Entry]]:
    found: dict[tuple[str, tuple[str, ...]], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.operator, entry.why), []).append(entry)
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(f"`{name}`" for name in names[:MOST]) + more


def _receipts(changes: Changes) -> Iterator[str]:
    for size in changes.sizes:
        entries, proved = size.entries[1], size.proved[1]
        if entries is not None and proved is not None:
            left = f", {entries - proved} were not executed" if proved < entries else ""
            yield f"- {size.target} ({size.profile}): {proved} of {entries} entries were executed and right{left}"
    if changes.lost:
        yield f"- Lost since {changes.old}: {_some(changes.lost)}"


def _sizes(changes: Changes) -> Iterator[str]:
    yield f"| bundle | {changes.old} | {changes.new} | |"
    yield "|---|---|---|---|"
    for size in changes.sizes:
        old, new = size.bytes
        growth = f"{100 * (new - old) / old:+.1f} %" if old and new is not None else ""
        yield f"| {size.target} ({size.profile}) | {_bytes(old)} | {_bytes(new)} | {growth} |"


def _wheels(changes: Changes) -> Iterator[str]:
    if changes.wheels:
        yield "| wheel | bytes | SHA-256 |"
        yield "|---|---|---|"
    for wheel in changes.wheels:
        yield f"| `{wheel['file']}` | {wheel['bytes']} | `{wheel['sha256']}` |"


def _bytes(value: int | None) -> str:
    return "none" if value is None else f"{value / 1e6:.2f} MB"
