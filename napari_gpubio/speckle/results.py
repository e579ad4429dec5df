"""Results of operations as they are opened and written: maps, and tables of regions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.exchange import Gridded, GriddedArray, Tabular
from napari_gpubio.core.operations.kinds import MadeOf, register_kind
from napari_gpubio.speckle.io import TIFF_SUFFIXES, write_beats_csv, write_curves_csv, write_maps, write_pulsatility_csv
from napari_gpubio.speckle.mesi.files import UNITS, files_beside, write_fit, write_fits
from napari_gpubio.speckle.mesi.result import MesiResult
from napari_gpubio.speckle.pulsatility import RegionPulsatility
from napari_gpubio.speckle.regions import RegionCurve

_CSV = (".csv",)
_LAYERS = "napari_gpubio.speckle.gui.results:layers_of_map"
_OF_BEATS = (
    "name", "flow", "rate_bpm", "rate_error_bpm", "slowest_bpm", "fastest_bpm", "index", "index_error", "resistivity",
    "resistivity_error", "beats", "harmonics", "false_alarm",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SpeckleMap(GriddedArray, array="array"):
    """One of the maps of a frame or of a stack: contrast, index or mask."""

    of: Any  # what has it as an attribute
    part: str

    @property
    def array(self) -> npt.NDArray[Any]:
        """Shape (Y, X), or (maps, Y, X)."""
        return np.asarray(getattr(self.of, self.part))


class FitMap(SpeckleMap):
    """One of the maps of a multi-exposure fit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CurveTable(Tabular, Gridded):
    """Time courses of regions, and the rate of the frames if it is known."""

    curves: tuple[RegionCurve, ...]
    rate_hz: float | None = None
    notes: tuple[str, ...] = ()
    complete: bool = True

    @property
    def times_s(self) -> npt.NDArray[Any] | None:
        """Time of each map."""
        return None if self.rate_hz is None else self.curves[0].times_s(self.rate_hz)

    @property
    def numbers(self) -> Mapping[str, Any]:
        """What they are, for JSON."""
        each = [
            {"name": one.name, "k2": one.k2, "flow_per_s": one.flow, "pixels": one.used, "skipped": one.skipped}
            for one in self.curves
        ]
        return {"time_s": self.times_s, "regions": each}


@dataclass(frozen=True, eq=False)
class PulseTable(MadeOf, Tabular, main="curves"):
    """The beat of flow in regions, and the time courses that it was found in."""

    curves: CurveTable
    pulses: tuple[RegionPulsatility, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, in sentences."""
        each = (f"{pulse.name}: {note}" for pulse in self.pulses if pulse.has_beat for note in pulse.notes)
        return (*self.curves.notes, *each)

    @property
    def numbers(self) -> Mapping[str, Any]:
        """What they are, for JSON."""
        each = [{**{n: getattr(one, n) for n in _OF_BEATS}, "mean_flow_per_s": one.mean} for one in self.pulses]
        return {**self.curves.numbers, "pulsatility": each}


class BeatTable(PulseTable):
    """The averaged beat of flow in regions."""


_WRITTEN: tuple[tuple[type, Any, tuple[str, ...], Any], ...] = (
    (SpeckleMap, lambda one: (one.part, one.array), TIFF_SUFFIXES,
     lambda one, path, record: write_maps(path, one.of, one.part, record=record)),
    (FitMap, lambda one: (one.part, one.array), TIFF_SUFFIXES,
     lambda one, path, record: write_fit(path, one.of, one.part, record=record)),
    (CurveTable, lambda one: (one.curves, one.rate_hz), _CSV,
     lambda one, path, _: write_curves_csv(path, one.curves, one.times_s)),
    (PulseTable, lambda one: (one.pulses,), _CSV, lambda one, path, _: write_pulsatility_csv(path, one.pulses)),
    (BeatTable, lambda one: (one.pulses,), _CSV, lambda one, path, _: write_beats_csv(path, one.pulses)),
)  # fmt: skip
for _type, _counts, _endings, _write in _WRITTEN:
    _shows = _LAYERS if issubclass(_type, SpeckleMap) else ""
    register_kind(_type, counts=_counts, endings=_endings, write=_write, shows=_shows)
register_kind(
    MesiResult,
    counts=lambda one: tuple(np.asarray(getattr(one, part)) for part in UNITS),
    endings=TIFF_SUFFIXES,
    write=lambda one, path, record: write_fits(path, one, record=record),
    beside=files_beside,
)
