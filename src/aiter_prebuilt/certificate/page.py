"""A certificate as one page: HTML without scripts, pictures or links, so that it can be mailed and opened anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

#: Wrong calls that a page shows; the document has all.
_MOST: Final = 40
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .7rem .25rem 0; }
td { vertical-align: top; }
th { border-bottom: 2px solid #ccd3da; } td { border-bottom: 1px solid #e4e8ec; } td.number { text-align: right; }
.verdict { display: inline-block; padding: .15rem .7rem; border-radius: .3rem; color: #fff; font-weight: 600; }
.right { background: #1a7f37; } .wrong { background: #b62324; } .incomplete { background: #8a6100; }
.note { background: #fff4d6; padding: .5rem .8rem; border-radius: .3rem; } small, .muted { color: #59636e; }
@media (prefers-color-scheme: dark) { body { background: #11151a; color: #dde3ea; } th { border-color: #3a434d; }
td { border-color: #262d35; } .note { background: #3a3010; } small, .muted { color: #98a3ae; } }
"""


def page(document: Mapping[str, Any]) -> str:
    """Write the page of a document (``schemas/certify.json``)."""
    card = document["card"]
    title = f"{card['name']} ({card['target']})"
    body = [
        f"<h1>{_text(title)}</h1>",
        _verdict(document),
        *_notes(document),
        *_section("Card", ("fact", "value"), _card(document)),
        *_section("Golden calls", ("backend", "operators", "calls", "right", "largest error / bound"), _backends(document)),
        *_list("Wrong", document["wrong"]),
        *_list("Not done", document["not_done"]),
        *_section("Launch cost", ("what", "microseconds"), _launch(document)),
        *_section("Bandwidth", ("what", "MiB moved", "us", "GB/s"), _bandwidth(document)),
        *_section("Kernels", ("call", "kernel", "us", "spread", "GB/s", "TFLOPS"), _rates(document)),
        *_section("Installation", ("fact", "value"), _installation(document)),
        *_list("Reported by doctor", [*document["doctor"].get("problems", ()), *document["doctor"].get("warnings", ())]),
        "<p><small>certify.json beside this page has every call. No host, user, path or address is in either.</small></p>",
    ]  # fmt: skip
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_text(title)}</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _verdict(document: Mapping[str, Any]) -> str:
    verdict = _text(document["verdict"])
    said = f"aiter-prebuilt {document['card']['runtime']}, {document['date']}, {document['seconds']} seconds"
    return f'<p><span class="verdict {verdict}">{verdict}</span> <span class="muted">{_text(said)}</span></p>'


