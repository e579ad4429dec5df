"""Registration of an image to another one: mutual information by SimpleITK, from coarse to fine, and a warp by DIPY."""

import dataclasses
import threading
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import looks_like_labels
from napari_gpubio.core.space import apply_affine, rotation_of, voxel_sizes_mm, voxel_volume_mm3
from napari_gpubio.core.steps import Step, driven, with_step
from napari_gpubio.registration.model import Transform, is_sheared, sitk
from napari_gpubio.registration.quality import doubts, foreground, mutual_information, overlap, shape_of, warp_figures
from napari_gpubio.registration.resample import resampled
from napari_gpubio.registration.settings import RegistrationSettings
from napari_gpubio.registration.syn import dipy_syn, warp_steps

Array = npt.NDArray[Any]
_LEVELS = (4.0, 2.0, 1.0)  # edges of the cubes of each, in those of the last
_MOST_VOXELS = 160  # along the longest edge of the last level
_MOST_BENT = 1_200_000  # voxels of the grid of a warp
_DRAWN, _BINS, _SEED = 40_000, 32, 1  # voxels that count in each level, bins of the joint histogram
_FIRST_STEPS = (4.0, 2.0, 1.0)  # of the optimizer; an affine transform goes astray with such long ones
_OF_AFFINE = 0.2
_TRIED, _GO_ON = 8, 3  # iterations of each start, and how many of them go on
_TURNS_DEGREES = ((0, 0, 0), (25, 0, 0), (-25, 0, 0), (0, 25, 0), (0, -25, 0), (0, 0, 25), (0, 0, -25))
_TOTAL = 6


def _checked(array: Array, name: str, *, is_moving: bool) -> Array:
    """A volume of real numbers, NaN as 0; InvalidInput if nothing can be found in it."""
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

    def mirrored(self) -> "_Image":
        return self._replace(values=self.values[::-1])

    def itk(self) -> Any:
        image = sitk().GetImageFromArray(np.ascontiguousarray(self.values.T))
        image.SetOrigin(self.affine[:3, 3].tolist())
        image.SetSpacing(voxel_sizes_mm(self.affine).tolist())
        image.SetDirection(rotation_of(self.affine).ravel().tolist())
        return image

    def on(self, fixed: "_Image", transform: Transform) -> Array:
        """Its values on the grid of another image."""
        return resampled(self.values, self.affine, (transform,), fixed.values.shape, fixed.affine, linear=True)


def _on_cubes(values: Array, affine: Array, edge_mm: float) -> _Image:
    """Smooth an image as its new voxels need, and put it on a grid along the world's axes."""
    from scipy.ndimage import gaussian_filter

    corners = np.stack(np.meshgrid(*[(-0.5, n - 0.5) for n in values.shape], indexing="ij"), -1).reshape(-1, 3)
    world = apply_affine(affine, corners)
    shape = np.maximum(4, np.ceil(np.ptp(world, axis=0) / edge_mm).astype(int))
    grid = np.diag([edge_mm] * 3 + [1.0])
    grid[:3, 3] = world.min(axis=0) + edge_mm / 2
    smooth = gaussian_filter(values, 0.5 * np.sqrt(np.maximum(0.0, (edge_mm / voxel_sizes_mm(affine)) ** 2 - 1.0)))
    return _Image(resampled(smooth, affine, (), shape, grid, linear=True), grid)


def _as_it_is(values: Array, affine: Array, edge_mm: float) -> _Image:
    """An image on its own grid; one with sheared voxels, which SimpleITK has not, on cubes."""
    return _on_cubes(values, affine, edge_mm) if is_sheared(affine) else _Image(values, affine)


class _Search(NamedTuple):
    """How transforms are searched for."""

    iterations: int
    stop: threading.Event | None

    def is_stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def improve(self, fixed: _Image, moving: _Image, start: Any, level: int, most: int = 0) -> tuple[float, Any]:
        """Return the mutual information that a level finds, and its transform; -inf where the images lie apart."""
        library, found = sitk(), type(start)(start)
        method, share = library.ImageRegistrationMethod(), min(1.0, _DRAWN / fixed.values.size)
        method.SetMetricAsMattesMutualInformation(_BINS)
        method.SetMetricSamplingStrategy(method.NONE if share == 1 else method.RANDOM)
        method.SetMetricSamplingPercentage(share, _SEED)
        method.MetricUseMovingImageGradientFilterOff()  # a gradient of all voxels takes more memory than the image
        method.MetricUseFixedImageGradientFilterOff()
        method.SetInterpolator(library.sitkLinear)
        step = _FIRST_STEPS[level] * (_OF_AFFINE if isinstance(start, library.AffineTransform) else 1.0)
        method.SetOptimizerAsRegularStepGradientDescent(step, 1e-3, most or self.iterations, 0.6, 1e-8)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetNumberOfThreads(1)  # sums of several come in another order each time
        method.SetNumberOfWorkUnits(1)
        method.SetInitialTransform(found, inPlace=True)
        method.AddCommand(library.sitkIterationEvent, lambda: self.is_stopped() and method.StopRegistration())
        try:
            method.Execute(fixed.itk(), moving.itk())
        except RuntimeError:  # no voxel of one lies in the other
            return -np.inf, start
        return -float(method.GetMetricValue()), found


