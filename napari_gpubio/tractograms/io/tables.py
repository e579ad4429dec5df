"""Numbers of fibers as a table, one row for each, for a spreadsheet or a statistics package."""

import os

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.files import write_text
from napari_gpubio.core.text import delimited
from napari_gpubio.tractograms.model import StopReason, Tractogram

_REASONS = ("stop_reason", "stop_reason_back")


def fiber_table(fibers: Tractogram, which: npt.ArrayLike | None = None, *, separator: str = ",") -> str:
    """Return a table of the numbers of fibers.

    Parameters
    ----------
    fibers
        The fibers.
    which
        Which of them: a boolean for each, or indices; None takes all.
    separator
        Between the columns.

    Returns
    -------
    table
        A line of names, then a line for each fiber: its index in ``fibers``, number of points, length in mm, and all
        of its other numbers, with every digit; reasons to stop are words.

    Raises
    ------
    InvalidInput
        If ``which`` does not fit the fibers.
    """
    chosen = fibers if which is None else fibers.select(which)
    columns: dict[str, list[str]] = {
        "fiber": _texts(np.arange(len(fibers)) if which is None else np.arange(len(fibers))[np.asarray(which)]),
        "points": _texts(chosen.counts),
    }
    if "length_mm" not in chosen.per_fiber:
        columns["length_mm"] = _texts(chosen.lengths_mm().astype(np.float32))
    for name, values in chosen.per_fiber.items():
        if name in _REASONS:
            columns[name] = [_reason_text(int(code)) for code in values]
        elif np.ndim(values) == 1:
            columns[name] = _texts(values)
        else:
            parts = np.asarray(values).reshape(len(chosen), -1).T
            columns |= {f"{name}[{n}]": _texts(part) for n, part in enumerate(parts)}
    return delimited([columns.keys(), *zip(*columns.values(), strict=True)], separator)


def write_fiber_table(path: str | os.PathLike[str], fibers: Tractogram, which: npt.ArrayLike | None = None) -> None:
    """Write `fiber_table` as a CSV file; InvalidInput if it cannot be written."""
    text = fiber_table(fibers, which)
    write_text(path, text)


def _texts(values: npt.NDArray[np.generic]) -> list[str]:
    return [str(value) for value in values]  # as few digits as tell the value from its neighbors


def _reason_text(code: int) -> str:
    """The name of a reason to stop, or its number if it is another program's."""
    return StopReason(code).name.lower() if code in list(StopReason) else str(code)
