"""Maps as TIFF, and tables of time courses and beats as CSV."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, write_rows, write_text
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.text import delimited
from napari_gpubio.speckle.io.tiff import TIFF_SUFFIXES
from napari_gpubio.speckle.io.tiff_writer import PageFile
from napari_gpubio.speckle.model import NAMES, ContrastMaps
from napari_gpubio.speckle.pulsatility import RegionPulsatility
from napari_gpubio.speckle.regions import RegionCurve
from napari_gpubio.speckle.settings import FlowIndex, InverseCorrelationTime

if TYPE_CHECKING:
    from io import RawIOBase

Array = npt.NDArray[Any]
_FLOWS = {FlowIndex: "SFI [1/s]", InverseCorrelationTime: "1/τ [1/s]"}
_BEATS = {  # columns of a table of beats, and what they show of a region
    "region": "name", "flow": "flow", "beat rate [1/min]": "rate_bpm", "beat rate s.e. [1/min]": "rate_error_bpm",
    "slowest [1/min]": "slowest_bpm", "fastest [1/min]": "fastest_bpm", "pulsatility index": "index",
    "pulsatility index s.e.": "index_error", "resistivity index": "resistivity",
    "resistivity index s.e.": "resistivity_error", "mean [1/s]": "mean", "beats": "beats",
    "harmonics": "harmonics", "false-alarm probability": "false_alarm",
}  # fmt: skip


def write_maps(
    path: str | os.PathLike[str],
    maps: ContrastMaps,
    which: str = "contrast",
    *,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write maps that are in memory as TIFF; see `MapFile`, whose parameters and errors these are."""
    with MapFile(path, which, record=record) as file:
        stack = maps[np.newaxis] if maps.signed.ndim == 2 else maps
        file.take(0, stack)
        file.finish(maps, len(stack))


class MapFile:
    """A TIFF file of maps, written as they are computed; it appears when all is well at the end of the ``with`` block.

    It is readable by ImageJ (from 4 GB on by its Bio-Formats); how the maps were made is in its description (JSON).
    Of a run that is stopped it has the maps that were finished, and ``"complete": false``. A run that is stopped before
    its first map leaves none.

    Parameters
    ----------
    path
        A ``.tif`` file.
    which
        ``"contrast"``, ``"index"`` (both float32) or ``"mask"`` (uint8).
    record
        The operation that makes them, as plain data.

    Raises
    ------
    InvalidInput
        If the maps have no such part, none came, or the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import speckle
    >>> frames = np.random.default_rng(0).integers(1, 255, (40, 32, 32), np.uint8)
    >>> with speckle.io.MapFile("k.tif") as k, speckle.io.MapFile("flow.tif", "index") as flow:
    ...     made = speckle.contrast(frames, into=[k, flow], device="cpu")
    >>> len(made), speckle.io.read_frames("flow.tif").shape
    (0, (40, 32, 32))
    """

    def __init__(
        self, path: str | os.PathLike[str], which: str = "contrast", *, record: Mapping[str, Any] | None = None
    ) -> None:
        if Path(path).suffix.lower() not in TIFF_SUFFIXES:
            raise InvalidInput(f"{Path(path).name} does not end in .tif; give it this ending")
        self.path, self.which, self._record = Path(path), which, record
        self._pages: PageFile | None = None
        self._file: RawIOBase | None = None
        self._is_finished = False

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            part = stack.enter_context(atomic_write(self.path))
            self._file = stack.enter_context(part.open("r+b", buffering=0))
            stack.push(self._check_finished)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def take(self, first: int, maps: ContrastMaps) -> None:
        """Write some maps; see `napari_gpubio.speckle.model.MapTaker`."""
        values: Array | None = getattr(maps, self.which)
        if values is None:
            raise InvalidInput(f"the maps have no {self.which}; choose it in the settings")
        if self._file is None:
            raise InvalidInput(f"{self.path.name} is not open; use it as `with MapFile(...) as file:`")
        if self._pages is None:
            self._pages = PageFile(self._file, values.shape[1:], values.dtype)
        self._pages.write(first, values)

    def finish(self, made: ContrastMaps, count: int) -> None:
        """Write how they were made, and where each of them lies."""
        if self._pages is None or not count:
            return
        about = {**made.parameters, "map": self.which, "unit": made.unit if self.which == "index" else ""}
        about |= {} if made.complete else {"complete": False}
        about |= {} if self._record is None else {RECORD: self._record}
        if self.which == "mask":
            about["bits"] = {name: bit for bit, name in NAMES.items()}
        self._pages.finish(count, json.dumps(about))
        self._is_finished = True

    def _check_finished(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._is_finished:
            raise InvalidInput(f"there are no maps for {self.path.name}, and it is not written; run to the first map")


def write_curves_csv(
    path: str | os.PathLike[str], curves: Sequence[RegionCurve], seconds: npt.ArrayLike | None = None
) -> None:
    """Write time courses of regions, one row per map.

    Parameters
    ----------
    path
        A ``.csv`` file.
    curves
        Time courses from the same maps.
    seconds
        Time of each map; left out if None.

    Raises
    ------
    InvalidInput
        If there is no curve, or curves and times have different lengths.
    """
    lengths = {len(curve.k2) for curve in curves} | ({np.size(seconds)} if seconds is not None else set())
    if not curves or len(lengths) > 1:
        found = "no regions" if not curves else "different numbers of maps, " + " and ".join(map(str, sorted(lengths)))
        raise InvalidInput(f"there is no table of {found}; give curves, and times, of the same maps")
    columns: dict[str, Array] = {"map": np.arange(len(curves[0].k2))}
    if seconds is not None:
        columns["time [s]"] = np.asarray(seconds)
    for curve in curves:
        flow = {} if curve.index is None else {_FLOWS[type(curve.index)]: curve.flow}
        parts = {"K²": curve.k2, **flow, "pixels": curve.used, "skipped": curve.skipped}
        columns |= {f"{curve.name} {what}": values for what, values in parts.items()}
    rows = ([repr(value.item()) for value in row] for row in zip(*columns.values(), strict=True))
    write_text(path, delimited([columns, *rows]))


def write_pulsatility_csv(path: str | os.PathLike[str], pulses: Sequence[RegionPulsatility]) -> None:
    """Write the beat of regions, one row each; numbers of a region without a beat are ``nan``.

    Raises
    ------
    InvalidInput
        If there is no region, or the file cannot be written.
    """
    if not pulses:
        raise InvalidInput("there is no table of no regions; give at least one")
    rows = [[*(getattr(pulse, name) for name in _BEATS.values()), "; ".join(pulse.notes)] for pulse in pulses]
    write_rows(path, [[*_BEATS, "notes"], *rows])


def write_beats_csv(path: str | os.PathLike[str], pulses: Sequence[RegionPulsatility]) -> None:
    """Write the beat-averaged course of flow of regions and its standard error, one row per phase.

    Raises
    ------
    InvalidInput
        If no region has a beat, or the file cannot be written.
    """
    beating = [pulse for pulse in pulses if pulse.has_beat]
    if not beating:
        raise InvalidInput("there is no averaged beat to write: no region has a beat")
    head, columns = ["phase"], [beating[0].phase]
    for pulse in beating:
        head += [f"{pulse.name} {pulse.flow} [1/s]", f"{pulse.name} {pulse.flow} s.e. [1/s]"]
        columns += [pulse.course, pulse.course_error]
    write_rows(path, [head, *(list(row) for row in zip(*(column.tolist() for column in columns), strict=True))])
