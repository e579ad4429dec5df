"""The streamlines layer: what it is to napari, how it is drawn, and its controls.

The numbers behind it are `napari_gpubio.gui.lines`, which can be used without napari.
"""

from napari_gpubio.gui.streamlines.layer import Streamlines
from napari_gpubio.gui.streamlines.registration import register_controls, register_visual

__all__ = ["Streamlines"]

register_visual()
register_controls()
