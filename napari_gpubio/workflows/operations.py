"""The verbs that join engines: the fluence of a run, cleaned."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import FluenceUnit
from napari_gpubio.workflows.fluence import CleanedVolume, clean_volume_steps


@dataclass(frozen=True, kw_only=True)
class CleanFluence(Operation, verb="clean-fluence", makes={"cleaned": Volume, "noise": Volume}):
    """Denoise the fluence of a run with all that the run knows: half buffers, labels, and optical properties."""

    examples = ("clean-fluence head.npz --out cleaned.nii.gz",)

    run: Ref[LightResult] = given("Run", "A simulation, best with half buffers (light --halves).")
    unit: str = param("1/mm²", "Unit", "Per launched photon, or of a source's power or energy.")
    factor: float = param(1.0, "Factor", "The unit's number for 1/mm² and photon.", above=0.0)
    settings: FluenceSettings = part("Filter", "Scales, and how they are chosen.", default=FluenceSettings())

    def check(self) -> None:
        """Raise InvalidInput if there is no such unit."""
        FluenceUnit(self.unit, self.factor)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, CleanedVolume]:
        """Denoise it."""
        return clean_volume_steps(data.run, self.settings, unit=FluenceUnit(self.unit, self.factor), **run)

    def summary(self, made: CleanedVolume) -> Summary:
        """The gain."""
        gain, times = made.result.snr_gain_db, made.result.photon_multiplier
        if not np.isfinite(gain):
            return Summary()
        line = f"gain of signal / noise: {gain:.1f} dB, as with {times:.2g} x the photons"
        return Summary((line,), {"snr_gain_db": gain, "photon_multiplier": times})
