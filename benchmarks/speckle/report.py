"""The rows as tables to read."""

from typing import Any

from common import Row, compact, header_lines, line, table

SECTIONS = {  # title, and what a reader must know
    "a": (
        "Beside others",
        (
            "K and SFI of one frame of 1392 x 1040, 5 x 5, in the host's memory. In single precision the others are "
            "wrong by more than 1e-6 where contrast is low."
        ),
    ),
    "b": ("Windows and modes", "1392 x 1040, K and SFI unless told otherwise, frames resident."),
    "c": (
        "The seed's table",
        "From a frame in the host's memory to both maps there. *Paper*: table 1 of Yang et al. 2011.",
    ),
    "d": ("Whole stacks", "1392 x 1040 in one call, checks and all transfers included."),
    "e": (
        "Bandwidth",
        "By the GPU's clock, data resident. A pixel is 10 bytes: 2 read and 8 written.",
    ),
}
COLUMNS = ("row", "ms", "median", "cpu ms", "ns/pixel", "pixels/s", "notes")


def markdown(head: dict[str, Any], rows: list[Row]) -> str:
    """Everything, a table for each part."""
    lines = [
        "# Speed of the speckle engine",
        "",
        *header_lines(head),
        f"Device: {head['device']}. Peers: {head['peers']}. Load average at the end {head['load_average_end']}.",
        "",
        "Best of many runs. *cpu ms*: processor time summed over threads. *x*: times as fast.",
    ]
    for letter, (title, sentence) in SECTIONS.items():
        if own := [r for r in rows if r["name"][0] == letter]:
            lines += ["", f"## {letter}. {title}", "", sentence, "", *table(COLUMNS, [told(r, own) for r in own])]
    return "\n".join(lines) + "\n"


def told(r: Row, rows: list[Row]) -> str:
    """One line; the other rows are there to be compared with."""
    if "skipped" in r:
        return line(r["name"], *[""] * (len(COLUMNS) - 2), f"skipped: {r['skipped']}")
    busy = "" if r["cpu_seconds"] is None else f"{1e3 * r['cpu_seconds']:.4g}"
    each = 1e9 * r["seconds"] / r["amount"]
    return line(
        r["name"], f"{1e3 * r['seconds']:.4g}", f"{1e3 * r['median_seconds']:.4g}", busy, f"{each:.3g}",
        compact(r["rate"]), "; ".join(_notes(r, rows)),
    )  # fmt: skip


def _notes(r: Row, rows: list[Row]) -> list[str]:
    """What else a row tells."""
    found = []
    base = next((b for b in rows if b["name"] == r.get("compared_with") and "rate" in b), None)
    if "bandwidth" in r:
        found.append(f"{r['bandwidth'] / 1e12:.2f} TB/s")
    if base is not None and base is not r:
        times = r["rate"] / base["rate"]
        share = f"{100 * times:.0f} % of it" if "bandwidth" in r else f"{times:.3g} x {base['name'].split(' ', 1)[-1]}"
        found.append(share)
    if r.get("paper"):
        found.append(f"paper: {r['paper']}")
    if r.get("target"):
        found.append(r["target"])
    return [*found, *(f"load {load:g}" for load in r.get("load_average", ()))]
