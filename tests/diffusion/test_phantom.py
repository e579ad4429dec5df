"""The closed forms against numerical integration, and the brain phantom against what it promises."""

from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import nibabel as nib
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.ndimage import map_coordinates

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.phantom import (
    AnalyticField,
    BrainPhantom,
    Launch,
    analytic_fields,
    brain_phantom,
    load_brain_atlas,
    load_brain_phantom,
    ring_field,
    sample,
    write_brain_phantom,
)
from napari_gpubio.diffusion.phantom.analytic import as_matrices
from napari_gpubio.diffusion.phantom.atlas import brain_atlas
from napari_gpubio.diffusion.phantom.brain import attenuation, brain_anatomy, grid, rician, spread_directions
from napari_gpubio.diffusion.phantom.bundles import rasterize
from napari_gpubio.diffusion.phantom.closed_forms import (
    adaptive_ring,
    fish_eye,
    half_space,
    luneburg,
    parabolic_index,
    pull_back,
    ring,
)
from napari_gpubio.diffusion.phantom.sample import SAMPLE
from tests.diffusion.tensor_samples import directions_and_fa

RAYS = [
    pytest.param(field, launch, id=f"{field.name}-{n}")
    for field in analytic_fields()
    for n, launch in enumerate(field.launches)
]


