"""Reference and speed cases of the denoise engine, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

from napari_gpubio.denoise.checks.cases import CHECKS
from napari_gpubio.denoise.checks.speeds import SPEEDS

__all__ = ["CHECKS", "SPEEDS"]