def rows_of(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the certificate's figures as lines for a terminal: what, and the result."""
    golden = document["golden"]
    right, count = _right(golden["lines"]), len(golden["lines"])
    found = [("golden calls", f"{right} of {count} right, {golden['total']} in all")]
    found += [(what, f"{us} us") for what, us in _launch(document)]
    found += [(f"{what}, {size} MiB", f"{rate} GB/s") for what, size, _, rate in _bandwidth(document)]
    for call, kernel, us, _, rate, flops in _rates(document):
        found.append((call, f"{us} us, {f'{flops} TFLOPS' if flops else f'{rate} GB/s'}, {kernel}"))
    return found


def _text(value: object) -> str:
    return escape(str(value), quote=True)


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield a table, or nothing where it would have no rows."""
    if not rows:
        return
    yield f"<h2>{_text(title)}</h2>\n<table><tr>{''.join(f'<th>{_text(name)}</th>' for name in columns)}</tr>"
    for row in rows:
        cells = (
            f"<td{' class=number' if isinstance(cell, float) else ''}>{_text(cell)}</td>" for cell in row
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"


def _list(title: str, texts: Sequence[str]) -> Iterator[str]:
    if not texts:
        return
    more = [f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else []
    rows = "".join(f"<li>{_text(text)}</li>" for text in (*texts[:_MOST], *more))
    yield f"<h2>{_text(title)}</h2>\n<ul>{rows}</ul>"


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    if document["card"]["embedded"]:
        yield '<p class="note">This is the embedded device: its results are a card\'s, its times are not.</p>'
    for note in dict.fromkeys(note for state in document["card"]["states"] for note in state["notes"]):
        yield f'<p class="note">{_text(note[:1].upper() + note[1:])}.</p>'


def _card(document: Mapping[str, Any]) -> list[tuple[str, object]]:
    card = document["card"]
    clocks = [f"{state['clock_mhz']} MHz" for state in card["states"] if state["clock_mhz"]]
    return [
        ("architecture", card["arch"]),
        ("compute units", card["compute_units"]),
        ("memory", f"{card['memory_bytes'] / 2**30:.1f} GiB"),
        ("driver", card["driver_version"]),
        *([("clock, before and after measuring", ", ".join(clocks))] if clocks else []),
        *((f"bundle {each['target']} ({each['profile']})", f"{each['release']}, {each['operators']} operators, {each['digest']}")
          for each in document["bundles"]),
    ]  # fmt: skip


def _right(lines: Sequence[Mapping[str, Any]]) -> int:
    return sum(not line["problems"] and line["worst"] is not None for line in lines)


def _backends(document: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """Count the golden calls of each backend."""
    rows: list[tuple[object, ...]] = []
    lines = document["golden"]["lines"]
    for backend in sorted({line["backend"] for line in lines}):
        mine = [line for line in lines if line["backend"] == backend]
        worst = max((line["worst"] for line in mine if line["worst"] is not None), default=None)
        operators = len({line["operator"] for line in mine})
        rows.append(
            (
                backend or "none chosen",
                operators,
                len(mine),
                _right(mine),
                "" if worst is None else f"{worst:.3f}",
            )
        )
    return rows


def _found(document: Mapping[str, Any], name: str) -> Any:
    return next((row["found"] for row in document["measured"] if row["name"] == name), None)


def _launch(document: Mapping[str, Any]) -> list[tuple[str, float]]:
    found = _found(document, "launch")
    if not found:
        return []
    return [
        ("a call, until it returns", found["host_us"]),
        ("a launch in a replayed graph", found["replayed_us"]),
        ("a lone call, until the card is done", found["alone_us"]),
    ]


def _bandwidth(document: Mapping[str, Any]) -> list[tuple[str, float, float, float]]:
    rows = _found(document, "bandwidth") or []
    return [(row["what"], round(row["bytes"] / 2**20, 2), row["us"], row["gb_s"]) for row in rows]


def _rates(document: Mapping[str, Any]) -> list[tuple[str, str, float, str, object, object]]:
    """Return the chosen kernel of each measured call, and the fastest where it is another."""
    rows = []
    for measured in document["measured"]:
        if measured["name"] in ("launch", "bandwidth") or not measured["found"]:
            continue
        both = [measured["found"]["chosen"], measured["found"]["fastest"]]
        for place, row in enumerate(both if both[0] != both[1] else both[:1]):
            kernel = f"{row['kernel']}[{row['variant']}] {row['backend']}{', the fastest' if place else ''}"
            spread = "" if row["spread"] is None else f"{row['spread']:.1%}"
            rows.append(
                (measured["found"]["call"], kernel, row["us"], spread, row["gb_s"], row["tflops"] or "")
            )
    return rows


def _installation(document: Mapping[str, Any]) -> list[tuple[str, object]]:
    told = document["doctor"]
    if not told:
        return []
    rows = [
        ("Python", told["python"]),
        ("torch", told["torch"]),
        ("system", told["system"]),
        ("bridge", "yes" if told["bridge"] else "no"),
    ]
    rows += [(f"{each['vendor']} driver", str(each["version"])) for each in told["drivers"]]
    return [
        *rows,
        ("settings", ", ".join(told["settings"]) or "none"),
        ("devices", "; ".join(told["devices"])),
    ]
