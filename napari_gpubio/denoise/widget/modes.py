"""The ways to denoise that the panel offers, in their order."""

from napari_gpubio.denoise.widget.anlm_mode import AnlmMode
from napari_gpubio.denoise.widget.fluence_mode import FluenceMode
from napari_gpubio.denoise.widget.mode import Mode

MODES: tuple[type[Mode], ...] = (AnlmMode, FluenceMode)
