"""A fluorophore, and what a simulation of fluorescence makes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Source

Array = npt.NDArray[Any]
_RELATIVE_ROUNDING = 1e-5  # of coefficients in single precision


@dataclass(frozen=True, eq=False, kw_only=True)
class Fluorophore(ShortRepr):
    """What absorbs the excitation light and emits.

    Parameters
    ----------
    mua_per_mm
        Absorption of the fluorophore alone at the excitation wavelength, 1/mm, a part of the domain's: by label, where
        a label that is left out has none, or voxel by voxel, shape (X, Y, Z).
    quantum_yield
        Photons emitted for each that it absorbs.
    name
        For tables.

    Raises
    ------
    InvalidInput
        If an absorption is negative or not finite, or the yield not between 0 and 1.
    """

    mua_per_mm: Mapping[int, float] | Array
    quantum_yield: float = param(
        1.0, "Quantum yield", "Photons emitted for each that is absorbed.", above=0.0, maximum=1.0, step=0.05
    )
    name: str = ""

    def __post_init__(self) -> None:
        check_params(self)
        given = self.mua_per_mm
        values = np.array(list(given.values()) if isinstance(given, Mapping) else given, np.float64)
        if not np.isfinite(values).all() or (values < 0).any() or not (values > 0).any():
            raise InvalidInput("the fluorophore's absorption must be finite, nowhere negative and somewhere positive")

    def absorption(self, domain: Domain) -> npt.NDArray[np.float32]:
        """mu_a of the fluorophore in every voxel, 1/mm, shape (X, Y, Z).

        Raises
        ------
        InvalidInput
            If its shape or labels do not fit, or it is more than all absorption there.
        """
        if isinstance(self.mua_per_mm, Mapping):
            if unknown := sorted(set(self.mua_per_mm) - set(domain.labels_present)):
                raise InvalidInput(
                    f"the fluorophore is in label {unknown[0]}, which does not occur; there are "
                    f"{list(domain.labels_present)}"
                )
            table = np.zeros(65536, np.float32)
            for label, mua in self.mua_per_mm.items():
                table[label] = mua
            found = table[domain.labels]
        else:
            found = np.asarray(self.mua_per_mm, np.float32)
            if found.shape != domain.shape:
                raise InvalidInput(
                    f"the fluorophore's absorption has shape {found.shape} and the domain {domain.shape}"
                )
            found = np.where(domain.labels > 0, found, np.float32(0))
        whole = domain.absorption()
        if (excess := found > whole * (1 + _RELATIVE_ROUNDING)).any():
            place = tuple(np.argwhere(excess)[0])
            raise InvalidInput(
                f"the fluorophore absorbs {found[place]:g} /mm in a voxel of label {domain.labels[place]} where all "
                f"absorption is {whole[place]:g} /mm; the media of the excitation must contain the fluorophore's"
            )
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class FluorescenceResult(ShortRepr):
    """Excitation and emission, all per launched photon of the excitation, with standard errors of both runs together.

    Parameters
    ----------
    excitation_domain, emission_domain, source, fluorophore, settings, detectors
        What was simulated.
    groups
        Pairs of runs that are done. A standard error is that of their spread, so it is itself known to 1 / sqrt(2
        (groups - 1)); for an interval multiply it by `interval_factor`.
    launched
        Photons of the excitation, and as many of the emission.
    excitation_fluence, excitation_error
        Fluence of the excitation, 1/mm^2, shape (X, Y, Z).
    fluence, fluence_error
        Fluence of the emission, 1/mm^2, shape (X, Y, Z).
    absorbed_by_fluorophore, emitted
        Photons that the fluorophore absorbed, and emitted.
    excitation_energy, energy
        Where light of the excitation and of the emission went, by the names of `EnergyBalance`; those of the emission
        sum up to ``emitted``.
    absorbed
        Emission that each label absorbed.
    mean_fluence
        Mean fluence of the emission in each label, 1/mm^2.
    excitation_detected, detected
        Weight of excitation and of emission at each detector.
    complete
        False if the run was stopped before its end.
    parameters
        Device, seconds, software, seeds.
    """

    excitation_domain: Domain
    emission_domain: Domain
    source: Source
    fluorophore: Fluorophore
    settings: LightSettings
    detectors: tuple[Detector, ...]
    groups: int
    launched: int
    excitation_fluence: npt.NDArray[np.float32]
    excitation_error: npt.NDArray[np.float32]
    fluence: npt.NDArray[np.float32]
    fluence_error: npt.NDArray[np.float32]
    absorbed_by_fluorophore: Estimate
    emitted: Estimate
    excitation_energy: Mapping[str, Estimate]
    energy: Mapping[str, Estimate]
    absorbed: Mapping[int, Estimate]
    mean_fluence: Mapping[int, Estimate]
    excitation_detected: tuple[Estimate, ...]
    detected: tuple[Estimate, ...]
    complete: bool
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def emission_density(self) -> npt.NDArray[np.float32]:
        """Photons emitted per volume, 1/mm^3, shape (X, Y, Z)."""
        mua = self.fluorophore.absorption(self.excitation_domain)
        return np.asarray(self.excitation_fluence * mua * np.float32(self.fluorophore.quantum_yield))

    @cached_property
    def relative_error(self) -> npt.NDArray[np.float32]:
        """Standard error over fluence of the emission; infinite where no light came."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.fluence > 0, self.fluence_error / self.fluence, np.inf).astype(np.float32)

    def interval_factor(self, level: float = 0.95) -> float:
        """How many standard errors to each side make an interval: Student's t for so many groups."""
        from scipy.special import stdtrit

        return float(stdtrit(self.groups - 1, 0.5 + level / 2)) if self.groups > 1 else math.nan
