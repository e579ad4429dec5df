"""Registration of an image to another one: mutual information, from coarse to fine, by SimpleITK."""

import dataclasses
import threading
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import looks_like_labels
from napari_gpubio.core.space import apply_affine, rotation_of, voxel_sizes_mm
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.registration.library import sitk
from napari_gpubio.registration.model import Transform
from napari_gpubio.registration.quality import doubts, foreground, mutual_information, overlap, shape_of
from napari_gpubio.registration.resample import resampled
from napari_gpubio.registration.settings import RegistrationSettings

Array = npt.NDArray[Any]
_LEVELS = (4.0, 2.0, 1.0)  # voxels of each, in those of the last
_MOST_VOXELS = 160  # along the longest edge of the last level
_DRAWN = 40_000  # voxels that count in each
_FIRST_STEPS = (4.0, 2.0, 1.0)  # of the optimizer; an affine transform goes astray with such long ones
_OF_AFFINE = 0.2
_TRIED, _GO_ON = 8, 3  # iterations of each start, and how many of them go on
_SHEARED = 1e-3  # edges of a voxel
_TURNS_DEGREES = ((0, 0, 0), (25, 0, 0), (-25, 0, 0), (0, 25, 0), (0, -25, 0), (0, 0, 25), (0, 0, -25))


def checked_image(array: Array, name: str, *, is_moving: bool) -> Array:
    """Return a volume of real numbers that can be registered, NaN as 0; InvalidInput if it is none."""
    array = np.asarray(array)
    if array.ndim != 3 or min(array.shape) < 4 or array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"{name} has shape {array.shape} of {array.dtype}; give one volume (x, y, z) of numbers: of a series one "
            "of its volumes, or the mean of those at b = 0"
        )
    values = np.nan_to_num(array.astype(np.float32), posinf=0.0, neginf=0.0)
    if values.min() == values.max():
        raise InvalidInput(
            f"{name} is {values.min():g} everywhere, so nothing can be found in it; choose another image"
        )
    if is_moving and looks_like_labels(array):
        raise InvalidInput(
            f"{name} holds labels or a mask; register the image that they were drawn on, and carry them over with its "
            "transform"
        )
    return values


class _Image(NamedTuple):
    """An image whose voxels are boxes."""

    values: Array
    affine: Array

    def center(self) -> Array:
        """Middle of the foreground, mm."""
        return apply_affine(self.affine, np.argwhere(foreground(self.values)).mean(axis=0))

    def itk(self) -> Any:
        image = sitk().GetImageFromArray(np.ascontiguousarray(self.values.T))
        image.SetOrigin(self.affine[:3, 3].tolist())
        image.SetSpacing(voxel_sizes_mm(self.affine).tolist())
        image.SetDirection(rotation_of(self.affine).ravel().tolist())
        return image


def _on_cubes(values: Array, affine: Array, edge_mm: float) -> _Image:
    """Smooth an image as its new voxels need, and put it on a grid along the world's axes."""
    from scipy.ndimage import gaussian_filter

    corners = np.stack(np.meshgrid(*[(-0.5, n - 0.5) for n in values.shape], indexing="ij"), -1).reshape(-1, 3)
    world = apply_affine(affine, corners)
    shape = np.maximum(4, np.ceil(np.ptp(world, axis=0) / edge_mm).astype(int))
    grid = np.diag([edge_mm] * 3 + [1.0])
    grid[:3, 3] = world.min(axis=0) + edge_mm / 2
    sigmas = 0.5 * np.sqrt(np.maximum(0.0, np.square(edge_mm / voxel_sizes_mm(affine)) - 1.0))
    smooth = gaussian_filter(values, sigmas)
    return _Image(resampled(smooth, affine, (), shape, grid, linear=True), grid)


def _as_it_is(values: Array, affine: Array, edge_mm: float) -> _Image:
    """An image on its own grid; one with sheared voxels, which SimpleITK has not, on cubes."""
    straight = rotation_of(affine) * voxel_sizes_mm(affine)
    is_straight = np.abs(affine[:3, :3] - straight).max() < _SHEARED * voxel_sizes_mm(affine).min()
    return _Image(values, affine) if is_straight else _on_cubes(values, affine, edge_mm)


def _edge_of_last(fixed: Array, fixed_affine: Array, moving_affine: Array, settings: RegistrationSettings) -> float:
    sizes = [float(np.cbrt(np.prod(voxel_sizes_mm(one)))) for one in (fixed_affine, moving_affine)]
    longest = float((np.array(fixed.shape) * voxel_sizes_mm(fixed_affine)).max())
    return settings.resolution_mm or max(*sizes, longest / _MOST_VOXELS)


