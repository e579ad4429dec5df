"""The numbers of a layered result as rows, and what to think of them: for the dock widget, a table, a CSV file."""

import math

from napari_gpubio.light.layers.napari_io import own_bins
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.settings import ring_area_mm2
from napari_gpubio.light.result import Estimate
from napari_gpubio.light.statistics import CLOSED_WITHIN, Finding, Status, balance_findings, worst_first
from napari_gpubio.light.summary import ABSORBED, ENERGY, RUN, NumberRow, roulette_row

MOST_BEYOND = 0.01  # of the absorbed light: more than that beyond the grid is worth a word

TOO_FEW = "Too few batches for standard errors; run more photons."
NO_ERRORS = "The file has no standard errors."
_CLOSED_IN_FILES = 1e-3  # MCML does not report the balance of its Russian roulette


def layered_rows(result: LayeredResult) -> tuple[NumberRow, ...]:
    """Every number of a result: photons, fractions of a launched photon, and what each layer absorbed."""
    return (*_run_rows(result), *fraction_rows(result))


def fraction_rows(result: LayeredResult) -> tuple[NumberRow, ...]:
    """Fractions of a launched photon, in all and by layer."""
    parts = {
        "Specular reflectance Rsp": Estimate(result.specular, math.nan),
        "Diffuse reflectance Rd": result.diffuse_reflectance,
        "Transmittance T": result.transmittance,
        "Absorbed A": result.absorbed,
    }
    rows = [NumberRow(group=ENERGY, name=name, value=part.value, error=part.error) for name, part in parts.items()]
    closed: Status = "ok" if abs(result.total - 1) < _closed_within(result) else "error"
    rows.append(roulette_row(result.roulette))
    rows.append(NumberRow(group=ENERGY, name="Total", value=result.total, status=closed))
    for index, (value, error) in enumerate(zip(*result.A_l, strict=True)):
        name = result.medium.layer_name(index)
        rows.append(NumberRow(group=ABSORBED, name=name, value=float(value), error=float(error), label=index + 1))
    return tuple(rows)


def layered_findings(result: LayeredResult, *, running: bool = False) -> tuple[Finding, ...]:
    """What to think of a result, worst first, never empty; a running one may still lack errors."""
    found = [*balance_findings(result.total, result.roulette, _closed_within(result))]
    if not running and not math.isfinite(result.absorbed.error):
        found.append(Finding("warning", NO_ERRORS if is_from_file(result) else TOO_FEW))
    if (beyond := absorbed_beyond(result)) > MOST_BEYOND:
        message = f"{beyond:.1%} of the absorbed light lies beyond the grid; take more or larger bins to see it."
        found.append(Finding("warning", message))
    return worst_first(found, result, result.total, running=running)


def absorbed_beyond(result: LayeredResult) -> float:
    """Share of the absorbed light that lies beyond the grid (with what the outermost bins hold, if they collect it)."""
    if result.A_rz is None or not result.absorbed.value > 0:
        return 0.0
    volumes_mm3 = ring_area_mm2(result.settings)[:, None] * result.settings.dz_mm
    inside = (result.A_rz.value * volumes_mm3)[own_bins(result)].sum()
    return max(0.0, 1.0 - float(inside) / result.absorbed.value)


def is_from_file(result: LayeredResult) -> bool:
    """Whether a result was read from a file of MCML, which has few digits and no standard errors."""
    return result.state is None and not math.isfinite(result.absorbed.error)


def _closed_within(result: LayeredResult) -> float:
    """By how much the sum of all fractions may miss 1."""
    return _CLOSED_IN_FILES if is_from_file(result) else CLOSED_WITHIN


def _run_rows(result: LayeredResult) -> list[NumberRow]:
    seconds = result.parameters.get("seconds", math.nan)
    note = "" if result.complete else "stopped early"
    rows = [NumberRow(group=RUN, name="Photons", value=result.launched, note=note)]
    if seconds and math.isfinite(seconds):
        rows.append(NumberRow(group=RUN, name="Time", value=seconds, unit="s"))
        rows.append(NumberRow(group=RUN, name="Speed", value=result.launched / seconds, unit="photons/s"))
    return rows
