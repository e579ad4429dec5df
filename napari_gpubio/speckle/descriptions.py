"""What maps of speckle contrast and time courses of regions say of themselves."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from napari_gpubio.core.describe import Curves, Fact, Item, Line, Rows, Slices, describes, description
from napari_gpubio.speckle.mesi.files import UNITS
from napari_gpubio.speckle.mesi.result import MesiResult
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.regions import RegionCurve
from napari_gpubio.speckle.results import CurveTable, FitMap, PulseTable, SpeckleMap

_DOWN = np.diag([1.0, -1.0, 1.0, 1.0])  # rows of a frame go down


def _map(name: str, values: Any, unit: str = "", style: Any = "heat", error: Any = None) -> Slices:
    """A map (Y, X), or several (maps, Y, X)."""
    turned = [None if one is None else np.asarray(one).T for one in (values, error)]
    return Slices(name, turned[0], _DOWN, unit, ("x", "y", "map")[: np.ndim(values)], style, error=turned[1])


@describes(ContrastMaps)
def _contrast(one: ContrastMaps) -> Iterator[Item]:
    yield Fact("maps", len(one))
    yield Fact("pixels", " x ".join(map(str, one.signed.shape[-2:])))
    yield Fact("contrast, median", float(np.nanmedian(one.contrast)))
    yield _map("contrast", one.contrast)
    if one.index is not None:
        yield _map("index", one.index, one.unit)


@describes(SpeckleMap, FitMap)
def _speckle_map(one: SpeckleMap) -> Iterator[Item]:
    yield Fact("map", one.part)
    values = one.array
    yield Fact("pixels", " x ".join(map(str, values.shape[-2:])))
    yield _map(one.part, values, style="labels" if values.dtype.kind in "ub" else "heat")


@describes(MesiResult)
def _fit(one: MesiResult) -> Iterator[Item]:
    errors = {"tau_ms": "tau_error_ms", "rho": "rho_error", "beta": "beta_error", "noise": "noise_error"}
    for name, error in errors.items():
        values = getattr(one, name)
        yield Fact(f"{name}, median", float(np.nanmedian(values)), UNITS.get(name, ""))
        yield _map(name, values, UNITS.get(name, ""), error=getattr(one, error))


@describes(RegionCurve)
def _curve(one: RegionCurve) -> Iterator[Item]:
    yield from description(CurveTable(curves=(one,)))


@describes(CurveTable)
def _curves(one: CurveTable) -> Iterator[Item]:
    yield Fact("regions", len(one.curves))
    over = ("map", "") if one.times_s is None else ("time", "s")
    has_flow = all(curve.index is not None for curve in one.curves)
    x = np.arange(len(one.curves[0].k2)) if one.times_s is None else one.times_s
    columns = {"k2": "k2", **({"flow_per_s": "flow"} if has_flow else {}), "pixels": "used", "skipped": "skipped"}
    each = {name: np.concatenate([getattr(curve, part) for curve in one.curves]) for name, part in columns.items()}
    names = np.repeat([curve.name for curve in one.curves], len(x))
    yield Rows("region curves", {"region": names, "_".join(filter(None, over)): np.tile(x, len(one.curves)), **each})
    lines = tuple(Line(curve.name, x, curve.flow if has_flow else curve.k2) for curve in one.curves)
    yield Curves("time courses", over, ("flow", "1/s") if has_flow else ("K²", ""), lines)


@describes(PulseTable)
def _pulses(one: PulseTable) -> Iterator[Item]:
    numbers = [{name: one for name, one in row.items() if not np.ndim(one)} for row in one.numbers["pulsatility"]]
    yield Rows.of("pulsatility", numbers)
    there = [pulse for pulse in one.pulses if pulse.has_beat]
    beats = tuple(Line(pulse.name, pulse.phase, pulse.course, pulse.course_error) for pulse in there)
    if beats:
        yield Curves("beat", ("phase", ""), ("flow", "1/s"), beats)
    yield from description(one.curves)