class _Search(NamedTuple):
    """How transforms are searched for."""

    settings: RegistrationSettings
    mask: _Image | None
    stop: threading.Event | None

    def improve(self, fixed: _Image, moving: _Image, start: Any, level: int, iterations: int = 0) -> tuple[float, Any]:
        """Return the mutual information that a level finds, and its transform; -inf where the images lie apart."""
        library, found = sitk(), type(start)(start)
        method = library.ImageRegistrationMethod()
        method.SetMetricAsMattesMutualInformation(self.settings.bins)
        share, step = min(1.0, _DRAWN / fixed.values.size), _FIRST_STEPS[level]
        method.SetMetricSamplingStrategy(method.NONE if share == 1 else method.RANDOM)
        method.SetMetricSamplingPercentage(share, self.settings.seed)
        method.SetInterpolator(library.sitkLinear)
        method.MetricUseMovingImageGradientFilterOff()  # a gradient of all voxels takes more memory than the image
        method.MetricUseFixedImageGradientFilterOff()
        step *= _OF_AFFINE if isinstance(start, library.AffineTransform) else 1.0
        method.SetOptimizerAsRegularStepGradientDescent(step, 1e-3, iterations or self.settings.iterations, 0.6, 1e-8)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetNumberOfThreads(1)  # sums of several come in another order each time
        method.SetNumberOfWorkUnits(1)
        method.SetInitialTransform(found, inPlace=True)
        if self.mask is not None:
            method.SetMetricFixedMask(library.Cast(self.mask.itk(), library.sitkUInt8))
        method.AddCommand(library.sitkIterationEvent, lambda: self._is_stopped and method.StopRegistration())
        try:
            method.Execute(fixed.itk(), moving.itk())
        except RuntimeError:  # no voxel of one lies in the other
            return -np.inf, start
        return -float(method.GetMetricValue()), found

    @property
    def _is_stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()


def register_steps(
    moving: Array,
    moving_affine: Array,
    fixed: Array,
    fixed_affine: Array,
    settings: RegistrationSettings | None = None,
    *,
    mask: Array | None = None,
    names: tuple[str, str] = ("the moving image", "the fixed image"),
    stop: threading.Event | None = None,
) -> Generator[Step, None, Transform]:
    """Find where the points of an image (fixed) lie in another one (moving), step by step.

    Mattes' mutual information is maximized from coarse to fine, from where the headers put both images and from where
    the middles of their foregrounds meet, each straight and turned by 25° about each axis; the best goes on.

    Parameters
    ----------
    moving, fixed
        Shape (X, Y, Z), of any contrast: a T1 or a template, and the mean b = 0 or the FA of a scan.
    moving_affine, fixed_affine
        Their voxel to world, mm, oblique or not.
    settings
        See `RegistrationSettings`.
    mask
        Voxels of the fixed image that count: not 0. It lies on its grid.
    names
        Of both, for sentences.
    stop
        Set it to stop early; what was found so far is returned, and is not ``complete``.

    Raises
    ------
    InvalidInput
        If SimpleITK is not installed, or an image is no volume, empty, or of labels.
    """
    sitk()
    settings = settings or RegistrationSettings()
    moving = checked_image(moving, names[0], is_moving=True)
    fixed = checked_image(fixed, names[1], is_moving=False)
    yield Step(0, len(_LEVELS) + 3, "resampling both images")
    edge = _edge_of_last(fixed, fixed_affine, moving_affine, settings)
    pairs = [(_on_cubes(fixed, fixed_affine, n * edge), _on_cubes(moving, moving_affine, n * edge)) for n in _LEVELS]
    pairs.append((_as_it_is(fixed, fixed_affine, edge), _as_it_is(moving, moving_affine, edge / 2)))
    count = None if mask is None else _on_cubes((np.asarray(mask) != 0).astype(np.float32), fixed_affine, edge)
    search = _Search(settings, None if count is None else count._replace(values=count.values > 0), stop)
    best = yield from _levels(search, pairs)
    return (yield from _judged(search, pairs, *best))


register = driven(register_steps)


