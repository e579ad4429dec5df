"""Files of the light engine: labels, tables of optical properties, results."""

from napari_gpubio.light.io.results import load_layered_result, load_result, save_layered_result, save_result
from napari_gpubio.light.io.table import read_table, write_table
from napari_gpubio.light.io.volumes import read_domain, write_fluence

__all__ = [
    "load_layered_result",
    "load_result",
    "read_domain",
    "read_table",
    "save_layered_result",
    "save_result",
    "write_fluence",
    "write_table",
]
