"""What the engine gives back: maps of contrast and of an index, and where they may be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle import validity
from napari_gpubio.speckle.settings import ContrastSettings

Float = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastMaps:
    """Maps of speckle contrast, all of the same shape: (Y, X) of a single frame, else (maps, Y, X).

    Parameters
    ----------
    contrast
        K, float32; NaN where there is none.
    index
        The index of the settings, float32, in `unit`; None if none was asked for.
    mask
        Bits of `napari_gpubio.speckle.validity`, uint8; None if none was asked for.
    settings
        How they were made.
    parameters
        The same and more, as JSON can hold it.
    notes
        What the user should know, in sentences.
    complete
        False if the run was stopped; maps that were not reached are NaN and marked as edges.
    """

    contrast: Float
    settings: ContrastSettings
    index: Float | None = None
    mask: npt.NDArray[np.uint8] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    @property
    def unit(self) -> str:
        """Unit of the index; an empty text for a pure number."""
        return self.settings.unit

    @property
    def squared(self) -> Float:
        """K²; where noise was subtracted and K² is the index, with its negative values."""
        if self.index is not None and self.settings.index == "squared":
            return self.index
        return np.square(self.contrast)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Where K is finite and no bit of the mask is set."""
        finite = np.isfinite(self.contrast)
        return finite if self.mask is None else finite & validity.is_valid(self.mask)

    def __len__(self) -> int:
        return 1 if self.contrast.ndim == 2 else len(self.contrast)

    def __getitem__(self, which: Any) -> "ContrastMaps":
        """Return some of the maps of a stack."""
        index, mask = (None if part is None else part[which] for part in (self.index, self.mask))
        return ContrastMaps(
            contrast=self.contrast[which],
            index=index,
            mask=mask,
            settings=self.settings,
            parameters=self.parameters,
            notes=self.notes,
            complete=self.complete,
        )
