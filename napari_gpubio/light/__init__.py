"""Monte Carlo light transport in label volumes and in layers, with errors, on the CPU or the GPU.

From a segmented head to its fluence in three calls::

    head = load_head_phantom()
    result = simulate(head, default_source(head), Settings(photons=1_000_000))
    result.fluence  # 1/mm^2 per launched photon
"""

from napari_gpubio.light.detectors import DetectedPhotons, Detector
from napari_gpubio.light.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.light.io.mco import read_mco, write_mco
from napari_gpubio.light.io.mcx.cases import McxCase, read_mcx, write_mcx
from napari_gpubio.light.io.results import load_layered_result, load_result, save_layered_result, save_result
from napari_gpubio.light.io.snirf import Optodes, read_snirf
from napari_gpubio.light.io.table import read_table, write_table
from napari_gpubio.light.io.volumes import read_domain, write_fluence
from napari_gpubio.light.layers.beams import Beam, convolved
from napari_gpubio.light.layers.model import Layer, LayeredMedium
from napari_gpubio.light.layers.phantom import voxel_phantom
from napari_gpubio.light.layers.presets import layered_preset, layered_preset_names
from napari_gpubio.light.layers.result import Estimates, LayeredResult
from napari_gpubio.light.layers.run import layer_steps, simulate_layers
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.phantom import default_detectors, default_source, head_phantom, load_head_phantom
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.run import needed_memory_mb, simulate, simulate_steps
from napari_gpubio.light.sensitivity import Sensitivity, sensitivity
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source
from napari_gpubio.light.statistics import fluence_units
from napari_gpubio.light.tissue import Chromophores, head_media, power_law, preset, preset_names

__all__ = [
    "Beam",
    "Chromophores",
    "DetectedPhotons",
    "Detector",
    "Domain",
    "EnergyBalance",
    "Estimate",
    "Estimates",
    "Layer",
    "LayeredMedium",
    "LayeredResult",
    "LayeredSettings",
    "LightResult",
    "MciRun",
    "McxCase",
    "Medium",
    "Optodes",
    "Sensitivity",
    "Settings",
    "Source",
    "convolved",
    "default_detectors",
    "default_source",
    "fluence_units",
    "head_media",
    "head_phantom",
    "layer_steps",
    "layered_preset",
    "layered_preset_names",
    "load_head_phantom",
    "load_layered_result",
    "load_result",
    "needed_memory_mb",
    "power_law",
    "preset",
    "preset_names",
    "read_domain",
    "read_mci",
    "read_mco",
    "read_mcx",
    "read_snirf",
    "read_table",
    "save_layered_result",
    "save_result",
    "sensitivity",
    "simulate",
    "simulate_layers",
    "simulate_steps",
    "voxel_phantom",
    "write_fluence",
    "write_mci",
    "write_mco",
    "write_mcx",
    "write_table",
]
