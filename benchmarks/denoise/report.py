"""The rows as tables to read."""

from common import Row, compact, line
from speed_report import SpeedReport, load_told, remark, skipped_line, times_told

SECTIONS = {  # title, and what a reader must know
    "a": (
        "Sizes",
        "Search radius 3, patch radii 1 and 2, mixing. *Resident*: on buffers made beforehand, without transfers.",
    ),
    "b": ("Search radius", "Resident."),
    "c": ("Settings", "Resident."),
    "d": ("Processors", "In brackets the efficiency."),
    "e": ("Memory", "In volumes of float32: declared by the engine, and the growth of CuPy's pool in a whole call."),
    "f": (
        "Steps of optimization",
        (
            "Seconds before, in and after the kernels. *Differ*: share of voxels that differ from the engine's by more "
            "than 1e-5, and the largest relative difference."
        ),
    ),
    "g": ("Beside others", "Whole calls in one run. Peers use the CPU."),
    "h": (
        "Monte Carlo and filter",
        (
            "From photons to the denoised volume on the host. *Worth*: photons that an unfiltered run needs for the "
            "same relative squared error where the raw signal / noise is 0 to 30 dB."
        ),
    ),
    "i": ("Fluence", "`denoise_fluence` on the halves of B1. *Sweeps alone*: what a whole call spends in them."),
}
COLUMNS = ("row", "seconds", "median", "cpu s", "voxels/s", "notes")
EXPLAINED = (
    "Best of several runs. *cpu s*: processor time summed over threads, which other people's load spoils "
    "least. *Load*: processes that wanted a core in the minute before, this one included. *x*: times as fast."
)


def speed_line(r: Row, rows: list[Row]) -> str:
    """One line; the other rows are there to be compared with."""
    if "skipped" in r:
        return skipped_line(r, COLUMNS)
    if "declared" in r:
        told = f"declared {r['declared']:.1f}, most {r['most']:.1f} ({r['bytes'] / 1e6:.0f} MB); target {r['target']}"
        return remark(r["name"], COLUMNS, told)
    busy = "" if r["cpu_seconds"] is None else f"{r['cpu_seconds']:.4g}"
    return line(
        r["name"], f"{r['seconds']:.4g}", f"{r['median_seconds']:.4g}", busy, compact(r["rate"]),
        "; ".join(notes(r, rows)),
    )  # fmt: skip


def notes(r: Row, rows: list[Row]) -> list[str]:
    """What else a row tells."""
    found = times_told(r, rows, lambda name: name.split(", ", 1)[-1])
    if "parts" in r:
        before, kernels, after = (1e3 * r["parts"][part] for part in ("before", "kernels", "after"))
        found.append(f"{before:.3g} + {kernels:.3g} + {after:.3g} ms")
        found.append(f"differ {100 * r['share_beyond_rounding']:.3g} %, at most {r['largest_difference']:.1g}")
    if "tracing" in r:
        found.append(f"tracing {r['tracing']:.4g} s, filter {r['filtering']:.4g} s")
    if r.get("equivalent_photons"):
        found.append(f"worth {compact(r['equivalent_photons'])}photons")
    if r.get("paper"):
        found.append(f"paper: {r['paper']}")
    if r.get("target"):
        found.append(r["target"])
    return [*found, *load_told(r)]


REPORT = SpeedReport("Speed of the denoise engine", EXPLAINED, SECTIONS, speed_line, COLUMNS)