def register_steps(
    moving: Array,
    moving_affine: Array,
    fixed: Array,
    fixed_affine: Array,
    settings: RegistrationSettings | None = None,
    *,
    names: tuple[str, str] = ("the moving image", "the fixed image"),
    stop: threading.Event | None = None,
) -> Generator[Step, None, Transform]:
    """Find where the points of an image (fixed) lie in another one (moving), step by step.

    Mattes' mutual information is maximized from coarse to fine, from where the headers put both images and from where
    the middles of their foregrounds meet, each straight and turned by 25° about each axis; the best go on.

    Parameters
    ----------
    moving, fixed
        Shape (X, Y, Z), of any contrast: a T1 or a template, and the mean b = 0 or the FA of a scan.
    moving_affine, fixed_affine
        Their voxel to world, mm, oblique or not.
    settings
        See `RegistrationSettings`.
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
    if settings.method == "nonlinear":
        dipy_syn()
    one = _checked(fixed, names[1], is_moving=False), np.asarray(fixed_affine, float)
    two = _checked(moving, names[0], is_moving=True), np.asarray(moving_affine, float)
    yield Step(0, _TOTAL, "resampling both images")
    sizes = [float(np.cbrt(np.prod(voxel_sizes_mm(affine)))) for _, affine in (one, two)]
    edge = max(*sizes, (np.array(one[0].shape) * voxel_sizes_mm(one[1])).max() / _MOST_VOXELS)
    pairs = [(_on_cubes(*one, n * edge), _on_cubes(*two, n * edge)) for n in _LEVELS]
    search = _Search(settings.iterations, stop)
    yield Step(1, _TOTAL, "trying where to begin")
    tried = [search.improve(*pairs[0], start, 0, _TRIED) for start in _starts(*pairs[0])]
    best = sorted(tried, key=lambda found: -found[0])[:_GO_ON]
    _, rigid = max((search.improve(*pairs[0], start, 0) for _, start in best), key=lambda found: found[0])
    yield Step(2, _TOTAL, "rigid")
    _, rigid = search.improve(*pairs[1], rigid, 1)
    yield Step(3, _TOTAL, "affine")
    _, affine = search.improve(*pairs[1], _as_affine(rigid), 1)
    yield Step(4, _TOTAL, "last level")
    last = _as_it_is(*one, edge), _as_it_is(*two, edge / 2)
    metric, found = search.improve(*last, rigid if settings.method == "rigid" else affine, 2)
    whole = Transform(matrix=_matrix(found), complete=not search.is_stopped())
    if settings.method == "nonlinear" and whole.complete:
        whole = yield from _bent(whole.matrix, one, two, search)
    yield Step(5, _TOTAL, "measuring what was found")
    figures = {"final_metric": metric, **_mirrored(search, pairs[1], found), **_measured(*pairs[2], whole)}
    figures["largest_scaling_of_an_affine"] = shape_of(_matrix(affine))["largest_scaling"]
    return dataclasses.replace(whole, figures=figures, notes=doubts(figures, settings.method))


register = driven(register_steps)


def _bent(
    matrix: Array, fixed: tuple[Array, Array], moving: tuple[Array, Array], search: _Search
) -> Generator[Step, None, Transform]:
    """A matrix after the warp that goes with it; it alone if that is stopped."""
    volume = np.prod(fixed[0].shape) * voxel_volume_mm3(fixed[1])
    edge = max(float(voxel_sizes_mm(fixed[1]).min()), float(np.cbrt(volume / _MOST_BENT)))
    one, two = _on_cubes(*fixed, edge), _on_cubes(*moving, edge)
    before = two.on(one, Transform(matrix=matrix))
    steps = warp_steps(one.values, before, one.affine, search.iterations, search.stop)
    found = yield from with_step(
        steps, lambda step: Step(4 * step.total + step.done, _TOTAL * step.total, step.message)
    )
    if found is None:
        return Transform(matrix=matrix, complete=False)
    return Transform(matrix=matrix, warps=(found.there,), inverse_warps=(found.back,))


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


def _mirrored(search: _Search, pair: tuple[_Image, _Image], found: Any) -> dict[str, float]:
    """The metric of a level, and what it is where the fixed image is mirrored, from where its middle stays."""
    (fixed, moving), matrix = pair, _matrix(found)
    u, _, vt = np.linalg.svd(matrix[:3, :3])
    start, center = sitk().Euler3DTransform(), fixed.mirrored().center()
    start.SetCenter(center.tolist())
    start.SetMatrix((u @ vt).ravel().tolist(), 1e-6)
    start.SetTranslation((apply_affine(matrix, fixed.center()) - center).tolist())
    return {
        "metric": search.improve(fixed, moving, _as_affine(found), 1, 1)[0],
        "metric_mirrored": search.improve(fixed.mirrored(), moving, start, 1)[0],
    }


def _measured(fixed: _Image, moving: _Image, whole: Transform) -> dict[str, float]:
    """What images and masks say of a transform, of its linear part, and of the headers before it."""
    brain, other = foreground(fixed.values), _Image(foreground(moving.values).astype(np.float32), moving.affine)
    points = apply_affine(fixed.affine, np.argwhere(brain)[::7])
    moved = np.linalg.norm(whole.moved(points) - points, axis=-1)
    figures = {"least_displacement_mm": float(moved.min()), "largest_displacement_mm": float(moved.max())}
    linear = Transform(matrix=whole.matrix)
    for when, one in (("before", Transform(matrix=np.eye(4))), ("affine", linear), ("after", whole)):
        if when != "affine" or whole.warps:
            figures[f"mutual_information_{when}"] = mutual_information(fixed.values, moving.on(fixed, one))
            figures[f"overlap_{when}"] = overlap(brain, other.on(fixed, one) > 0.5)
    for warp in whole.warps:
        figures |= warp_figures(warp, points)
    return {**figures, **shape_of(whole.matrix)}
