"""The rows as tables to read."""

from common import Row, compact, line
from speed_report import SpeedReport, compared_with, load_told, skipped_line

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
EXPLAINED = "Best of many runs. *cpu ms*: processor time summed over threads. *x*: times as fast."


def told(r: Row, rows: list[Row]) -> str:
    """One line; the other rows are there to be compared with."""
    if "skipped" in r:
        return skipped_line(r, COLUMNS)
    busy = "" if r["cpu_seconds"] is None else f"{1e3 * r['cpu_seconds']:.4g}"
    each = 1e9 * r["seconds"] / r["amount"]
    return line(
        r["name"], f"{1e3 * r['seconds']:.4g}", f"{1e3 * r['median_seconds']:.4g}", busy, f"{each:.3g}",
        compact(r["rate"]), "; ".join(_notes(r, rows)),
    )  # fmt: skip


def _notes(r: Row, rows: list[Row]) -> list[str]:
    """What else a row tells."""
    found = []
    if "bandwidth" in r:
        found.append(f"{r['bandwidth'] / 1e12:.2f} TB/s")
    if (base := compared_with(r, rows)) is not None:
        times = r["rate"] / base["rate"]
        share = f"{100 * times:.0f} % of it" if "bandwidth" in r else f"{times:.3g} x {base['name'].split(' ', 1)[-1]}"
        found.append(share)
    if r.get("paper"):
        found.append(f"paper: {r['paper']}")
    if r.get("target"):
        found.append(r["target"])
    return [*found, *load_told(r)]


REPORT = SpeedReport("Speed of the speckle engine", EXPLAINED, SECTIONS, told, COLUMNS, names_peers=True)
