"""Results of a voxel simulation: fluence with its error, the energy balance, detected photons."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import AnyDetector, DetectedPhotons
from napari_gpubio.optics.estimates import Estimate, SimulationResult
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.sources import AnySource, Source, all_sources, single_source

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyBalance:
    """Where the energy of a launched photon went, as fractions; all of them together are 1.

    Parameters
    ----------
    specular
        Reflected where it met the tissue from outside.
    missed
        Never met the tissue.
    absorbed
        In the tissue, within the time gates and before the first one.
    escaped
        Left the tissue (diffuse reflectance and transmittance).
    truncated
        Still in the tissue at the end of the last time gate.
    roulette
        What Russian roulette took less what it gave; zero within its error.
    """

    specular: Estimate
    missed: Estimate
    absorbed: Estimate
    escaped: Estimate
    truncated: Estimate
    roulette: Estimate

    @property
    def total(self) -> float:
        """Sum of all parts, 1 but for rounding."""
        return sum(getattr(self, name).value for name in self.__dataclass_fields__)

    @property
    def entered(self) -> float:
        """Fraction that entered the tissue, by which MCX normalizes."""
        return 1.0 - self.specular.value - self.missed.value


@dataclass(frozen=True, eq=False, kw_only=True)
class LightResult(SimulationResult, GriddedArray, array="fluence"):
    """Result of a voxel simulation.

    Parameters
    ----------
    domain, source, settings, detectors
        What was simulated; ``source`` is a tuple where photons started at one of several.
    gates
        Fluence of each time gate per launched photon, 1/mm^2, shape (X, Y, Z, G).
    gates_error
        Its standard error, from the spread of the batches; NaN with fewer than two whole batches.
    fluence_error
        Standard error of the fluence of all gates together, shape (X, Y, Z).
    half_fluences
        Fluence of even and of odd photons, each per photon of its half, shape (2, X, Y, Z, G); None unless requested.
    escaped_weight
        Weight per launched photon that left the tissue from each voxel, shape (X, Y, Z); None unless requested.
    energy
        The energy balance.
    absorbed
        Absorbed fraction of a launched photon for each label, within the time gates.
    detected
        Detected photons.
    guide
        Fluence without noise as diffusion theory has it, of all gates together, per launched photon, 1/mm^2, shape
        (X, Y, Z); None unless `napari_gpubio.light.guide.with_guide` has added it.
    """

    domain: Domain
    source: AnySource
    settings: LightSettings
    detectors: tuple[AnyDetector, ...]
    gates: npt.NDArray[np.float32]
    gates_error: npt.NDArray[np.float32]
    fluence_error: npt.NDArray[np.float32]
    half_fluences: npt.NDArray[np.float32] | None
    escaped_weight: npt.NDArray[np.float32] | None
    energy: EnergyBalance
    absorbed: Mapping[int, Estimate]
    detected: DetectedPhotons
    guide: npt.NDArray[np.float32] | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The source, or all of them."""
        return all_sources(self.source)

    def single_source(self, what: str) -> Source:
        """The only source, for what needs a single one: a few words.

        Raises
        ------
        InvalidInput
            If there are several.
        """
        return single_source(self.source, what)

    @cached_property
    def fluence(self) -> npt.NDArray[np.float32]:
        """Fluence of all time gates together (continuous wave) per launched photon, 1/mm^2, shape (X, Y, Z)."""
        if self.gates.shape[3] == 1:
            return self.gates[..., 0]
        return np.asarray(self.gates.sum(axis=3, dtype=np.float64).astype(np.float32))

    @cached_property
    def fluence_rate(self) -> npt.NDArray[np.float32]:
        """Fluence rate in each time gate per launched photon, 1/(mm^2 s), shape (X, Y, Z, G)."""
        seconds = np.diff(self.settings.time_gates_ns) * 1e-9
        return (self.gates / seconds).astype(np.float32)

    @cached_property
    def relative_error(self) -> npt.NDArray[np.float32]:
        """Standard error over fluence; infinite where no light came."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.fluence > 0, self.fluence_error / self.fluence, np.inf).astype(np.float32)

    @cached_property
    def absorbed_density(self) -> npt.NDArray[np.float32]:
        """Absorbed energy per volume and launched photon, 1/mm^3: mu_a times fluence, shape (X, Y, Z)."""
        return np.asarray(self.fluence * self.domain.absorption())

    def diffuse_reflectance(self) -> npt.NDArray[np.float32]:
        """Escaped weight per launched photon and area of the voxel's faces to the outside, 1/mm^2, shape (X, Y, Z).

        Raises
        ------
        InvalidInput
            If the run did not keep the map of escaping light.
        """
        if self.escaped_weight is None:
            raise InvalidInput("the map of escaping light was not kept; run again with exit_map=True")
        area = exposed_area_mm2(self.domain)
        return np.divide(self.escaped_weight, area, out=np.zeros(area.shape, np.float32), where=area > 0)

    def irradiance_mw_per_mm2(self, power_mw: float) -> npt.NDArray[np.float32]:
        """Fluence rate of a continuous source of this power, mW/mm^2."""
        return self.fluence * np.float32(_positive("the source's power", power_mw, "mW"))

    def fluence_j_per_cm2(self, energy_j: float) -> npt.NDArray[np.float32]:
        """Fluence of a source that gave this energy (power times exposure), J/cm^2."""
        return self.fluence * np.float32(100.0 * _positive("the source's energy", energy_j, "J"))


def exposed_area_mm2(domain: Domain, outside: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.float32]:
    """Area of each tissue voxel's faces that meet the outside or the edge of the grid, mm^2, shape (X, Y, Z).

    With a mask ``outside``, shape (X, Y, Z): of its faces that meet that.
    """
    tissue = np.pad(domain.labels != OUTSIDE, 1) if outside is None else np.pad(~outside, 1, constant_values=True)
    sizes = domain.voxel_sizes_mm
    area = np.zeros(domain.shape, np.float32)
    for axis in range(3):
        face = float(np.prod(sizes) / sizes[axis])
        for shift in (1, -1):
            area += face * ~np.roll(tissue, shift, axis)[1:-1, 1:-1, 1:-1]
    return np.where(domain.labels != OUTSIDE, area, 0).astype(np.float32)


def _positive(what: str, value: float, unit: str) -> float:
    if not (np.isfinite(value) and value > 0):
        raise InvalidInput(f"{what} is {value} {unit}; it must be greater than 0")
    return float(value)
