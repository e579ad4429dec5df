"""What napari-gpubio writes into a header about how fibers were made, as one line of JSON.

JSON's ``:`` and ``#`` are protected as in a URL: MRtrix ends a header line at ``#``, and nibabel refuses to write a
header whose values hold ``:``, so a file of ours could be read but not saved again.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.io.validation import UNREADABLE, Grid, reference_grid

logger = logging.getLogger(__name__)
KEY = "napari_gpubio"
_PROTECTED = str.maketrans({"%": "%25", ":": "%3A", "#": "%23"})


@dataclass(frozen=True, eq=False)
class Provenance:
    """What a header line tells.

    Parameters
    ----------
    parameters
        How the fibers were made.
    complete
        False if the run was stopped before its end.
    grid
        The volume they belong to, or None.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    grid: Grid | None = None

    def encode(self) -> str:
        """Give the line; its length does not depend on ``complete``.

        Raises
        ------
        InvalidInput
            If the parameters hold what JSON cannot.
        """
        told: dict[str, Any] = {"complete": int(self.complete), "parameters": dict(self.parameters)}
        if self.grid is not None:
            told |= {"affine": self.grid.affine.tolist(), "shape": list(self.grid.shape)}
        try:
            return json.dumps(told, default=_plain).translate(_PROTECTED)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"the parameters cannot be written as JSON ({error}); give only plain values") from error


def decode(text: Any) -> Provenance:
    """Read what `Provenance.encode` wrote; a line that cannot be read counts as absent."""
    try:
        told = json.loads(unquote(text))
        grid = reference_grid((told["affine"], told["shape"])) if "affine" in told else None
        return Provenance(dict(told["parameters"]), bool(told["complete"]), grid)
    except UNREADABLE as error:
        logger.warning("the header line %r is damaged and was left out: %s", KEY, error)
        return Provenance()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} {value!r} is not plain")
