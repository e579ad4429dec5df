"""Files of fibers, their numbers as tables, and numbers along them."""

from napari_gpubio.tractograms.io.stateful import from_stateful, to_stateful
from napari_gpubio.tractograms.io.tables import fiber_table, write_fiber_table
from napari_gpubio.tractograms.io.tractograms import (
    TractogramWriter,
    read_track_scalars,
    read_tractogram,
    write_tractogram,
)

__all__ = [
    "TractogramWriter",
    "fiber_table",
    "from_stateful",
    "read_track_scalars",
    "read_tractogram",
    "to_stateful",
    "write_fiber_table",
    "write_tractogram",
]
