"""The ways to denoise that the panel offers, in their order."""

from napari_gpubio.denoise.gui.anlm_mode import AnlmMode
from napari_gpubio.denoise.gui.fluence_mode import FluenceMode
from napari_gpubio.denoise.gui.mode import Mode

MODES: tuple[type[Mode], ...] = (AnlmMode, FluenceMode)
