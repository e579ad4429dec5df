"""The results as tables to read."""

from common import Row, compact, line
from speed_report import SpeedReport, load_told, skipped_line, times_told

from layered.error_maps import COLUMNS as MAP_COLUMNS
from layered.error_maps import KNOWN, map_line

SECTIONS = {  # title, and what a reader must know
    "a": (
        "Skin and intralipid",
        (
            "*Tracing*: on buffers made beforehand, in chunks as in a real run; *one launch*: without a pause; *whole "
            "call*: from arguments to result on the host."
        ),
    ),
    "b": (
        "Steps of optimization, skin",
        "Tracing. Paper: a GTX 480 (2010) and 1e8 photons, from the text and from what its authors' result files say.",
    ),
    "c": (
        "Size and shape of the cache, skin",
        "Tracing, no pilot in it. *Cached*: what part of the absorbed light lies in the cache, by the pilot's photons.",
    ),
    "d": (
        "Four grids over 1 cm x 1 cm, intralipid",
        "Tracing. Paper: a GTX 480 and 1e7 photons, from its authors' result files.",
    ),
    "e": ("Number of GPUs, skin", "Tracing; in brackets the efficiency."),
    "f": (
        "The CPU, skin",
        "Tracing, as many photons for each thread; in brackets the efficiency. *Per core* is what the target is about.",
    ),
    "g": (
        "Differences between maps, skin",
        (
            f"A(r, z) of the first and the second, in bins whose standard error is below {100 * KNOWN:g} % in both. "
            "Normal errors: 68.3, 95.4 and 99.7 % within 1, 2 and 3 (known from batches: a little less)."
        ),
    ),
}
COLUMNS = ("row", "threads", "photons", "seconds", "median", "cpu s", "photons/s", "per core", "Rd", "notes")
EXPLAINED = (
    "Best of several runs. *cpu s*: processor time summed over threads; *per core*: photons per such second, "
    "which other people's load spoils least. *Load*: processes that wanted a core in the minute before, this "
    "one included. *Rd*: diffuse reflectance, which must not depend on how a row was made fast. *x*: times as "
    "fast, on a CPU per core unless threads are compared."
)


def told(r: Row, rows: list[Row]) -> str:
    """One line of any table."""
    return map_line(r) if r["name"][0] == "g" else speed_line(r, rows)


def speed_line(r: Row, rows: list[Row]) -> str:
    """One line of a table of speeds; the other rows are there to be compared with."""
    if "skipped" in r:
        return skipped_line(r, COLUMNS)
    busy = "" if r["cpu_seconds"] is None else f"{r['cpu_seconds']:.4g}"
    return line(
        r["name"], r.get("threads", ""), f"{r['amount']:,}", f"{r['seconds']:.4g}", f"{r['median_seconds']:.4g}", busy,
        compact(r["rate"]), compact(r["rate_per_core"]) if r["rate_per_core"] else "",
        f"{r['reflectance']:.5f} ± {r['reflectance_error']:.5f}", "; ".join(notes(r, rows)),
    )  # fmt: skip


def notes(r: Row, rows: list[Row]) -> list[str]:
    """Ratio, cache, target and the paper's figure of a row, where it has them.

    On a CPU the ratio is by processor seconds, which other people's load leaves, unless it is processors that are
    compared.
    """
    key = "rate" if "processors" in r or not r["rate_per_core"] else "rate_per_core"
    found = times_told(r, rows, lambda name: name[2:], key=key, digits=".2f")
    if "times_gpu_mcml" in r:
        found.append(f"{r['times_gpu_mcml']:.2f} x GPU-MCML")
    if "cache_shape" in r:
        radial, depth = r["cache_shape"]
        found.append(f"{radial} x {depth} bins in r and z, cached {100 * r['cached_share']:.1f} %")
    if r.get("paper"):
        found.append(f"paper {r['paper']}")
    if r.get("target"):
        found.append(r["target"])
    return [*found, *load_told(r)]


REPORT = SpeedReport("Speed of light in layers", EXPLAINED, SECTIONS, told, COLUMNS, {"g": MAP_COLUMNS})
