"""The numbers of a layered result: rows for tables, what to think of them, and curves in depth, along r, by angle."""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_rows
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.layered.quantities import QUANTITIES, own_bins, quantity_rz, quantity_unit
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import ring_area_mm2
from napari_gpubio.optics.estimates import MAX_ERROR, PER_PHOTON, Estimate, Estimates, FluenceUnit
from napari_gpubio.optics.numbers import (
    ABSORBED,
    CLOSED_WITHIN,
    ENERGY,
    RUN,
    Finding,
    NumberRow,
    Status,
    balance_findings,
    number_in_full,
    roulette_row,
    worst_first,
)

MAX_BEYOND = 0.01  # of the absorbed light: more than that beyond the grid is worth a word

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
    if (beyond := absorbed_beyond(result)) > MAX_BEYOND:
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


Floats = npt.NDArray[np.float64]
_BROAD, _RD, _TT = "of a broad beam", "Diffuse reflectance Rd", "Transmittance Tt"
_COLUMNS = ("curve", "coordinate", "coordinate_unit", "at", "value", "standard_error", "unit")


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(ShortRepr):
    """Values along one coordinate.

    Parameters
    ----------
    quantity, unit
        What it is, and in what.
    where
        Of which part of the result, or an empty text.
    coordinate, coordinate_unit
        What it is drawn over, and in what.
    at
        The coordinate, shape (N,).
    value, error
        Values and their standard errors, shape (N,); NaN where unknown.
    """

    quantity: str
    unit: str
    coordinate: str
    coordinate_unit: str
    at: Floats
    value: Floats
    error: Floats
    where: str = ""

    @property
    def doubtful(self) -> npt.NDArray[np.bool_]:
        """Where a value is known to be no more than noise; see `Estimates.trusted`. Unknown errors are no doubt."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.value > 0) & (self.error > MAX_ERROR * self.value))

    @property
    def name(self) -> str:
        """The quantity, and where it is."""
        return f"{self.quantity} {self.where}".strip()

    @property
    def quantity_text(self) -> str:
        """The quantity with its unit."""
        return f"{self.quantity} ({self.unit})" if self.unit else self.quantity

    @property
    def coordinate_text(self) -> str:
        """The coordinate with its unit."""
        return f"{self.coordinate} ({self.coordinate_unit})"


def broad_beam_curve(result: LayeredResult, quantity: str = "fluence") -> Curve:
    """What an infinitely broad beam gives in depth: fluence over the irradiance's (no unit), or absorbed, 1/mm.

    Raises
    ------
    InvalidInput
        If there is no such quantity, or the result has no absorption map.
    """
    quantity_unit(quantity, PER_PHOTON)
    fluence = result.fluence_z()  # raises without the map
    if quantity == "fluence" or result.A_z is None:
        return _in_depth(result, fluence, "Fluence / incident", "", _BROAD)
    return _in_depth(result, result.A_z, "Absorbed / incident", "1/mm", _BROAD)


def depth_curve(result: LayeredResult, r_mm: float, quantity: str = "fluence", unit: FluenceUnit = PER_PHOTON) -> Curve:
    """Fluence or absorbed energy in depth, in the radial bin that holds a radius.

    Raises
    ------
    InvalidInput
        If the radius is beyond the grid, there is no such quantity, or the result has no absorption map.
    """
    index = _bin_at("radius", r_mm, result.settings.dr_mm, result.settings.radial_bins)
    found, named = quantity_rz(result, quantity, unit), quantity_unit(quantity, unit)
    there = Estimates(found.value[index], found.error[index])
    return _in_depth(result, there, quantity.capitalize(), named.name, f"at r = {result.r_mm[index]:.5g} mm")


def radial_curve(
    result: LayeredResult, z_mm: float, quantity: str = "fluence", unit: FluenceUnit = PER_PHOTON
) -> Curve:
    """Fluence or absorbed energy along r, in the depth bin that holds a depth; errors as `depth_curve`."""
    index = _bin_at("depth", z_mm, result.settings.dz_mm, result.settings.depth_bins)
    found, named = quantity_rz(result, quantity, unit), quantity_unit(quantity, unit)
    there = Estimates(found.value[:, index], found.error[:, index])
    return _along_r(result, there, quantity.capitalize(), named.name, f"at z = {result.z_mm[index]:.5g} mm")


def escape_curves(result: LayeredResult, unit: FluenceUnit = PER_PHOTON) -> tuple[Curve, Curve]:
    """Diffuse reflectance and transmittance per area along r."""
    both = [Estimates(unit.factor * e.value, unit.factor * e.error) for e in (result.Rd_r, result.Tt_r)]
    return _along_r(result, both[0], _RD, unit.name), _along_r(result, both[1], _TT, unit.name)


def angle_curves(result: LayeredResult) -> tuple[Curve, Curve]:
    """Diffuse reflectance and transmittance per solid angle, over the angle from the normal."""
    return _by_angle(result, result.Rd_a, _RD), _by_angle(result, result.Tt_a, _TT)


def every_curve(result: LayeredResult, *, unit: FluenceUnit = PER_PHOTON) -> tuple[Curve, ...]:
    """Return the curves that need no choice: in depth for a broad beam and on the axis; escape by r and by angle."""
    curves: list[Curve] = []
    for quantity in QUANTITIES:
        if result.A_z is not None:
            curves.append(broad_beam_curve(result, quantity))
        if result.A_rz is not None:
            curves.append(depth_curve(result, 0.0, quantity, unit))
    return (*curves, *escape_curves(result, unit), *angle_curves(result))


def write_curves(path: str | os.PathLike[str], curves: Iterable[Curve]) -> None:
    """Write curves as one table of comma-separated values; what is unknown is an empty field.

    Raises
    ------
    InvalidInput
        If the folder does not exist, or the file cannot be written.
    """
    rows = (
        (curve.name, curve.coordinate, curve.coordinate_unit, *(number_in_full(float(n)) for n in numbers), curve.unit)
        for curve in curves
        for numbers in zip(curve.at, curve.value, curve.error, strict=True)
    )
    write_rows(path, [_COLUMNS, *rows], marked=True)


def _in_depth(result: LayeredResult, found: Estimates, quantity: str, unit: str, where: str) -> Curve:
    own = own_bins(result)[1]
    return Curve(
        quantity=quantity, unit=unit, where=where, coordinate="Depth z", coordinate_unit="mm", at=result.z_mm[own],
        value=found.value[own], error=found.error[own],
    )  # fmt: skip


def _along_r(result: LayeredResult, found: Estimates, quantity: str, unit: str, where: str = "") -> Curve:
    own = slice(-1)  # whatever escapes beyond the grid is in the last bin
    return Curve(
        quantity=quantity, unit=unit, where=where, coordinate="Radius r", coordinate_unit="mm", at=result.r_mm[own],
        value=found.value[own], error=found.error[own],
    )  # fmt: skip


def _by_angle(result: LayeredResult, found: Estimates, quantity: str) -> Curve:
    return Curve(
        quantity=quantity, unit="1/sr", coordinate="Angle from the normal", coordinate_unit="°",
        at=np.rad2deg(result.angle_rad), value=found.value, error=found.error,
    )  # fmt: skip


def _bin_at(what: str, at_mm: float, width_mm: float, count: int) -> int:
    index = int(np.floor(at_mm / width_mm + 1e-9))  # an edge belongs to the bin behind it, whatever the rounding
    if not 0 <= index < count:
        raise InvalidInput(
            f"the {what} is {at_mm:g} mm and the grid goes from 0 to {count * width_mm:g} mm; choose another"
        )
    return index
