"""Sensitivity of a measurement to absorption, voxel by voxel, from two forward runs.

One run has the light source, the other a source in the detector's place. In the adjoint (diffusion) approximation a
small change of mu_a in a voxel changes the detected intensity I by ::

    dI / I = J d(mu_a),    J(r) = - Phi_s(r) Phi_d(r) V / Phi_s(r_d)

with the fluence of the source Phi_s, that of the detector's run Phi_d per photon that entered, and the volume V of a
voxel (Arridge 1999, Inverse Problems 15:R41; Boas et al. 2002, Opt. Express 10:159). J is in mm, and -J is the mean
path length of the detected light in the voxel: its sum over a label is the label's mean partial path length, its sum
over everything the mean path.

The place r_d stands for the detector as a diffuse source. An isotropic source stands where it is. One that shines in a
direction is diffuse one transport mean free path 1 / (mu_a + mu_s') further along, counted from where it enters the
tissue; normalizing by the fluence of the surface voxel instead, which is lower, would make every path too long. The
detector should be small against its distance from the source.

The approximation takes the light as diffuse everywhere: within a few transport mean free paths of source and detector,
and in clear layers such as CSF, J is only indicative. Both runs must have the last time gate late enough.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import same_grid
from napari_gpubio.light.model import VOXEL_LIMITS, Domain
from napari_gpubio.light.profile import entry_point, sample_fluence
from napari_gpubio.light.result import Estimate, LightResult
from napari_gpubio.light.surface import ALL_ROUND

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Sensitivity:
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
        Fluence of the source at the detector, by which it is normalized, 1/mm^2 per launched photon.
    detector_mm
        Where that was taken, world.
    """

    domain: Domain
    jacobian_mm: npt.NDArray[np.float32]
    relative_error: npt.NDArray[np.float32]
    detected: Estimate
    detector_mm: npt.NDArray[np.float64]

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


def sensitivity(
    source_run: LightResult, detector_run: LightResult, *, detector_mm: npt.ArrayLike | None = None
) -> Sensitivity:
    """Sensitivity to absorption of the light that goes from a source to a detector; see the head of this file.

    Parameters
    ----------
    source_run
        Result of the light source.
    detector_run
        Result in the same tissue of a source where the detector is.
    detector_mm
        Where the source's fluence is taken for the normalization, world; by default where the source of
        ``detector_run`` is diffuse.

    Raises
    ------
    InvalidInput
        If the runs differ in grid, labels or optical properties, the detector meets no tissue or a tissue without
        scattering, or no light of the source reached it.
    """
    _check_same(source_run.domain, detector_run.domain)
    place = diffuse_position(detector_run) if detector_mm is None else np.asarray(detector_mm, np.float64)
    _, fluence, error = sample_fluence(source_run, place[None])
    if not fluence[0] > 0:
        where = ", ".join(f"{x:.4g}" for x in place)
        raise InvalidInput(
            f"no light of the source reached the detector at ({where}) mm; simulate more photons, or move it to tissue"
        )
    detected = Estimate(float(fluence[0]), float(error[0]))
    entered = detector_run.energy.entered
    if not entered > 0:
        raise InvalidInput("no light of the detector's run entered the tissue; point its source at the tissue")
    scale = np.float32(detector_run.domain.voxel_volume_mm3 / entered)
    # each factor is of the order of 1 before they meet, so that single precision does not underflow deep in the tissue
    jacobian = -(source_run.fluence / np.float32(detected.value)) * (detector_run.fluence * scale)
    return Sensitivity(
        domain=source_run.domain,
        jacobian_mm=jacobian.astype(np.float32),
        relative_error=np.hypot(
            np.hypot(source_run.relative_error, detector_run.relative_error),
            np.float32(detected.error / detected.value),
        ),
        detected=detected,
        detector_mm=place,
    )


def diffuse_position(result: LightResult) -> npt.NDArray[np.float64]:
    """Where the light of a run's source is diffuse, world mm: the point source that stands for it in diffusion theory.

    Raises
    ------
    InvalidInput
        If the source meets no tissue, or a tissue that does not scatter.
    """
    if result.source.kind in ALL_ROUND:
        return np.asarray(result.source.position_mm, np.float64)
    start, axis = entry_point(result), result.source.frame()[2]
    medium = result.domain.medium_at(start + 1e-6 * axis)
    if not medium.musp_per_mm > 0:
        raise InvalidInput(f"the detector is at label {medium.label}, which does not scatter; give detector_mm")
    return np.asarray(start + axis * (1.0 / (medium.mua_per_mm + medium.musp_per_mm)))


def _check_same(a: Domain, b: Domain) -> None:
    if not same_grid(a.shape, a.affine, b.shape, b.affine):
        raise InvalidInput(
            f"the runs of source and detector have grids of {a.shape} and {b.shape} voxels or lie elsewhere; simulate "
            "both in the same volume"
        )
    if not np.array_equal(a.labels, b.labels):
        raise InvalidInput("the runs of source and detector have different labels; simulate both in the same volume")
    same_volumes = all(_equal(getattr(a, name), getattr(b, name)) for name in VOXEL_LIMITS)
    if _optics(a) != _optics(b) or not (same_volumes and _equal(_cosines(a), _cosines(b))):
        raise InvalidInput(
            "the runs of source and detector have different optical properties; simulate one of them again"
        )


def _optics(domain: Domain) -> tuple[Any, ...]:
    """What makes the light of two domains differ, apart from labels, volumes of properties, and phase functions."""
    media = (domain.medium(label) for label in domain.labels_present)
    return domain.outside_n, *((m.label, m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in media)


def _cosines(domain: Domain) -> Array | None:
    return None if domain.phase_function is None else domain.phase_function.cosines


def _equal(a: Array | None, b: Array | None) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, np.asarray(b)))
