"""What a tractogram file holds: fibers, provenance; and what a streaming writer must be able to do."""

import dataclasses
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import json_of
from napari_gpubio.core.reading import note
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.diffusion.io.grids import Grid, reference_grid
from napari_gpubio.tractograms.io.validation import offsets_of, unique_names
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
KEY = "napari_gpubio"
_NOT_OURS = (ValueError, KeyError, TypeError, OverflowError, RecursionError)  # JSON of any other shape
_PROTECTED = str.maketrans({"%": "%25", ":": "%3A", "#": "%23"})


@dataclass(frozen=True, eq=False)
class Provenance:
    """Content of the header line: parameters, whether the run came to its end, and the grid of the fibers or None."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    grid: Grid | None = None

    def encode(self) -> str:
        """Return the line; its length does not depend on ``complete``.

        InvalidInput if the parameters hold what JSON cannot.
        """
        content: dict[str, Any] = {"complete": int(self.complete), "parameters": dict(self.parameters)}
        if self.grid is not None:
            content |= {"affine": self.grid.affine.tolist(), "shape": list(self.grid.shape)}
        try:
            return json.dumps(content, default=_plain).translate(_PROTECTED)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"the parameters cannot be written as JSON ({error}); give only plain values") from error


def decode(text: Any) -> Provenance:
    """Read what `Provenance.encode` wrote; a line that cannot be read counts as absent."""
    try:
        content = json_of(unquote(str(text)), KEY)
        grid = reference_grid((content["affine"], content["shape"])) if "affine" in content else None
        return Provenance(dict(content["parameters"]), bool(content["complete"]), grid)
    except _NOT_OURS as error:
        note(f"the header line {KEY!r} is damaged and was left out: {error}")
        return Provenance()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} {value!r} is not plain")


@dataclass(eq=False, kw_only=True)
class Parsed(ShortRepr):
    """What a file holds; see `Tractogram` for shapes and units.

    ``grid`` is None where the format has none; ``provenance`` has the parameters of `places.UNKNOWN_PLACE` where
    lengths are known alone.
    """

    points: Array
    offsets: npt.NDArray[np.int64]
    per_point: dict[str, Array] = field(default_factory=dict)
    per_fiber: dict[str, Array] = field(default_factory=dict)
    grid: Grid | None = None
    provenance: Provenance = field(default_factory=Provenance)
    per_group: dict[str, dict[str, Array]] = field(default_factory=dict)

    def select(self, keep: npt.NDArray[np.bool_]) -> "Parsed":
        """Return some fibers, a boolean for each, with their numbers."""
        counts = np.diff(self.offsets)
        rows = np.repeat(keep, counts)
        return dataclasses.replace(
            self,
            points=self.points[rows],
            offsets=offsets_of(counts[keep]),
            per_point={name: values[rows] for name, values in self.per_point.items()},
            per_fiber={name: values[keep] for name, values in self.per_fiber.items()},
        )


class FormatWriter(ABC):
    """A file of one format that grows part by part; the last bytes are written on a clean exit.

    ``provenance.grid`` is never None here.
    """

    def __init__(self, path: Path, provenance: Provenance) -> None:
        self.path = path
        self.provenance = provenance
        self.grid = provenance.grid if provenance.grid is not None else Grid(np.eye(4), (1, 1, 1))
        self.fibers = 0
        self.points = 0
        self.complete = True

    @abstractmethod
    def append(self, part: Tractogram) -> None:
        """Write some fibers; all have points, and every part has the same columns."""

    @abstractmethod
    def finish(self, *, complete: bool) -> None:
        """Write what can only be known at the end."""

    @abstractmethod
    def close(self) -> None:
        """Close every file; must work at any moment and never raise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish(complete=self.complete)
        finally:
            self.close()


def numeric_columns(table: Mapping[str, Array], what: str) -> Iterator[tuple[str, Array]]:
    """Yield name and values, shape (rows, k), of the columns that are numbers; note the others."""
    for name, values in table.items():
        column = np.asarray(values)
        if column.dtype.kind in "biuf" and column.dtype.itemsize <= 8:
            if column.size:
                yield name, column.reshape(len(column), -1)
        else:
            note(f"{name} of each {what} has type {column.dtype} and was left out")


def columns_of(found: list[tuple[str, Array]]) -> dict[str, Array]:
    """Return columns, shape (rows, k), by name, as shape (rows,) where k is 1; a second ``fa`` becomes ``fa_2``."""
    flat = [values[:, 0] if values.shape[1] == 1 else values for _, values in found]
    return dict(zip(unique_names([name for name, _ in found]), flat, strict=True))