def _levels(search: _Search, pairs: list[tuple[_Image, _Image]]) -> Generator[Step, None, tuple[float, Any, Any]]:
    """The best metric, its transform, and an affine one of the level before the last."""
    total, metric = len(_LEVELS) + 3, 0.0
    tried = [search.improve(*pairs[0], start, 0, _TRIED) for start in _starts(*pairs[0])]
    best = sorted(tried, key=lambda one: -one[0])[:_GO_ON]
    _, found = max((search.improve(*pairs[0], one, 0) for _, one in best), key=lambda one: one[0])
    yield Step(1, total, "rigid, finer")
    metric, found = search.improve(*pairs[1], found, 1)
    yield Step(2, total, "affine")
    _, affine = search.improve(*pairs[1], _as_affine(found), 1)
    yield Step(3, total, "last level")
    metric, found = search.improve(*pairs[3], affine if search.settings.method == "affine" else found, 2)
    return metric, found, affine


def _starts(fixed: _Image, moving: _Image) -> Iterator[Any]:
    """Rigid transforms to begin with: by the headers and by the middles, straight and turned."""
    center = fixed.center()
    for shift in (np.zeros(3), moving.center() - center):
        for turn in _TURNS_DEGREES:
            yield sitk().Euler3DTransform(center.tolist(), *np.radians(turn).tolist(), shift.tolist())


def _as_affine(rigid: Any) -> Any:
    found = sitk().AffineTransform(3)
    found.SetCenter(rigid.GetCenter())
    found.SetMatrix(rigid.GetMatrix())
    found.SetTranslation(rigid.GetTranslation())
    return found


def _matrix(transform: Any) -> npt.NDArray[np.float64]:
    """4 x 4, whatever the center is about which it turns."""
    matrix, center = np.eye(4), np.array(transform.GetCenter())
    matrix[:3, :3] = np.reshape(transform.GetMatrix(), (3, 3))
    matrix[:3, 3] = np.array(transform.GetTranslation()) + center - matrix[:3, :3] @ center
    return matrix


def _judged(
    search: _Search, pairs: list[tuple[_Image, _Image]], metric: float, found: Any, affine: Any
) -> Generator[Step, None, Transform]:
    """The transform with its figures."""
    total = len(_LEVELS) + 3
    yield Step(4, total, "trying it mirrored")
    coarse, _ = search.improve(*pairs[1], _as_affine(found), 1, 1)
    mirrored = max(
        search.improve(_mirrored_image(pairs[1][0]), pairs[1][1], one, 1)[0] for one in _mirrored(pairs[1][0], found)
    )
    yield Step(5, total, "measuring what was found")
    (fixed, moving), made = pairs[2], Transform(matrix=_matrix(found))
    before, after = (_on(moving, fixed, one) for one in (Transform(matrix=np.eye(4)), made))
    brain, other = foreground(fixed.values), moving._replace(values=foreground(moving.values).astype(np.float32))
    points = apply_affine(fixed.affine, np.argwhere(brain)[::7])
    moved = np.linalg.norm(made.apply(points) - points, axis=-1)
    figures = {
        "metric": coarse,
        "metric_mirrored": mirrored,
        "final_metric": metric,
        "mutual_information_before": mutual_information(fixed.values, before),
        "mutual_information_after": mutual_information(fixed.values, after),
        "overlap_before": overlap(brain, _on(other, fixed, Transform(matrix=np.eye(4))) > 0.5),
        "overlap_after": overlap(brain, _on(other, fixed, made) > 0.5),
        "least_displacement_mm": float(moved.min()),
        "largest_displacement_mm": float(moved.max()),
        **shape_of(made.matrix),
        "largest_scaling_of_an_affine": shape_of(_matrix(affine))["largest_scaling"],
    }
    complete = search.stop is None or not search.stop.is_set()
    notes = doubts(figures, search.settings.method)
    return dataclasses.replace(made, figures=figures, notes=notes, complete=complete)


def _on(moving: _Image, fixed: _Image, transform: Transform) -> Array:
    return resampled(moving.values, moving.affine, (transform,), fixed.values.shape, fixed.affine, linear=True)


def _mirrored_image(image: _Image) -> _Image:
    return image._replace(values=image.values[::-1])


def _mirrored(fixed: _Image, found: Any) -> Iterator[Any]:
    """Rigid transforms to begin with where the fixed image is mirrored: as found, about the middle of the mirrored."""
    matrix, center, other = _matrix(found), fixed.center(), _mirrored_image(fixed).center()
    u, _, vt = np.linalg.svd(matrix[:3, :3])
    start = sitk().Euler3DTransform()
    start.SetCenter(other.tolist())
    start.SetMatrix((u @ vt).ravel().tolist(), 1e-6)
    start.SetTranslation((apply_affine(matrix, center) - other).tolist())
    yield start
