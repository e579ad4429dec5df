"""Rows that are still to be measured; one that fails does not stop the others."""

import traceback
from collections.abc import Callable
from typing import NamedTuple

from common import Row, skipped


class Job(NamedTuple):
    """A row that is still to be measured; one that fails keeps its name.

    Parameters
    ----------
    name
        The row's name.
    measure
        Makes the row of that name.
    """

    name: str
    measure: Callable[[str], Row]


def measured(job: Job, *, time_is_up: bool) -> Row:
    """Measure a row, unless there is no time left; if it fails it says so."""
    if time_is_up:
        return skipped(job.name, "no time left")
    try:
        return job.measure(job.name)
    except Exception as error:  # noqa: BLE001 - a machine is lent for minutes, so the other rows go on
        traceback.print_exc()
        return skipped(job.name, f"failed: {type(error).__name__}: {error}")
