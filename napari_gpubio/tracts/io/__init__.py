"""Files of the tracts engine: tractograms, diffusion scans, tensor images."""

from napari_gpubio.tracts.io.tractograms import (
    SUFFIXES,
    TractogramWriter,
    read_tractogram,
    tractogram_suffix,
    write_tractogram,
)

__all__ = ["SUFFIXES", "TractogramWriter", "read_tractogram", "tractogram_suffix", "write_tractogram"]
