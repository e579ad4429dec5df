"""Files of optical properties, and positions of optodes."""

from napari_gpubio.optics.io.nirs import read_nirs
from napari_gpubio.optics.io.snirf import Optodes, read_snirf
from napari_gpubio.optics.io.table import read_table, write_table

__all__ = [
    "Optodes",
    "read_nirs",
    "read_snirf",
    "read_table",
    "write_table",
]
