"""Where live frames come from: a stack, a watched folder, a camera, a simulated camera."""

from napari_gpubio.speckle.live.sources.camera import CameraSource
from napari_gpubio.speckle.live.sources.folder import FolderSource
from napari_gpubio.speckle.live.sources.simulated import SimulatedCamera
from napari_gpubio.speckle.live.sources.source import Source, SourceFailed
from napari_gpubio.speckle.live.sources.stack import StackSource

__all__ = ["CameraSource", "FolderSource", "SimulatedCamera", "Source", "SourceFailed", "StackSource"]
