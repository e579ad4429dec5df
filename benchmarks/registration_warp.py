"""What a nonlinear registration gains over an affine one: carried labels, errors at edges, folds, and time.

The real brain beside the repository is bent by known smooth transforms (FA onto FA, and an image like a T1 onto the
mean b = 0), and the template MNI152 that nilearn comes with is brought onto the brain, which are two heads. Labels are
carried by the nearest voxel. Each method runs in a process of its own, and begins where this package's affine
registration ends::

    python benchmarks/registration_warp.py [--cases NAME ...] [--methods NAME ...]
"""

import argparse
import importlib.util
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import Array, Report, argument_parser, header, line, result_path, table, versions
from fibers.brain import BRAIN, load_brain
from scipy import ndimage

from napari_gpubio.core.device import CPU
from napari_gpubio.core.space import apply_affine, rotation_of, voxel_sizes_mm
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map, scalar_map
from napari_gpubio.registration import RegistrationSettings, mutual_information, register, resampled
from napari_gpubio.registration.syn import recolored, warp_steps

PEERS = {
    "SimpleITK": ("SimpleITK", "SimpleITK"),
    "DIPY": ("dipy", "dipy"),
    "ANTs": ("ants", "antspyx"),
    "nilearn": ("nilearn", "nilearn"),
}
BUNDLES = (
    "AF_left ATR_right CC_1 CC_4 CC_7 CG_left CST_left CST_right FX_left ILF_right IFO_left MCP OR_left SLF_III_left "
    "UF_left"
)
BRIGHTNESS = {1: 250.0, 2: 650.0, 3: 1000.0}  # of cerebrospinal fluid, gray and white matter in a T1
WIDTH_MM, TURN_DEGREES, SHIFT_MM, ZOOM = 14.0, (4, -3, 5), (6.0, -4.0, 3.0), (1.06, 0.95, 1.03)
BENT = ((3.0, 1), (6.0, 2))  # largest velocity, mm, and seed
Field = Array  # shape (X, Y, Z, 3), world mm of the moving image for each voxel of the fixed one


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A pair of images, their labels, and, where it is known, where each voxel of the fixed image lies."""

    name: str
    fixed: Array
    affine: Array
    moving: Array
    moving_affine: Array
    tissues: tuple[Array, Array]
    bundles: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    truth: Field | None = None


# --------------------------------------------------------------------------------------------------------------- cases
def voxel_centers(shape: tuple[int, ...], affine: Array) -> Field:
    return apply_affine(affine, np.moveaxis(np.indices(shape[:3], dtype=float), 0, -1))


def at_points(volume: Array, affine: Array, points: Field, order: int) -> Array:
    """Values of a volume, 0 outside, at world points."""
    voxels = np.moveaxis(apply_affine(np.linalg.inv(affine), points), -1, 0)
    if order == 0:
        return ndimage.map_coordinates(volume, np.floor(voxels + 0.5), order=0, mode="constant")
    return ndimage.map_coordinates(volume.astype(np.float32), voxels, order=1, mode="constant")


def flow(velocity: Array, affine: Array, points: Field, steps: int = 12) -> Field:
    """World points after they followed a velocity, shape (3, X, Y, Z), for a unit of time."""
    for _ in range(steps):
        half = points + np.stack([at_points(v, affine, points, 1) for v in velocity], -1) / (2 * steps)
        points = points + np.stack([at_points(v, affine, half, 1) for v in velocity], -1) / steps
    return points


def velocity_of(shape: tuple[int, ...], affine: Array, largest_mm: float, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    sigma = WIDTH_MM / voxel_sizes_mm(affine)
    found = np.stack([ndimage.gaussian_filter(rng.normal(size=shape), sigma) for _ in range(3)])
    return found * largest_mm / np.linalg.norm(found, axis=0).max()


def linear_part(center: Array) -> Array:
    from scipy.spatial.transform import Rotation

    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", TURN_DEGREES, degrees=True).as_matrix() @ np.diag(ZOOM)
    matrix[:3, 3] = np.array(SHIFT_MM) + center - matrix[:3, :3] @ center
    return matrix


def tissues_of(fa: Array, md: Array, mask: Array) -> Array:
    """1 cerebrospinal fluid, 2 gray, 3 white matter, by FA and mean diffusivity (mm²/s)."""
    labels = np.where(mask, 2, 0).astype(np.uint8)
    labels[mask & (ndimage.gaussian_filter(fa, 0.5) > 0.22)] = 3
    labels[mask & (md > 1.5e-3)] = 1
    return labels


@dataclass(frozen=True, eq=False)
class Head:
    """The real brain."""

    fa: Array
    b0: Array
    tissues: Array
    affine: Array
    bundles: dict[str, Array]


def load_head() -> Head:
    brain = load_brain(None)
    assert not isinstance(brain, str), brain
    mask = brain.field.mask
    fa, md = np.where(mask, fa_map(brain.field), 0.0), scalar_map(brain.field, "MD")
    bundles = {name: read_volume(BRAIN / "bundle_masks" / f"{name}.nii.gz")[0] > 0 for name in BUNDLES.split()}
    b0 = np.where(mask, brain.scan.b0_mean(), 0.0)
    return Head(fa.astype(np.float32), b0.astype(np.float32), tissues_of(fa, md, mask), brain.field.affine, bundles)


def bent(head: Head, contrast: str, largest_mm: float, seed: int) -> Case:
    """Bend one contrast of the head by a known transform, onto a grid of 2 mm, with noise."""
    shape, affine = head.fa.shape, head.affine
    velocity = velocity_of(shape, affine, largest_mm, seed)
    linear = linear_part(apply_affine(affine, (np.array(shape) - 1) / 2))
    grid, grid_shape = np.diag([2.0, 2.0, 2.0, 1.0]), (100, 116, 100)
    grid[:3, 3] = apply_affine(affine, (np.array(shape) - 1) / 2) + np.array(SHIFT_MM) - np.array(grid_shape) + 1.0
    back = flow(-velocity, affine, apply_affine(np.linalg.inv(linear), voxel_centers(grid_shape, grid)))
    rng = np.random.default_rng(seed)
    tissues = at_points(head.tissues, affine, back, 0)
    fixed = head.b0 if contrast.endswith("b = 0") else head.fa
    if contrast == "FA onto FA":
        moving = at_points(head.fa, affine, back, 1) + rng.normal(0, 0.03, grid_shape)
    else:
        moving = like_t1(at_points_of_classes(head, back), grid, rng)
    return Case(
        name=f"{contrast}, bent by {largest_mm:g} mm, seed {seed}",
        fixed=fixed,
        affine=affine,
        moving=np.where(tissues > 0, moving, 0.0).astype(np.float32),
        moving_affine=grid,
        tissues=(head.tissues, tissues),
        bundles={
            name: (mask, at_points(mask.astype(np.uint8), affine, back, 0) > 0) for name, mask in head.bundles.items()
        },
        truth=apply_affine(linear, flow(velocity, affine, voxel_centers(shape, affine))),
    )  # fmt: skip


def at_points_of_classes(head: Head, points: Field) -> Array:
    shares = {c: ndimage.gaussian_filter((head.tissues == c).astype(np.float32), 0.4) for c in BRIGHTNESS}
    return sum(value * at_points(shares[c], head.affine, points, 1) for c, value in BRIGHTNESS.items())


def like_t1(image: Array, grid: Array, rng: np.random.Generator) -> Array:
    """Brightness of tissues with a field of 25 % and noise of 4 %."""
    field_of = ndimage.gaussian_filter(rng.normal(size=image.shape), 40.0 / voxel_sizes_mm(grid))
    return image * (1 + 0.25 * field_of / np.abs(field_of).max()) + rng.normal(0, 40.0, image.shape)


def two_heads(head: Head) -> list[Case]:
    """The template of nilearn onto this brain's mean b = 0, and onto its FA."""
    found = importlib.util.find_spec("nilearn")
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent / "datasets" / "data"
    volumes = [read_volume(folder / f"mni_icbm152_{n}_tal_nlin_sym_09a_converted.nii.gz") for n in ("t1", "gm", "wm")]
    (t1, affine), gray, white = (
        volumes[0],
        *(ndimage.gaussian_filter(v.astype(np.float32), 0.7) for v, _ in volumes[1:]),
    )
    grid, shape = affine @ np.diag([2.0, 2, 2, 1]), tuple((np.array(t1.shape) + 1) // 2)
    points = voxel_centers(shape, grid)
    t1, gray, white = (
        at_points(ndimage.gaussian_filter(v.astype(np.float32), 0.8), affine, points, 1) for v in (t1, gray, white)
    )
    scale = max(gray.max(), white.max())
    rest = np.where(t1 > 0.1 * t1.max(), scale - gray - white, 0)
    labels = np.where(t1 > 0.02 * t1.max(), 1 + np.argmax([rest, gray, white], axis=0), 0).astype(np.uint8)
    return [
        Case(
            name=f"template onto {name}", fixed=fixed, affine=head.affine, moving=t1, moving_affine=grid,
            tissues=(head.tissues, labels),
        )
        for name, fixed in (("b = 0", head.b0), ("FA", head.fa))
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- methods
# Each takes both images on the fixed grid, and the grid, and gives displacements of its voxels in world mm.
def itk_image(values: Array, affine: Array) -> Any:
    import SimpleITK as sitk  # noqa: N813

    flip = np.diag([-1.0, -1, 1])
    image = sitk.GetImageFromArray(np.ascontiguousarray(values.T.astype(np.float32)))
    image.SetOrigin((flip @ affine[:3, 3]).tolist())
    image.SetSpacing(voxel_sizes_mm(affine).tolist())
    image.SetDirection((flip @ rotation_of(affine)).ravel().tolist())
    return image


def of_itk_field(image: Any) -> Field:
    import SimpleITK as sitk  # noqa: N813

    return np.swapaxes(sitk.GetArrayFromImage(image), 0, 2).astype(float) * np.array([-1.0, -1, 1])


def demons(fixed: Array, moving: Array, affine: Array) -> Field:
    """SimpleITK's diffeomorphic demons in three levels."""
    import SimpleITK as sitk  # noqa: N813

    pair, found = [itk_image(each, affine) for each in (fixed, moving)], None
    for shrink, iterations in ((4, 60), (2, 40), (1, 20)):
        parts = pair
        if shrink > 1:
            parts = [sitk.Shrink(sitk.SmoothingRecursiveGaussian(each, 1.25 * shrink), [shrink] * 3) for each in pair]
        way = sitk.DiffeomorphicDemonsRegistrationFilter()
        way.SetNumberOfIterations(iterations)
        way.SetStandardDeviations(1.5)
        way.SetSmoothDisplacementField(True)
        found = way.Execute(*parts) if found is None else way.Execute(*parts, sitk.Resample(found, parts[0]))
    return of_itk_field(sitk.Resample(found, pair[0]))


def b_spline(fixed: Array, moving: Array, affine: Array) -> Field:
    """SimpleITK's B-spline by mutual information."""
    import SimpleITK as sitk  # noqa: N813

    one, two = itk_image(fixed, affine), itk_image(moving, affine)
    way = sitk.ImageRegistrationMethod()
    way.SetMetricAsMattesMutualInformation(32)
    way.SetMetricSamplingStrategy(way.RANDOM)
    way.SetMetricSamplingPercentage(0.3, 1)
    way.MetricUseMovingImageGradientFilterOff()
    way.MetricUseFixedImageGradientFilterOff()
    way.SetInterpolator(sitk.sitkLinear)
    start = sitk.BSplineTransformInitializer(one, [6, 7, 6], order=3)
    way.SetInitialTransformAsBSpline(start, inPlace=True, scaleFactors=[1, 2, 3])
    way.SetOptimizerAsLBFGS2(numberOfIterations=40)
    way.SetShrinkFactorsPerLevel([4, 2, 1])
    way.SetSmoothingSigmasPerLevel([4.0, 2.0, 0.0])
    way.SmoothingSigmasAreSpecifiedInPhysicalUnitsOn()
    to_field = sitk.TransformToDisplacementFieldFilter()
    to_field.SetReferenceImage(one)
    return of_itk_field(to_field.Execute(way.Execute(one, two)))


def this_package(fixed: Array, moving: Array, affine: Array) -> Field:
    found = drive(warp_steps(fixed, moving, affine, 200, None))
    assert found is not None
    return found.there.displacements.astype(float)


def dipy_syn(radius: int, iterations: list[int]) -> Callable[..., Field]:
    def method(fixed: Array, moving: Array, affine: Array) -> Field:
        from dipy.align.imwarp import SymmetricDiffeomorphicRegistration
        from dipy.align.metrics import CCMetric

        way = SymmetricDiffeomorphicRegistration(CCMetric(3, sigma_diff=2.0, radius=radius), level_iters=iterations)
        way.verbosity = 0
        found = way.optimize(fixed, moving, static_grid2world=affine, moving_grid2world=affine)
        return np.asarray(found.get_forward_field(), float)

    return method


def ants_syn(metric: str) -> Callable[..., Field]:
    def method(fixed: Array, moving: Array, affine: Array) -> Field:
        import ants
        import nibabel as nib

        with tempfile.TemporaryDirectory() as name:
            paths = [f"{name}/{each}.nii.gz" for each in ("fixed", "moving")]
            for path, values in zip(paths, (fixed, moving), strict=True):
                nib.save(nib.Nifti1Image(values.astype(np.float32), affine), path)
            one, two = map(ants.image_read, paths)
            found = ants.registration(
                one, two, "SyNOnly", initial_transform="Identity", syn_metric=metric,
                syn_sampling=32 if metric == "mattes" else 3, reg_iterations=(40, 40, 20),
                outprefix=f"{name}/out", random_seed=1,
            )  # fmt: skip
            warp = next(path for path in found["fwdtransforms"] if "1Warp" in path or "0Warp" in path)
            return np.squeeze(np.asarray(nib.load(warp).dataobj)).astype(float) * np.array([-1.0, -1, 1])

    return method


def in_its_contrast(method: Callable[..., Field]) -> Callable[..., Field]:
    return lambda fixed, moving, affine: method(fixed, recolored(moving, fixed), affine)


METHODS: dict[str, Callable[..., Field] | None] = {
    "headers only": None,
    "affine": None,
    "this package": this_package,
    "SimpleITK demons": in_its_contrast(demons),
    "DIPY SyN, CC 2": in_its_contrast(dipy_syn(2, [40, 40, 20])),
    "DIPY SyN, CC 4, contrast as it is": dipy_syn(4, [10, 10, 5]),
    "ANTs SyN, MI": ants_syn("mattes"),
    "ANTs SyN, CC": ants_syn("CC"),
    "SimpleITK B-spline, MI": b_spline,
}
SLOW = "ANTs SyN, CC", "SimpleITK B-spline, MI"  # only if they are named
NEEDS = {"DIPY": "dipy", "ANTs": "ants", "SimpleITK": "SimpleITK"}


# ------------------------------------------------------------------------------------------------------------- figures
def edges_of(labels: Array) -> Array:
    """Which voxels lie at a border between two tissues or at the outside."""
    return (labels > 0) & (ndimage.maximum_filter(labels, 3) != ndimage.minimum_filter(labels, 3))


def jacobians(displacements: Array, affine: Array) -> Array:
    """Determinants of id + displacement, whose derivatives are central differences."""
    gradient = np.stack(np.gradient(displacements, axis=(0, 1, 2)), -1) @ np.linalg.inv(affine[:3, :3])
    return np.asarray(np.linalg.det(gradient + np.eye(3)))


def dice(one: Array, other: Array) -> float:
    return float(2 * np.count_nonzero(one & other) / max(1, np.count_nonzero(one) + np.count_nonzero(other)))


def judged(case: Case, positions: Field) -> dict[str, float]:
    """Return the Dice of carried labels, mutual information, and errors where they are known."""
    shown = at_points(case.moving, case.moving_affine, positions, 1)
    carried = at_points(case.tissues[1], case.moving_affine, positions, 0)
    found = {
        f"dice {name}": dice(carried == n, case.tissues[0] == n) for n, name in ((1, "CSF"), (2, "gray"), (3, "white"))
    }
    found["dice tissues"] = float(np.mean([*found.values()]))
    found["bits"] = mutual_information(case.fixed, shown)
    if case.bundles:
        all_dice = [
            dice(at_points(theirs.astype(np.uint8), case.moving_affine, positions, 0) > 0, ours)
            for ours, theirs in case.bundles.values()
        ]
        found["dice bundles"] = float(np.mean(all_dice))
    if case.truth is not None:
        error = np.linalg.norm(positions - case.truth, axis=-1)
        at_edges, inside = error[edges_of(case.tissues[0])], error[case.tissues[0] > 0]
        found |= {
            "edge error mm": float(at_edges.mean()), "edge error p95 mm": float(np.percentile(at_edges, 95)),
            "error everywhere mm": float(inside.mean()),
        }  # fmt: skip
    return found


def _work(name: str, fixed: Array, moving: Array, affine: Array, pipe: Any) -> None:
    method = METHODS[name]
    assert method is not None
    before = resource.getrusage(resource.RUSAGE_SELF)
    begun = time.perf_counter()
    try:
        field_of = method(fixed, moving, affine)
    except Exception as error:  # noqa: BLE001 - the others go on
        pipe.send((f"{type(error).__name__}: {error}", {}))
        return
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pipe.send((field_of, {"seconds": seconds, "cpu_seconds": used}))


def in_a_process(name: str, case: Case, moving: Array) -> tuple[Any, dict[str, float]]:
    """The field of a method, or what went wrong, with seconds."""
    here, there = multiprocessing.Pipe(duplex=False)
    arguments = (name, case.fixed, moving, case.affine, there)
    process = multiprocessing.get_context("spawn").Process(target=_work, args=arguments)
    process.start()
    there.close()
    found: tuple[Any, dict[str, float]] = here.recv()
    process.join()
    return found


def rows_of(case: Case, names: list[str]) -> list[dict[str, Any]]:
    """Every method on a case."""
    centers = voxel_centers(case.fixed.shape, case.affine)
    begun, used = time.perf_counter(), time.process_time()
    linear = register(case.moving, case.moving_affine, case.fixed, case.affine, RegistrationSettings(method="affine"))
    took = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - used}
    moving = resampled(case.moving, case.moving_affine, (linear,), case.fixed.shape, case.affine, linear=True)
    rows: list[dict[str, Any]] = []
    if case.truth is not None:
        rows.append({"case": case.name, "method": "the truth", **judged(case, case.truth)})
    for name in names:
        if METHODS[name] is None:
            figures = judged(case, centers if name == "headers only" else apply_affine(linear.matrix, centers))
            rows.append({"case": case.name, "method": name, **figures, **(took if name == "affine" else {})})
            continue
        found, cost = in_a_process(name, case, moving.astype(np.float32))
        if isinstance(found, str):
            rows.append({"case": case.name, "method": name, "failed": found})
            print(name, found, flush=True)
            continue
        determinants = jacobians(found, case.affine)[case.tissues[0] > 0]
        size = np.linalg.norm(found, axis=-1)[case.tissues[0] > 0]
        more = {
            "least jacobian": determinants.min(),
            "folded": int((determinants <= 0).sum()),
            "largest mm": size.max(),
            "mean mm": size.mean(),
        }
        rows.append(
            {
                "case": case.name,
                "method": name,
                **judged(case, apply_affine(linear.matrix, centers + found)),
                **more,
                **cost,
            }
        )
        print(rows[-1], flush=True)
    return rows


COLUMNS = (
    "dice CSF", "dice gray", "dice white", "dice tissues", "dice bundles", "edge error mm", "edge error p95 mm",
    "error everywhere mm", "bits", "least jacobian", "largest mm", "seconds", "cpu_seconds",
)  # fmt: skip


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    there = [column for column in COLUMNS if any(column in row for row in rows)]
    lines = []
    for row in rows:
        cells = [
            "" if column not in row else f"{row[column]:.3f}" if "dice" in column else f"{row[column]:.3g}"
            for column in there
        ]
        lines.append(line(row["method"], *(cells if "failed" not in row else [row["failed"]])))
    return table(("", *there), lines)


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--cases", nargs="*", default=[], help="beginnings of names; default: all")
    parser.add_argument("--methods", nargs="*", default=[], help="beginnings of names; default: all that are installed")
    return parser.parse_args()


def cases_of(head: Head) -> Iterator[Case]:
    """All of them, by name."""
    for contrast in ("FA onto FA", "T1 onto FA", "T1 onto b = 0"):
        for largest_mm, seed in BENT:
            yield bent(head, contrast, largest_mm, seed)
    yield from two_heads(head)


def main() -> None:
    arguments = parsed()
    if not BRAIN.is_dir():
        print(f"{BRAIN} is absent")
        return
    facts = {**header(quick=False), "peers": versions(PEERS)}
    text = ", ".join(f"{name} {version}" for name, version in facts["peers"].items())
    path = result_path(arguments.json, "registration_warp", facts["date"], CPU)
    report = Report(path, "Nonlinear registration beside an affine one", facts, text + ".")
    names = [
        name
        for name in METHODS
        if all(not name.startswith(n) or importlib.util.find_spec(module) for n, module in NEEDS.items())
        and (name.startswith(tuple(arguments.methods)) if arguments.methods else name not in SLOW)
    ]
    for case in cases_of(load_head()):
        if not arguments.cases or case.name.startswith(tuple(arguments.cases)):
            rows = rows_of(case, names)
            report.add(case.name, case.name, rows, *lines_of(rows))


if __name__ == "__main__":
    main()
