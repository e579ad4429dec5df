"""The dock widgets of diffusion MRI."""

from napari_gpubio.diffusion.gui.fods.panel import FodPanel
from napari_gpubio.diffusion.gui.tensor_panel import TensorPanel

__all__ = [
    "FodPanel",
    "TensorPanel",
]
