"""A structure as points that each stand for the same volume."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput


@dataclass(frozen=True, eq=False, kw_only=True)
class PointStructure:
    """Samples of a structure that somebody else has made.

    Parameters
    ----------
    name
        For curves and tables.
    points
        World (RAS) mm, shape (N, 3).
    volume_cc
        Of the structure: each point stands for its share.
    """

    name: str
    points: npt.NDArray[Any]
    volume_cc: float

    def __post_init__(self) -> None:
        points = np.asarray(self.points, np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InvalidInput(f"the points of {self.name!r} have shape {points.shape}; give (N, 3) in mm")
        if not np.isfinite(points).all():
            raise InvalidInput(f"{self.name!r} has points that are not finite; leave them out")
        if not (np.isfinite(self.volume_cc) and self.volume_cc > 0):
            raise InvalidInput(f"volume_cc of {self.name!r} is {self.volume_cc!r}; give a positive volume in cc")
        object.__setattr__(self, "points", points)

    @property
    def names(self) -> tuple[str, ...]:
        """The structure's name, as the other kinds of structures give theirs."""
        return (self.name,)
