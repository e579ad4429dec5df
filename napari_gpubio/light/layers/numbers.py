"""The numbers of a layered result as rows, and what to think of them: for the dock widget, a table, a CSV file."""

import math

from napari_gpubio.light.layers.napari_io import own_bins
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.settings import ring_area_mm2
from napari_gpubio.light.result import Estimate
from napari_gpubio.light.statistics import CLOSED_WITHIN, MOST_ROULETTE_Z, Finding, Status, roulette_z
from napari_gpubio.light.summary import ABSORBED, ENERGY, RUN, NumberRow

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
    rows.append(_roulette_row(result.roulette))
    rows.append(NumberRow(group=ENERGY, name="Total", value=result.total, status=closed))
    for index, layer in enumerate(result.medium.layers):
        rows.append(
            NumberRow(
                group=ABSORBED,
                name=layer.name or f"layer {index + 1}",
                value=float(result.A_l.value[index]),
                error=float(result.A_l.error[index]),
                label=index + 1,
            )
        )
    return tuple(rows)


def layered_findings(result: LayeredResult, *, running: bool = False) -> tuple[Finding, ...]:
    """What to think of a result, worst first; never empty.

    Parameters
    ----------
    result
        What a simulation gave.
    running
        Whether more photons are under way: what only they can settle is then no fault yet.
    """
    found = []
    if not abs(result.total - 1) < _closed_within(result):
        message = f"Energy balance broken: the parts sum to {result.total:.7g}, not 1. Do not use this."
        found.append(Finding("error", message))
    if abs(z := roulette_z(result.roulette)) > MOST_ROULETTE_Z:
        message = f"Roulette is {z:.1f} standard errors from 0; run again with another seed."
        found.append(Finding("warning", message))
    if not running and not math.isfinite(result.absorbed.error):
        found.append(Finding("warning", NO_ERRORS if is_from_file(result) else TOO_FEW))
    if (beyond := absorbed_beyond(result)) > MOST_BEYOND:
        message = f"{beyond:.1%} of the absorbed light lies beyond the grid; take more or larger bins to see it."
        found.append(Finding("warning", message))
    if not found:
        found.append(Finding("ok", f"Energy balance closed within {_rounded_up(result.total - 1):.0e}."))
    if not result.complete:
        how = "Running:" if running else "Stopped after"
        message = f"{how} {result.launched:,} of {result.settings.photons:,} photons."
        found.append(Finding("ok", message))
    return tuple(sorted(found, key=lambda finding: ("error", "warning", "ok").index(finding.status)))


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


def _roulette_row(part: Estimate) -> NumberRow:
    z = roulette_z(part)
    status: Status = "warning" if abs(z) > MOST_ROULETTE_Z else "ok"
    note = f"z = {z:.1f}" if math.isfinite(z) else ""
    return NumberRow(group=ENERGY, name="Roulette", value=part.value, error=part.error, status=status, note=note)


def _rounded_up(off: float) -> float:
    """A power of ten not below an amount."""
    return 10.0 ** math.ceil(math.log10(max(abs(off), 1e-15)))
