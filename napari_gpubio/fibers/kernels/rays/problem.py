"""A tracing problem made ready for a backend: geometry, limits and the volumes that a ray reads."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.tensors.adaptive import log_factor
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem
from napari_gpubio.fibers.metrics import Adaptive
from napari_gpubio.fibers.settings import INTEGRATORS, EuDX, Hamiltonian, TensorGeodesic, TensorMethod, VanAart2011

Array = npt.NDArray[Any]

# The kinds of system, the same numbers in cpu.py and geodesic.cuh.
CUBIC, LINEAR, VANAART, EUDX = 0, 1, 2, 3
MARGIN_VOXELS = 3  # how far tensors are continued beyond the mask: a cubic spline reads two voxels away
_FEWEST = 4  # voxels along an axis; thinner volumes get some more
_QUANTA = 2.0**40  # of the largest tensor component: sums of whole numbers do not depend on their order
_ADAPTIVE, _ADAPTIVE_INSIDE = 232, 869  # bytes of each voxel, and of those in the mask besides, measured


class RayGrid(NamedTuple):
    """The Euclidean metric (six components of A^T A, mm^2) and the number of voxels along each axis."""

    euclid: tuple[Any, ...]
    shape: tuple[int, ...]


class RayVolumes(NamedTuple):
    """What all rays read: the prepared field, the guide and the mask (bits `IN_MASK` and `IN_TARGET` of each voxel)."""

    field: Any
    guide: Any
    mask: Any
    grid: RayGrid


class RaySettings(NamedTuple):
    """How rays are traced and where they end: scalars, those of floating point in the type of the tracing."""

    kind: int
    stages: int
    measure: bool
    max_steps: int
    every: int
    step_mm: Any
    least_fa: Any
    max_bend: Any
    max_drift: Any
    least_cos: Any
    above_fa: Any
    least_weight: Any


@dataclass(frozen=True, eq=False)
class RayProblem(FiberProblem):
    """Geodesics, or streamlines, in a field of tensors.

    ``measure``: whether FA, alignment and drift are gathered along the rays (the paper's plain benchmark does not).
    """

    methods: ClassVar[type[TensorMethod]] = TensorMethod
    point_number: ClassVar[str] = "fa"
    reported: ClassVar[tuple[str, ...]] = (
        "riemannian_length_mm", "drift", "mean_fa", "alignment", "alignment_fa", "speed",
    )  # fmt: skip
    settings: TensorMethod
    measure: bool = True

    @cached_property
    def volume(self) -> TensorField:
        """The field that rays are traced in: the one that was given, or that with more voxels where it is thin."""
        if min(self.field.shape) >= _FEWEST:
            return self.field
        thick: TensorField = self.field.cache.get(("thick",), lambda: thickened(self.field))
        return thick

    def in_own_axes(self, directions: Array) -> Array:
        """Return directions (F, 3) along the voxel axes, in voxels per mm."""
        return np.asarray(directions @ self.to_voxel[:3, :3].T)

    @property
    def kind(self) -> int:
        """The kind of system that the rays follow."""
        if isinstance(self.settings, Hamiltonian):
            return LINEAR if self.settings.interpolation == "linear" else CUBIC
        return VANAART if isinstance(self.settings, VanAart2011) else EUDX

    @property
    def geodesic(self) -> TensorGeodesic:
        """The settings of geodesics, which they must be of."""
        assert isinstance(self.settings, TensorGeodesic), "streamlines have no metric"
        return self.settings

    @property
    def stages(self) -> int:
        """Stages of the Runge-Kutta method: 1, 2 or 4."""
        return INTEGRATORS[self.settings.integrator]

    @property
    def uses_texture(self) -> bool:
        """Whether the GPU's texture unit interpolates."""
        return isinstance(self.settings, VanAart2011) and self.settings.texture

    def memory(self, device: Device) -> Memory:
        """The field, guide and mask; on the CPU eigenvectors and scaled tensors, too; and all while it is made.

        While the field is made there are the tensors' eigenvalues and eigenvectors, the dual metric, itself, and of
        van Aart's method the metric with its differences.
        """
        shape, given, real = self.volume.shape, self.volume.tensors.itemsize, np.dtype(self.real).itemsize
        voxels = math.prod(shape)
        field = real * {VANAART: 24, EUDX: 0}.get(self.kind, 6) * voxels
        making = field and real * (21 + 24 * (self.kind == VANAART)) * voxels
        if self.kind == CUBIC:  # padded
            field = field // voxels * math.prod(n + 3 for n in shape)
        tensors = (6 * (real if device.is_gpu else given) * voxels) if field else 0
        kept = field + tensors + voxels * (17 + 12 * given * (not device.is_gpu))  # 16 bytes of it in the guide
        copies = (self.kind != LINEAR) + (self.kind != VANAART and not device.is_gpu)  # on the CPU with spare memory
        making += tensors + field * copies
        if self._is_adaptive and not device.is_gpu:  # its equations, before the field is made
            making = max(making, _ADAPTIVE * voxels + _ADAPTIVE_INSIDE * int(np.count_nonzero(self.volume.mask)))
        return Memory(inputs=kept, scratch=max(0, making - kept))

    @cached_property
    def euclid(self) -> npt.NDArray[np.float64]:
        """A^T A, six components: the Euclidean metric (mm^2) in voxel coordinates."""
        a = self.volume.affine[:3, :3]
        g = a.T @ a
        return np.array([g[0, 0], g[1, 1], g[2, 2], g[0, 1], g[0, 2], g[1, 2]])

    @cached_property
    def scalars(self) -> RaySettings:
        """How rays are traced and where they end."""
        s, real = self.settings, self.real
        angle, weight = (s.corner_angle_deg, s.corner_weight) if isinstance(s, EuDX) else (90.0, 0.0)
        counts_all = angle == 90.0 and weight == 0.0
        return RaySettings(
            kind=self.kind,
            stages=self.stages,
            measure=self.measure,
            max_steps=self.lengths.ray_steps,
            every=s.points_every,
            step_mm=real(s.step_mm),
            least_fa=real(s.fa_stop),
            max_bend=real(1.0 / s.min_radius_mm if s.min_radius_mm > 0 else 0.0),
            max_drift=real(s.max_drift if isinstance(s, TensorGeodesic) else 0.0),
            least_cos=real(0.0 if angle == 90.0 else math.cos(math.radians(angle))),
            above_fa=real(-1.0 if counts_all else s.fa_stop),
            least_weight=real(weight),
        )

    def tensors(self) -> Array:
        """Tensors in units of 1e-3 mm^2/s, world axes, continued a few voxels beyond the mask.

        Beyond the mask a voxel takes the tensor of the nearest masked one, or the mean of those that are as near, so
        that the field has no cliff where it is read from inside.
        """
        return self.prepared("tensors", lambda: continued(self.volume.tensors, self.volume.mask) * 1e3, metric=False)

    def prepared(self, what: str, make: Callable[[], Any], *, metric: bool = True) -> Any:
        """Keep something costly with the tensor field, so that the next click finds it ready.

        ``metric``: whether it depends on the metric, the method and the precision.
        """
        s = self.settings
        key: tuple[Any, ...] = (what,)
        if metric:
            key += (self.kind, s.precision)
        if metric and isinstance(s, TensorGeodesic):
            key += (s.metric, s.eigenvalue_floor_mm2_per_s, s.eigenvalue_ceiling_mm2_per_s)
        if metric and isinstance(s, Hamiltonian):
            key += (s.interpolation,)
        return self.volume.cache.get(key, make)

    @property
    def is_interpolating(self) -> bool:
        """Whether the spline passes through the samples."""
        return isinstance(self.settings, Hamiltonian) and self.settings.interpolation == "interpolating"

    @property
    def _is_adaptive(self) -> bool:
        return isinstance(self.settings, TensorGeodesic) and isinstance(self.settings.metric, Adaptive)

    def dual_eigenvalues(self, values: Any, xp: Any = np) -> Any:
        """Eigenvalues of the dual metric W from the tensors' (arrays of ``xp``, NumPy or CuPy), in 1e-3 mm^2/s."""
        s = self.geodesic
        dual = s.metric.dual(self._limited(values))
        if not self._is_adaptive:
            return dual
        floor, ceiling = s.eigenvalue_floor_mm2_per_s, s.eigenvalue_ceiling_mm2_per_s
        factor = self.volume.cache.get(("adaptive", floor, ceiling), self._make_adaptive_factor)
        return dual * xp.asarray(factor, dtype=values.dtype)

    def _limited(self, values: Any) -> Any:
        """Eigenvalues (1e-3 mm^2/s) between floor and ceiling."""
        s = self.geodesic
        return values.clip(s.eigenvalue_floor_mm2_per_s * 1e3, s.eigenvalue_ceiling_mm2_per_s * 1e3)

    def _make_adaptive_factor(self) -> Array:
        """``exp(-alpha)`` of the adaptive metric, shape (X, Y, Z, 1), continued as the tensors are."""
        volume = self.volume
        values = self._limited(volume.eigen.values * 1e3)
        alpha = log_factor(values, volume.eigen.vectors, volume.mask, volume.affine)
        return np.exp(-continued(alpha[..., np.newaxis], volume.mask))

    @property
    def guide(self) -> npt.NDArray[np.float32]:
        """Principal direction (voxels per mm) and FA of every voxel, shape (X, Y, Z, 4), zero outside the mask."""
        return np.asarray(self.prepared("guide", self._make_guide, metric=False))

    def _make_guide(self) -> npt.NDArray[np.float32]:
        eigen, guide = self.volume.eigen, np.zeros((*self.volume.shape, 4), np.float32)
        for plane, values, vectors in zip(guide, eigen.values, eigen.vectors, strict=True):  # one by one saves memory
            plane[..., :3] = vectors[..., 0, :] @ self.to_voxel[:3, :3].T
            plane[..., 3] = fractional_anisotropy(values)
        np.copyto(guide, 0, where=~self.volume.mask[..., np.newaxis])
        return guide

    def values_at(self, voxels: Array) -> Array:
        """FA at voxel positions (count, 3), trilinear, shape (count,)."""
        from scipy import ndimage

        fa = ndimage.map_coordinates(self.guide[..., 3], voxels.T.astype(np.float64), order=1, mode="nearest")
        return np.asarray(fa, self.real)


def check_tensors(field: TensorField) -> None:
    """Raise InvalidInput if these are no tensors, or one in the mask is not finite (checked once for each field)."""
    if not isinstance(field, TensorField):
        raise InvalidInput(
            f"geodesics of tensors take a TensorField, and a {type(field).__name__} was given; fit tensors to the scan "
            "(diffusion.fit_tensors), or track fibers in FODs and fixels (fibers.track) or find routes along them "
            "(fibers.flow.routes)"
        )
    if not field.cache.get("finite", lambda: bool(np.isfinite(field.tensors[field.mask]).all())):
        raise InvalidInput("some tensors are not finite; fit them again, or leave those voxels out of the mask")


def thickened(field: TensorField) -> TensorField:
    """A field with two voxels more, outside of the mask, at either end of every axis that is short."""
    ends = [(2, 2) if n < _FEWEST else (0, 0) for n in field.shape]
    shift = np.eye(4)
    shift[:3, 3] = [-before for before, _ in ends]
    return dataclasses.replace(
        field,
        tensors=np.pad(field.tensors, [*ends, (0, 0)]),
        mask=np.pad(field.mask, ends),
        affine=field.affine @ shift,
        cache=type(field.cache)(),
    )


def continued(tensors: Array, mask: npt.NDArray[np.bool_]) -> Array:
    """Copy tensors, shape (X, Y, Z, C), to the voxels up to three beyond the mask, each the mean of the nearest there.

    Of several that are as near no one is taken by its place in the array, and they are added as whole numbers, so the
    result does not depend on how the volume is stored.
    """
    from scipy import ndimage

    if not mask.any():
        raise InvalidInput("the tensor mask is empty; there is nothing to track in")
    if mask.all():
        return tensors
    near = ndimage.binary_dilation(mask, np.ones((3, 3, 3)), iterations=MARGIN_VOXELS) & ~mask
    box = tuple(slice(a.min(), a.max() + 1) for a in np.nonzero(near | mask))
    distances = ndimage.distance_transform_edt(~mask[box])[near[box]]
    filled = tensors.copy()
    filled[box][near[box]] = _means_at(tensors[box], mask[box], np.argwhere(near[box]), distances)
    return filled


def _means_at(tensors: Array, mask: npt.NDArray[np.bool_], voxels: Array, distances: Array) -> Array:
    """Mean values of the masked voxels at a distance (in voxels) from each of some voxels, shape (N, C)."""
    known, reach = tensors[mask], int(distances.max())
    quantum = np.abs(known).max() / _QUANTA or 1.0
    numbers = np.rint(known / quantum).astype(np.int64)
    row: Array = np.full(mask.shape, -1, np.int32)  # of each masked voxel
    row[mask] = np.arange(len(known))
    row = np.pad(row, reach, constant_values=-1)
    steps = np.array([row.shape[1] * row.shape[2], row.shape[2], 1])
    offsets, places, row = np.argwhere(np.ones((2 * reach + 1,) * 3)) - reach, (voxels + reach) @ steps, row.ravel()
    square_of_offset, squares = np.square(offsets).sum(axis=1), np.rint(np.square(distances)).astype(int)
    sums, counts = np.zeros((len(voxels), known.shape[1]), np.int64), np.zeros(len(voxels), np.int64)
    for square in np.unique(squares):
        which = np.flatnonzero(squares == square)
        for offset in offsets[square_of_offset == square]:
            rows = row[places[which] + offset @ steps]
            there = rows >= 0
            counts[which[there]] += 1
            sums[which[there]] += numbers[rows[there]]
    return sums / counts[:, np.newaxis] * quantum


def spline_coefficients(field: Array, *, interpolating: bool) -> Array:
    """Coefficients of a cubic B-spline over a field (X, Y, Z, C), padded by one voxel before and two behind.

    Smoothing: the samples themselves are the coefficients; all weights are positive, so tensors stay positive
    definite. Interpolating: coefficients for which the spline passes through the samples.
    """
    from scipy import ndimage

    if interpolating:
        field = np.stack([ndimage.spline_filter(field[..., c], 3, mode="mirror") for c in range(field.shape[3])], -1)
    return np.pad(field, ((1, 2), (1, 2), (1, 2), (0, 0)), mode="reflect")
