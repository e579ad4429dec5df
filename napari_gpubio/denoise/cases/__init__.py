"""Reference and speed cases of the denoise engine, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

from napari_gpubio.denoise.cases.checks import CHECKS
from napari_gpubio.denoise.cases.speeds import SPEEDS

__all__ = ["CHECKS", "SPEEDS"]
