"""Compiled parts of the dose engine."""

from typing import Any

import numpy.typing as npt


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written to: one type for compiled functions, whatever array a user gave."""
    view = array.view()
    view.flags.writeable = False
    return view
