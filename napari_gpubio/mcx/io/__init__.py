"""Files of MCX: inputs in and out, and its outputs."""

from napari_gpubio.mcx.io.cases import read_mcx, write_mcx

__all__ = [
    "read_mcx",
    "write_mcx",
]
