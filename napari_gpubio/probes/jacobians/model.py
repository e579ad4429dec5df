"""Jacobians: how what a detector measures changes with the optical properties of each voxel.

One number of a Jacobian is the derivative of a measurement (the logarithm of the detected intensity, the mean time of
flight, ...) by a coefficient (mu_a, mu_s or mu_s') of one voxel. A change of a region's coefficient by the same amount
everywhere changes the measurement by the sum over the region's voxels times that amount, to first order.

They are made by `napari_gpubio.probes.jacobians.replay`, exactly, or from fluence of sources and detectors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded, Tabular
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Vector

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class Measure(NamedTuple):
    """Something that is measured: what it is in words, its unit, and that of its derivative by a coefficient (1/mm)."""

    words: str
    unit: str
    derivative_unit: str


MEASURES = {
    "ln_intensity": Measure("logarithm of the detected intensity", "", "mm"),
    "mean_time": Measure("mean time of flight", "ns", "ns mm"),
    "ln_amplitude": Measure("logarithm of the amplitude of modulated light", "", "mm"),
    "phase": Measure("phase of modulated light", "rad", "rad mm"),
}
COEFFICIENTS = {
    "mua": "absorption coefficient",
    "mus": "scattering coefficient",
    "musp": "reduced scattering coefficient",
}


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A source (NaN is the place of several that emit together) and a detector: their names and places, world mm."""

    source: str
    detector: str
    source_mm: Vector
    detector_mm: Vector

    @property
    def name(self) -> str:
        """Both names, for tables and layers."""
        return f"{self.source}-{self.detector}"

    @property
    def separation_mm(self) -> float:
        """Distance between source and detector."""
        return float(np.linalg.norm(np.subtract(self.source_mm, self.detector_mm)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Jacobian(ShortRepr):
    """Derivative of one kind of measurement by one coefficient of each voxel, for every channel.

    Parameters
    ----------
    measure
        What is measured: one of `MEASURES`.
    coefficient
        By what it is derived: one of `COEFFICIENTS`.
    values, errors
        Derivative and its standard error, shape (C, X, Y, Z), in ``unit``; 0 where no detected light came, NaN where it
        is not known.
    measured, measured_error
        The measurement itself for each channel (of ``ln_intensity``: the intensity, weight per launched photon, or in
        the unit that the method states; of ``ln_amplitude``: the amplitude, likewise), shape (C,).
    label_sums, label_errors
        Sum of the derivatives over the voxels of each label and its standard error, shape (C, labels), in the order of
        `Jacobians.labels`. Voxels share photons: the errors of voxels must not be added up as independent ones.
    label_deviations
        How far each independent group of photons has moved each of these sums, shape (C, groups, labels), for errors of
        several labels together; None where there are no groups.
    gate_ns
        Start and end of the time gate that photons arrive in; None: photons of all times.
    frequency_mhz
        Modulation frequency of amplitude and phase.
    """

    measure: str
    coefficient: str
    values: Floats
    errors: Floats
    measured: Doubles
    measured_error: Doubles
    label_sums: Doubles
    label_errors: Doubles
    label_deviations: Doubles | None = None
    gate_ns: tuple[float, float] | None = None
    frequency_mhz: float | None = None

    def __post_init__(self) -> None:
        for name, known in (("measure", MEASURES), ("coefficient", COEFFICIENTS)):
            if getattr(self, name) not in known:
                raise InvalidInput(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(known)}")

    @property
    def unit(self) -> str:
        """Unit of the derivative."""
        return MEASURES[self.measure].derivative_unit

    @property
    def name(self) -> str:
        """A short name, for layers and files: ``d ln intensity / d mua``, with the gate or the frequency."""
        text = f"d {self.measure.replace('_', ' ')} / d {self.coefficient}"
        if self.gate_ns is not None:
            text += f", {self.gate_ns[0]:g} to {self.gate_ns[1]:g} ns"
        return text if self.frequency_mhz is None else f"{text}, {self.frequency_mhz:g} MHz"


@dataclass(frozen=True, eq=False, kw_only=True)
class Jacobians(Tabular, Gridded):
    """Jacobians of some channels in one tissue.

    Parameters
    ----------
    domain
        The tissue.
    channels
        Sources and detectors, C of them.
    parts
        One for each measure, coefficient and gate.
    method
        How they were made: ``"replay"`` or ``"adjoint"``.
    complete
        False if the work was stopped before its end; ``channels`` are those that were done.
    parameters
        Everything needed to do it again: device, software, settings, seconds, as JSON can hold them.
    notes
        What to know about the numbers, for the user.
    """

    domain: Domain
    channels: tuple[Channel, ...]
    parts: tuple[Jacobian, ...]
    method: str
    complete: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[int, ...]:
        """Labels in the order of the sums."""
        return self.domain.labels_present

    def of(self, coefficient: str = "mua", measure: str = "ln_intensity", *, gate: int | None = None) -> Jacobian:
        """Return one of the parts.

        Parameters
        ----------
        coefficient, measure
            See `COEFFICIENTS` and `MEASURES`.
        gate
            Number of the time gate, from 0; None: photons of all times.

        Raises
        ------
        InvalidInput
            If there is no such part.
        """
        alike = [part for part in self.parts if (part.coefficient, part.measure) == (coefficient, measure)]
        found = [part for part in alike if (part.gate_ns is None) == (gate is None)]
        index = 0 if gate is None else gate
        if not 0 <= index < len(found):
            asked = f"d {measure} / d {coefficient}" + ("" if gate is None else f" of gate {gate}")
            raise InvalidInput(f"there is no {asked}; there are: {'; '.join(part.name for part in self.parts)}")
        return found[index]

    def channel(self, wanted: int | str) -> int:
        """Return the index of a channel, given that or its name, or the name of its detector.

        Raises
        ------
        InvalidInput
            If there is none, or there are several with this detector.
        """
        if isinstance(wanted, str):
            found = [i for i, one in enumerate(self.channels) if wanted in (one.name, one.detector)]
            if len(found) == 1:
                return found[0]
        elif 0 <= wanted < len(self.channels):
            return int(wanted)
        names = ", ".join(channel.name for channel in self.channels)
        raise InvalidInput(f"there is no single channel {wanted!r}; there are {names}")

    def region(self, part: Jacobian, labels: Sequence[int]) -> tuple[Estimate, ...]:
        """Sum of a part over the voxels of some labels together, for each channel.

        Its error is NaN where the groups of photons are not known.

        Raises
        ------
        InvalidInput
            If a label does not occur.
        """
        columns = columns_of(labels, self.labels)
        values = part.label_sums[:, columns].sum(axis=1)
        errors = np.full(len(values), np.nan)
        if part.label_deviations is not None:
            errors = error_of_groups(part.label_deviations[:, :, columns].sum(axis=2))
        return tuple(Estimate(float(value), float(error)) for value, error in zip(values, errors, strict=True))


def columns_of(labels: Sequence[int], present: Sequence[int]) -> list[int]:
    """Places of some labels among those that are present.

    Raises
    ------
    InvalidInput
        If one does not occur.
    """
    if missing := [label for label in labels if label not in present]:
        raise InvalidInput(f"label {missing[0]} does not occur; there are {', '.join(map(str, present))}")
    return [present.index(label) for label in labels]


def error_of_groups(deviations: Doubles) -> Doubles:
    """Standard error of an estimate, from how far each group of photons has moved it, shape (C, groups, ...).

    The deviations of all groups add up to zero. NaN of fewer than two groups.
    """
    groups = deviations.shape[1]
    if groups < 2:
        return np.full(deviations.shape[:1] + deviations.shape[2:], np.nan)
    return np.asarray(np.sqrt(np.square(deviations).sum(axis=1) * (groups / (groups - 1.0))))
