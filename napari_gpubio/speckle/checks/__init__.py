"""Reference and speed cases of the speckle engine, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

from napari_gpubio.core.device import Device
from napari_gpubio.speckle.checks import cases as checks
from napari_gpubio.speckle.checks.speeds import SPEEDS
from napari_gpubio.speckle.live.checks import SHAPE, live_checks
from napari_gpubio.speckle.settings import ContrastSettings
from napari_gpubio.speckle.stream import ContrastStream


def _live(device: Device) -> ContrastStream:
    return ContrastStream(ContrastSettings(mask=False), SHAPE, "uint16", device=device)


CHECKS = [*checks.CHECKS, *live_checks(_live)]

__all__ = ["CHECKS", "SPEEDS"]