def integrate(field: AnalyticField, launch: Launch, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, momenta and 2H of x' = D p, p_k' = -1/2 p.(d_k D)p with complex-step gradients."""

    def right_hand_side(_: float, state: np.ndarray) -> np.ndarray:
        x, p = state[:3], state[3:]
        steep = as_matrices(field.tensor_at(x + 1e-30j * np.eye(3)).imag / 1e-30)
        return np.concatenate([as_matrices(field.tensor_at(x)) @ p, -0.5 * np.einsum("i,kij,j->k", p, steep, p)])

    x0 = np.array(launch.start, float)
    p0 = np.linalg.solve(as_matrices(field.tensor_at(x0)), field.unit_velocity(x0, launch.direction))
    solved = solve_ivp(right_hand_side, (0, s[-1]), [*x0, *p0], method="DOP853", t_eval=s, rtol=1e-12, atol=1e-12)
    x, p = solved.y[:3].T, solved.y[3:].T
    return x, p, np.einsum("ni,nij,nj->n", p, as_matrices(field.tensor_at(x)), p)


@pytest.mark.parametrize(("field", "launch"), RAYS)
def test_closed_form_is_the_hamiltonian_flow(field: AnalyticField, launch: Launch):
    s = np.linspace(0.0, launch.length, 41)
    x, p, speed = integrate(field, launch, s)
    assert np.abs(speed - 1.0).max() < 1e-9
    for component in field.conserved:
        assert np.ptp(p[:, component]) < 1e-9
    if field.geodesic is not None:
        assert np.abs(field.path(launch.start, launch.direction, s) - x).max() < 1e-8
    inside = (x - field.origin) / (np.array(field.shape) - 1)
    assert inside.min() > 2 / 63
    assert inside.max() < 1 - 2 / 63


@pytest.mark.parametrize("field", analytic_fields(), ids=lambda f: f.name)
def test_sampled_fields_are_positive_definite(field: AnalyticField):
    sampled = field.sample()
    assert sampled.shape == field.shape
    assert np.linalg.eigvalsh(as_matrices(sampled.tensors)).min() > 0
    index = np.array([40, 11, 30])
    expected = 1e-3 * field.tensor_at(apply_affine(sampled.affine, index))
    np.testing.assert_allclose(sampled.tensors[tuple(index)], expected, rtol=1e-14)


def test_half_space_beyond_its_grid():
    s = np.linspace(0, 60, 31)
    for t in np.deg2rad([0, 30, 60, -45]):
        launch = Launch(start=(5, 40, -3), direction=(0.8 * np.cos(t), np.sin(t), 0.6 * np.cos(t)), length=60.0)
        x, _, _ = integrate(half_space(), launch, s)
        np.testing.assert_allclose(half_space().path(launch.start, launch.direction, s), x, atol=1e-8)
    vertical = half_space().path((3.0, 40.0, 1.0), (0, 1, 0), [0.0, 20.0])  # grows exponentially
    np.testing.assert_allclose(vertical[1], [3.0, 40.0 * np.exp(0.5), 1.0], rtol=1e-14)


def test_rays_of_lenses_meet():
    for launch in fish_eye().launches:  # at the antipode, and where they began
        points = fish_eye().path(launch.start, launch.direction, [16 * np.pi, 32 * np.pi])
        np.testing.assert_allclose(points, [[-16, 0, 0], [16, 0, 0]], atol=1e-12)
    for launch in luneburg().launches:  # a parallel beam at the rim
        end = luneburg().path(launch.start, launch.direction, launch.length)
        np.testing.assert_allclose(end, [[28, 0, 0]], atol=1e-12)


def test_the_light_guide_has_its_period():
    path = parabolic_index().path((0, 15, 0), (1, 0, 0), np.linspace(0, 230, 4000))
    wave = 2 * np.pi / 232.987  # the published number has 6 digits
    assert np.abs(path[:, 1] - 15 * np.cos(wave * path[:, 0])).max() < 1e-3


@pytest.mark.parametrize(("power", "ratio"), [(1, 1.26570), (2, 1.03969), (3, 1.00682), (4, 1.00120)])
def test_tangential_ring_rays_drift_outwards(power: int, ratio: float):
    field = ring(power)
    end = field.path((20, 0, 0), (0, 1, 0), field.launches[0].length)[0]
    np.testing.assert_allclose(end, [0, 20 * ratio, 0], atol=2e-4)


@pytest.mark.parametrize(("degrees", "length"), [(11.18, 31.1003373), (153.07, 56.2785224)])
def test_two_routes_around_the_ring_have_their_lengths(degrees: float, length: float):
    launch, apart = np.deg2rad(degrees), np.deg2rad(120)
    end = ring().path((20, 0, 0), (-np.sin(launch), np.cos(launch), 0), length)[0]
    np.testing.assert_allclose(end, 20 * np.array([np.cos(apart), np.sin(apart), 0]), atol=0.02)  # 4 digits given


def test_adaptive_ring_spirals_at_the_launch_slope():
    path = adaptive_ring().path((20, 0, 0), (0.2, 1, 0), np.linspace(0, 20, 50))
    angle, radius = np.unwrap(np.arctan2(path[:, 1], path[:, 0])), np.hypot(path[:, 0], path[:, 1])
    np.testing.assert_allclose(np.log(radius / 20), 0.2 * angle, atol=1e-12)
    circle = adaptive_ring().path((20, 0, 0), (0, 1, 0), np.linspace(0, 100, 50))
    np.testing.assert_allclose(np.hypot(circle[:, 0], circle[:, 1]), 20, rtol=1e-13)


def test_pull_back_tensors_have_determinant_one():
    points = np.random.default_rng(0).uniform(-30, 30, (50, 3))
    np.testing.assert_allclose(np.linalg.det(as_matrices(pull_back().tensor_at(points))), 1.0, rtol=1e-12)


def test_ring_sample_is_a_ring():
    field = ring_field()
    assert field.shape == (64, 64, 24)
    assert not field.mask[31, 31].any()
    assert not field.tensors[~field.mask].any()
    np.testing.assert_allclose(field.tensors[field.mask][:, :3].sum(axis=1), 2.3e-3)


# ---- the brain


class Built(NamedTuple):
    """The brain; the share of each bundle in each voxel, before overfilled voxels are mended; signals without noise."""

    phantom: BrainPhantom
    shares: list[np.ndarray]
    clean: np.ndarray


@pytest.fixture(scope="module")
def built() -> Built:
    """The brain, and what is lost on the way to it."""
    shares, clean = [], []

    def remembered(*given: Any) -> tuple[np.ndarray, np.ndarray]:
        made = rasterize(*given)
        shares.append(made[0])
        return made

    def with_noise(signals: np.ndarray, *given: Any) -> np.ndarray:
        clean.append(signals)
        return rician(signals, *given)

    with patch.multiple(sample, rasterize=remembered, rician=with_noise):
        return Built(brain_phantom(**SAMPLE), shares, clean[0])


@pytest.fixture(scope="module")
def brain(built: Built) -> BrainPhantom:
    return built.phantom


@pytest.fixture(scope="module")
def fitted(brain: BrainPhantom) -> tuple[np.ndarray, np.ndarray]:
    """Main direction and FA of every voxel by unweighted log-linear least squares."""
    return directions_and_fa(brain.scan, brain.scan.data[..., 0] > 0)


@pytest.fixture(scope="module")
def shares(built: Built) -> list[np.ndarray]:
    return built.shares


def voxel(phantom: BrainPhantom, mm: tuple[float, float, float]) -> tuple[int, ...]:
    return tuple(np.rint(apply_affine(np.linalg.inv(phantom.scan.affine), mm)).astype(int))


def test_scan_is_stored_to_the_left_with_the_origin_inside(brain: BrainPhantom):
    assert np.linalg.det(brain.scan.affine[:3, :3]) < 0
    assert brain.scan.data.dtype == np.int16
    assert brain.scan.data[voxel(brain, (0, 0, 0))][0] > 0
    assert not brain.scan.data[[0, -1]].any()
    assert brain.scan.shells() == [0, 1000]
    affine, shape = grid(2.5)
    index = np.linalg.inv(affine)[:3, 3]
    np.testing.assert_allclose(index, np.rint(index), atol=1e-12)
    assert ((index > 0) & (index < shape)).all()


@pytest.mark.parametrize(
    ("name", "mm", "axis"),
    [
        ("corpus callosum", (0, -4, 26), 0),
        ("corpus callosum", (0, 32, 5), 0),
        ("corpus callosum", (0, -40, 5), 0),
        ("cingulum, right", (8, -4, 37), 1),
        ("cingulum, left", (-8, -4, 37), 1),
        ("corticospinal tract, right", (21, -13, 4), 2),
        ("corticospinal tract, left", (-21, -13, 4), 2),
        ("arcuate fasciculus, left", (-38, -4, 27), 1),
        ("middle cerebellar peduncle", (0, -14, -30), 0),
    ],
)
def test_colors_are_the_ones_that_are_taught(brain, fitted, name, mm, axis):
    main, fa = fitted
    here = voxel(brain, mm)
    assert brain.names[brain.labels[here]] == name
    assert fa[here] > 0.45
    assert abs(main[here][axis]) > 0.8


def test_tissues_differ_as_they_should(brain, fitted, shares):
    _, fa = fitted
    anatomy = brain_anatomy(brain.scan.affine, brain.scan.shape)
    np.testing.assert_allclose(anatomy.white + anatomy.cortex + anatomy.nuclei + anatomy.fluid, 1.0, atol=1e-12)
    b0 = brain.scan.data[..., 0]
    core = anatomy.inside > 0.99
    fluid, gray = core & (anatomy.fluid > 0.95), core & (anatomy.nuclei > 0.95) & (brain.labels == 0)
    assert np.median(b0[fluid]) > 1.8 * np.median(b0[gray]) > 1.8 * np.median(b0[core & (anatomy.white > 0.95)])
    weighted = brain.scan.data[..., 1:].mean(axis=-1)
    assert np.median(weighted[fluid] / b0[fluid]) < 0.15 < 0.4 < np.median(weighted[gray] / b0[gray])
    loose = core & (anatomy.white > 0.99) & (sum(shares) < 0.01)
    assert 0.15 < np.median(fa[loose]) < 0.32


def test_callosum_and_corticospinal_tract_cross(brain: BrainPhantom, shares: list[np.ndarray]):
    callosum, left, right = shares[:3]
    for tract in (left, right):
        crossing = (callosum > 0.3) & (tract > 0.3)
        assert np.count_nonzero(crossing) > 50
        heights = apply_affine(brain.scan.affine, np.argwhere(crossing))[:, 2]
        assert 20 < np.median(heights) < 50


def test_callosal_streamlines_reach_both_hemispheres(brain, fitted):
    main, fa = fitted
    for seed in ((0, 0, 26), (0, 32, 5), (0, -40, 5)):
        ends = [streamline(fa, main, brain.scan.affine, np.array(seed, float), sign) for sign in (-1.0, 1.0)]
        assert sorted(np.sign(e[0]) for e in ends) == [-1.0, 1.0]
        assert min(abs(e[0]) for e in ends) > 15


def streamline(fa: np.ndarray, main: np.ndarray, affine: np.ndarray, seed: np.ndarray, sign: float) -> np.ndarray:
    """Follow nearest-voxel directions (EuDX); returns the end."""
    to_voxel, point, heading = np.linalg.inv(affine), seed, sign * np.array([1.0, 0, 0])
    for _ in range(300):
        index = apply_affine(to_voxel, point)
        direction = main[tuple(np.rint(index).astype(int))]
        direction = direction * np.sign(direction @ heading)
        if map_coordinates(fa, index[:, None], order=1)[0] < 0.15 or direction @ heading < 0.7:
            break
        heading = direction
        point = point + 0.5 * heading
    return point


def test_left_is_left_and_center_lines_lie_in_their_bundles(brain: BrainPhantom, shares: list[np.ndarray]):
    for label, name in brain.names.items():
        x = apply_affine(brain.scan.affine, np.argwhere(brain.labels == label))[:, 0]
        assert len(x) > 100
        if name.endswith(("left", "right")):
            assert (x <= 0).all() if name.endswith("left") else (x >= 0).all()
    held = [[shares[line.label - 1][voxel(brain, p)] for p in line.points[2:-2]] for line in brain.center_lines]
    assert min(min(row) for row in held) > 0.01  # where the callosum and the corticospinal tract fan out
    assert min(np.max(row) for row in held) > 0.5


def test_noise_has_the_promised_level(built: Built):
    data = built.phantom.scan.data[..., 0]
    noisy, clean = data[data > 0].astype(float), built.clean[:, 0]
    bright = clean > 50
    difference = (noisy - clean)[bright]
    expected = (60 / 28) ** 2 + 1 / 12  # it is rounded to integers
    assert abs(difference.var() / expected - 1) < 4 * np.sqrt(2 / len(difference)) + 0.01


def test_noise_is_rician_with_the_promised_level():
    n, sigma = 40000, 2.0
    noisy = rician(np.tile([0.0, 60.0], (n, 1)), sigma, 7)
    rayleigh = sigma * np.sqrt(np.pi / 2)
    assert abs(noisy[:, 0].mean() - rayleigh) < 4 * sigma * np.sqrt(2 - np.pi / 2) / np.sqrt(n)
    assert abs(noisy[:, 1].var() / sigma**2 - 1) < 4 * np.sqrt(2 / n) + sigma**2 / 60**2
    assert abs(noisy[:, 1].mean() - (60 + sigma**2 / 120)) < 4 * sigma / np.sqrt(n)
    np.testing.assert_array_equal(noisy[:100], rician(np.tile([0.0, 60.0], (100, 1)), sigma, 7))
    np.testing.assert_allclose(rician(noisy, 0.0, 7), noisy)


def test_directions_repel_each_other():
    g = spread_directions(30)
    np.testing.assert_allclose(np.linalg.norm(g, axis=1), 1.0, atol=2e-6)
    cosines = np.abs(g @ g.T)[np.triu_indices(30, 1)]
    assert np.rad2deg(np.arccos(cosines.max())) > 22  # 30 axes cannot be farther apart than about 26 degrees
    second = g.T @ g / 30
    assert np.abs(second - np.eye(3) / 3).max() < 0.01


def test_attenuation_follows_the_tensor():
    axis, g, b = np.array([[0.6, 0.0, 0.8]]), np.array([[0, 0, 0], [1.0, 0, 0], [0.6, 0, 0.8]]), np.array([0, 1e3, 2e3])
    tensor = 0.3e-3 * np.eye(3) + 1.4e-3 * np.outer(axis, axis)
    expected = np.exp(-b * np.einsum("ni,ij,nj->n", g, tensor, g))
    np.testing.assert_allclose(attenuation(axis, g, b, 1.7e-3, 0.3e-3)[0], expected, rtol=1e-12)


def test_nonsense_is_refused():
    with pytest.raises(InvalidInput, match="n_directions = 5"):
        brain_phantom(n_directions=5)
    with pytest.raises(InvalidInput, match="snr = 0"):
        brain_phantom(snr=0)
    with pytest.raises(InvalidInput, match="no closed-form path"):
        analytic_fields()[-1].path((0, 0, 0), (1, 0, 0), [1.0])


@pytest.mark.parametrize(
    ("bundle", "ends"),
    [
        ("corticospinal tract, left", {"brain stem", "motor cortex, left"}),
        ("corpus callosum", {"frontal lobe, left", "frontal lobe, right"}),
        ("arcuate fasciculus, right", {"frontal lobe, right", "temporal lobe, right"}),
        ("inferior fronto-occipital fasciculus, left", {"frontal lobe, left", "occipital lobe, left"}),
        ("anterior thalamic radiation, right", {"thalamus, right", "frontal lobe, right"}),
    ],
)
def test_bundles_join_the_regions_that_they_do_in_a_brain(brain: BrainPhantom, bundle, ends):
    atlas = load_brain_atlas()
    (label,) = (number for number, name in brain.names.items() if name == bundle)
    joined = []
    for line in brain.center_lines:
        if line.label == label:
            voxels = np.rint(apply_affine(np.linalg.inv(atlas.affine), line.points)).astype(int)
            passed = atlas.labels[tuple(np.clip(voxels, 0, np.array(atlas.labels.shape) - 1).T)]
            joined.append({atlas.name_of(int(p)) for p in np.unique(passed) if p} >= ends)
    assert np.mean(joined) > 0.15, joined


def test_files_are_reproducible(tmp_path: Path):
    small, folders = brain_phantom(voxel_mm=6.0, n_directions=6), (tmp_path / "first", tmp_path / "second")
    for folder in folders:
        folder.mkdir()
        write_brain_phantom(folder, small)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def test_the_packaged_files_are_this_phantom(brain: BrainPhantom):
    scan = load_brain_phantom()
    # The last bit of libm may tip a rounding on another machine, never more.
    difference = np.abs(scan.data.astype(int) - brain.scan.data)
    assert difference.max() <= 1
    assert np.count_nonzero(difference) < 1e-4 * difference.size
    np.testing.assert_allclose(scan.affine, brain.scan.affine, atol=1e-6)
    np.testing.assert_allclose(scan.directions, brain.scan.directions, atol=2e-6)
    np.testing.assert_array_equal(scan.bvals, brain.scan.bvals)
    atlas, made = load_brain_atlas(), brain_atlas(scan.affine, scan.shape)
    assert np.count_nonzero(atlas.labels != made.labels) < 1e-3 * made.labels.size
    assert atlas.names == made.names
    labels = np.asarray(nib.load(sample_path("brain_phantom/bundles.nii.gz")).dataobj)
    assert np.count_nonzero(labels != brain.labels) < 1e-3 * labels.size
    lines = nib.streamlines.load(sample_path("brain_phantom/bundles.trk")).tractogram
    found = zip(lines.streamlines, lines.data_per_streamline["bundle"], brain.center_lines, strict=True)
    for line, label, expected in found:
        assert label[0] == expected.label
        np.testing.assert_allclose(line, expected.points, atol=1e-3)
    assert sum(path.stat().st_size for path in sample_path("brain_phantom").iterdir()) < 2_000_000
