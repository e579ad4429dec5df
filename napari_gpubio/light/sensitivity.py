"""Sensitivity of a measurement to absorption, voxel by voxel, from two forward runs.

One run has the light source, the other a source in the detector's place. In the adjoint (diffusion) approximation a
small change of mu_a in a voxel changes the detected intensity I by ::

    dI / I = J d(mu_a),    J(r) = - Phi_s(r) Phi_d(r) V / (n^2 N)

with the fluence of the source Phi_s, that of the detector's run Phi_d, the volume V of a voxel, its refractive index n,
and N, what the detector detects of the source's light; `napari_gpubio.light.reciprocity` finds it from the
same two fluences, in a shell around each of both optodes. J is in mm, and -J is the mean path length of the detected
light in the voxel: its sum over a label is the label's mean partial path length, its sum over everything the mean path.

A run of the kind ``lambertian`` stands for a detector that takes light from all directions, ``fiber`` for one with a
numerical aperture, ``pencil`` for one that takes light along its axis only. The detector should be small against its
distance from the source.

The approximation takes the light as diffuse everywhere: within a few transport mean free paths of source and detector,
and in clear layers such as CSF, J is only indicative. Both runs must have the last time gate late enough. More kinds of
measurements, and errors of sums over labels, are in `napari_gpubio.probes.jacobians.adjoint`; probes of many optodes in
`napari_gpubio.probes.forward`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import position_text
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.light.reciprocity import check_same, detected, optode_place, shell_error, shells_between
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Sensitivity(ShortRepr):
    """Sensitivity of one source and detector to absorption.

    Parameters
    ----------
    domain
        What was simulated.
    jacobian_mm
        Relative change of the detected intensity per change of mu_a in a voxel, mm, shape (X, Y, Z); never positive.
    relative_error
        Standard error of that over its value, shape (X, Y, Z), from the errors of both fluences and of the normalizing
        one, taken as independent; infinite where no light came, NaN where a run has no error.
    detected
        Fluence of the source at the detector over n^2, by which it is normalized, 1/mm^2 per launched photon. Its error
        is an upper bound, since voxels of a shell are taken to vary together.
    """

    domain: Domain
    jacobian_mm: npt.NDArray[np.float32]
    relative_error: npt.NDArray[np.float32]
    detected: Estimate

    @property
    def error_mm(self) -> npt.NDArray[np.float32]:
        """Standard error of the sensitivity, mm, shape (X, Y, Z); NaN where no light came."""
        with np.errstate(invalid="ignore"):
            return np.abs(self.jacobian_mm) * self.relative_error

    def masked_mm(self, largest_error: float = 0.2) -> npt.NDArray[np.float32]:
        """Sensitivity where its relative error is at most this, NaN elsewhere, mm, shape (X, Y, Z).

        Raises
        ------
        InvalidInput
            If the limit is not greater than 0.
        """
        if not largest_error > 0:
            raise InvalidInput(f"the largest relative error is {largest_error}; it must be greater than 0")
        return np.where(self.relative_error <= largest_error, self.jacobian_mm, np.float32(np.nan))

    @cached_property
    def path_by_label_mm(self) -> dict[int, float]:
        """Mean partial path length of the detected light in each label, mm.

        No error goes with it: neighboring voxels share photons, so their errors do not add up as independent ones.
        `napari_gpubio.probes.jacobians.adjoint.adjoint_jacobians` finds it from several runs.
        """
        sums = np.bincount(self.domain.labels.ravel(), -self.jacobian_mm.ravel(), minlength=65536)
        return {label: float(sums[label]) for label in self.domain.labels_present}

    @property
    def mean_path_mm(self) -> float:
        """Mean path of the detected light in the tissue, mm."""
        return sum(self.path_by_label_mm.values())

    def share_by_label(self) -> dict[int, float]:
        """Part of the whole sensitivity that each label has; together they are 1."""
        whole = self.mean_path_mm
        return {label: path / whole for label, path in self.path_by_label_mm.items()}


def sensitivity(source_run: LightResult, detector_run: LightResult) -> Sensitivity:
    """Sensitivity to absorption of the light that goes from a source to a detector; see the head of this file.

    Parameters
    ----------
    source_run
        Result of the light source.
    detector_run
        Result in the same tissue of a source where the detector is.

    Raises
    ------
    InvalidInput
        If the runs differ in grid, labels or optical properties, an optode meets no tissue or a tissue that hardly
        scatters, or no light of the source reached the detector.
    """
    check_same(source_run.domain, detector_run.domain)
    domain, shells = source_run.domain, shells_between(source_run, detector_run)
    source, detector = source_run.fluence, detector_run.fluence
    common = float(detected(source.astype(np.float64), detector.astype(np.float64), shells, np.multiply))
    if not common > 0:
        where = position_text(optode_place(detector_run))
        raise InvalidInput(
            f"no light of the source reached the detector at {where}; simulate more photons, or move it to tissue"
        )
    entered = detector_run.energy.entered
    if not entered > 0:
        raise InvalidInput("no light of the detector's run entered the tissue; point its source at the tissue")
    relative = shell_error(source_run, detector_run, shells)
    # each factor is of the order of 1 before they meet, so that single precision does not underflow deep in the tissue
    scale = np.float32(domain.voxel_volume_mm3 / entered)
    jacobian = -(source / np.float32(common / entered)) * (detector * scale) / np.square(index_by_voxel(source_run))
    return Sensitivity(
        domain=domain,
        jacobian_mm=jacobian.astype(np.float32),
        relative_error=np.hypot(np.hypot(source_run.relative_error, detector_run.relative_error), np.float32(relative)),
        detected=Estimate(common / entered, relative * common / entered),
    )


def index_by_voxel(run: LightResult) -> npt.NDArray[np.float32]:
    """Refractive index of each voxel that light is refracted by, shape (X, Y, Z); 1 without refraction and outside."""
    one = np.float32(1.0)
    if not run.settings.refraction:
        return np.full(run.domain.shape, one)
    return np.where(run.domain.labels > 0, run.domain.property_volume("n"), one)
