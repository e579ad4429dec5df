"""Fluorescence: excitation light that a fluorophore absorbs, and what it emits."""

from napari_gpubio.light.fluorescence.model import FluorescenceResult, Fluorophore
from napari_gpubio.light.fluorescence.run import fluorescence, fluorescence_steps

__all__ = ["FluorescenceResult", "Fluorophore", "fluorescence", "fluorescence_steps"]
