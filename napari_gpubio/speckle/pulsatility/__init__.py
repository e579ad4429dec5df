"""Pulsatility of flow in regions: rate of the heart, beat-averaged course, pulsatility index.

curves = speckle.region_curves(maps, regions)
pulse = speckle.pulsatility.region_pulsatility(curves[0], rate_hz=120.0)
pulse.rate_bpm, pulse.index, pulse.index_error, pulse.notes
"""

from napari_gpubio.speckle.pulsatility.model import FLOWS, PulsatilitySettings, RegionPulsatility, with_error
from napari_gpubio.speckle.pulsatility.run import flow_pulsatility, region_pulsatility

__all__ = ["FLOWS", "PulsatilitySettings", "RegionPulsatility", "flow_pulsatility", "region_pulsatility", "with_error"]
