"""The rows as tables to read."""

from common import Row, compact, line
from speed_report import SpeedReport, load_told, remark, skipped_line, times_told

SECTIONS = {  # title, and what a reader must know
    "a": (
        "The seed case",
        (
            "Skin, two lungs and target of 262 contours, a dose of 116 x 60 x 84 voxels. *Contours to curves*: points "
            "of contours and an array of doses in, curves out. *Resident*: structures are laid out and there."
        ),
    ),
    "b": ("Degenerate doses", "Counting on data that are resident; labels: 128 x 128 x 100 voxels of 30 organs."),
    "c": (
        "The big case",
        (
            "Labels of 30 organs and a dose, 1 mm each. *From memory to counts*: both uploaded, counted, integers "
            "fetched; arrays were checked before. *Whole call*: with checks of the arrays. *Memory*: beyond the inputs."
        ),
    ),
    "d": ("Painting", "Labels and dose resident; from a stroke to the curves of 30 organs."),
    "e": (
        "Copies of the sub-histogram",
        "Points of a host, 100 bins, software interpolation; a launch for each organ.",
    ),
    "f": ("Streams", "The same points."),
    "g": ("Texture", "The same points, 8 copies. *Apart*: doses of the texture unit from those of arithmetic, Gy."),
    "h": ("Threads", "Counting on data that are resident. In brackets the efficiency."),
}
COLUMNS = ("row", "ms", "median", "cpu ms", "per second", "notes")
EXPLAINED = (
    "Best of several runs after a warm-up. *cpu ms*: processor time summed over threads, which other people's "
    "load spoils least. *Kernels*: by CUDA events. *Load*: processes that wanted a core in the minute before."
)


def speed_line(r: Row, rows: list[Row]) -> str:
    """One line; the other rows are there to be compared with."""
    if "skipped" in r:
        return skipped_line(r, COLUMNS)
    if "declared" in r:
        told = f"{r['bytes'] / 1e6:.0f} MB beyond inputs of {r['inputs'] / 1e6:.0f} MB; {r['target']}"
        return remark(r["name"], COLUMNS, told)
    busy = "" if r["cpu_seconds"] is None else f"{1e3 * r['cpu_seconds']:.4g}"
    rate = f"{compact(r['rate'])}{r['unit'].removesuffix('/s')}"
    return line(
        r["name"], f"{1e3 * r['seconds']:.4g}", f"{1e3 * r['median_seconds']:.4g}", busy, rate,
        "; ".join(notes(r, rows)),
    )  # fmt: skip


def notes(r: Row, rows: list[Row]) -> list[str]:
    """What else a row tells."""
    found = times_told(r, rows, lambda name: name.split(" ", 1)[-1])
    if r.get("kernel_seconds"):
        found.append(f"kernels {1e3 * r['kernel_seconds']:.4g} ms")
    if "inside" in r:
        found.append(f"{100 * r['inside']:.0f} % inside")
    if "largest_difference" in r:
        found.append(f"apart {r['mean_difference']:.2g} in the mean, {r['largest_difference']:.2g} at most")
    found += [r[what] for what in ("paper", "target") if r.get(what)]
    return [*found, *load_told(r)]


REPORT = SpeedReport("Speed of the dose engine", EXPLAINED, SECTIONS, speed_line, COLUMNS)
