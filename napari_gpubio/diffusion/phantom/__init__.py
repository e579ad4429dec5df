"""Samples with known truth: a brain-like diffusion scan, tensor fields with closed-form geodesics, crossing bundles."""

from napari_gpubio.diffusion.phantom.analytic import AnalyticField, Launch
from napari_gpubio.diffusion.phantom.atlas import load_brain_atlas
from napari_gpubio.diffusion.phantom.closed_forms import analytic_fields, ring_field
from napari_gpubio.diffusion.phantom.crossings import Crossing, Ring, crossing, ring_bundle
from napari_gpubio.diffusion.phantom.files import write_brain_phantom
from napari_gpubio.diffusion.phantom.sample import BrainPhantom, CenterLine, brain_phantom, load_brain_phantom

__all__ = [
    "AnalyticField",
    "BrainPhantom",
    "CenterLine",
    "Crossing",
    "Launch",
    "Ring",
    "analytic_fields",
    "brain_phantom",
    "crossing",
    "load_brain_atlas",
    "load_brain_phantom",
    "ring_bundle",
    "ring_field",
    "write_brain_phantom",
]
