"""Files of light in layers: results, and MCML's input and output."""

from napari_gpubio.layered.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.layered.io.mco import read_mco, write_mco
from napari_gpubio.layered.io.results import load_result, save_result

__all__ = [
    "MciRun",
    "load_result",
    "read_mci",
    "read_mco",
    "save_result",
    "write_mci",
    "write_mco",
]
