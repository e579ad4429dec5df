"""The surface of a label volume against closed forms: spheres, boxes and planes, however the voxels lie in space."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, rotation_of
from napari_gpubio.optics.sources import KINDS, Disk, Planar
from napari_gpubio.optics.surface import (
    above_surface,
    clearance_mm,
    first_tissue,
    inward_normal,
    label_at,
    nearest_surface,
    share_inside,
    source_problem,
)
from tests.light.voxel_samples import source_of

CENTER = np.array([5.0, -7.0, 11.0])
VOXELS = [(1.0, 1.0, 1.0), (1.0, 1.0, 2.5), (0.8, 1.2, 3.0), (0.05, 0.05, 0.05)]
TURNS = [(0.0, 0.0, 0.0), (0.3, -0.5, 0.7)]


def affine_of(sizes, shape, turn=(0.0, 0.0, 0.0), *, mirrored=False):
    """An affine with the middle of the volume at CENTER."""
    axes = Rotation.from_rotvec(turn).as_matrix() @ np.diag([-1.0 if mirrored else 1.0, 1.0, 1.0])
    affine = np.eye(4)
    affine[:3, :3] = axes * np.asarray(sizes)
    affine[:3, 3] = CENTER - affine[:3, :3] @ ((np.asarray(shape) - 1) / 2)
    return affine


def sphere(sizes, turn, *, mirrored=False):
    """A ball, thirty of the largest voxels in diameter: labels, affine, radius in mm."""
    sizes = np.asarray(sizes)
    radius = 15.0 * sizes.max()
    shape = np.ceil(2 * radius / sizes).astype(int) + 6
    away = (np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) - (shape - 1) / 2) * sizes
    labels = (np.linalg.norm(away, axis=-1) <= radius).astype(np.uint8) * 3
    return labels, affine_of(sizes, shape, turn, mirrored=mirrored), radius


def box(shape=(20, 24, 30), margin=4, sizes=(1.0, 1.0, 1.0)):
    """A block with a margin of outside: labels and affine; the block's faces are on multiples of the edges."""
    labels = np.zeros(shape, np.uint8)
    labels[margin:-margin, margin:-margin, margin:-margin] = 1
    affine = np.diag([*sizes, 1.0])
    affine[:3, 3] = np.asarray(sizes) / 2
    return labels, affine


def directions(count=60):
    drawn = np.random.default_rng(3).normal(size=(count, 3))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def degrees_between(a, b):
    return np.degrees(np.arccos(np.clip(a @ b, -1.0, 1.0)))


# ----------------------------------------------------------------------------------------------------------- spheres


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("sizes", VOXELS)
def test_the_normal_of_a_sphere_points_to_its_center(sizes, turn, mirrored):
    labels, affine, radius = sphere(sizes, turn, mirrored=mirrored)
    errors = []
    for out in directions():
        point = nearest_surface(labels, affine, CENTER + 1.3 * radius * out)
        errors.append(degrees_between(inward_normal(labels, affine, point), (CENTER - point) / radius))
    assert np.median(errors) < 1.0
    assert max(errors) < 4.0


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("sizes", VOXELS)
def test_the_nearest_point_and_the_line_of_sight_meet_the_voxels_of_a_sphere(sizes, turn):
    labels, affine, radius = sphere(sizes, turn)
    half_diagonal = np.linalg.norm(sizes) / 2
    for out in directions():
        point = nearest_surface(labels, affine, CENTER + 1.3 * radius * out)
        seen = first_tissue(labels, affine, CENTER, -out, whole_line=True)
        for found in (point, seen):
            assert abs(np.linalg.norm(found - CENTER) - radius) <= half_diagonal
        assert degrees_between((seen - CENTER) / np.linalg.norm(seen - CENTER), out) < 1e-3
        # on a face: just outside it is label 0, just inside it is tissue
        normal = inward_normal(labels, affine, point)
        assert label_at(labels, affine, above_surface(affine, point, normal)) == 0
        assert label_at(labels, affine, above_surface(affine, seen, -out)) == 0
        assert label_at(labels, affine, seen - 1e-6 * radius * out) == 3


def test_more_smoothing_gives_a_smoother_normal():
    labels, affine, radius = sphere((1.0, 1.0, 1.0), TURNS[1])
    points = [nearest_surface(labels, affine, CENTER + radius * out) for out in directions()]
    worst = [
        max(
            degrees_between(
                inward_normal(labels, affine, p, smoothing_mm=mm), (CENTER - p) / np.linalg.norm(CENTER - p)
            )
            for p in points
        )
        for mm in (1.0, 2.0, 4.0)
    ]
    assert worst[0] > worst[1] > worst[2]
    assert worst[2] < 1.0


# ------------------------------------------------------------------------------------------------------ boxes, exactly


@pytest.mark.parametrize("sizes", VOXELS)
def test_the_faces_of_a_box_exactly(sizes):
    labels, affine = box(sizes=sizes)
    low, high = 4 * np.asarray(sizes), (np.array(labels.shape) - 4) * np.asarray(sizes)
    middle = (low + high) / 2
    for axis in range(3):
        for side, face in ((-1.0, low), (1.0, high)):
            above = middle.copy()
            above[axis] = face[axis] + side * 2.3 * sizes[axis]
            expected = middle.copy()
            expected[axis] = face[axis]
            inward = -side * np.eye(3)[axis]
            assert np.allclose(nearest_surface(labels, affine, above), expected, atol=1e-9)
            assert np.allclose(first_tissue(labels, affine, above, inward), expected, atol=1e-9)
            assert np.allclose(inward_normal(labels, affine, expected), inward, atol=1e-6)
            assert first_tissue(labels, affine, above, -inward) is None


def test_the_edge_of_a_box_has_the_normal_between_its_faces():
    labels, affine = box((40, 40, 40), 10)
    edge = (10.0, 10.0, 20.0)
    assert np.allclose(inward_normal(labels, affine, edge), np.array([1, 1, 0]) / np.sqrt(2), atol=1e-6)
    corner = (10.0, 10.0, 10.0)
    assert np.allclose(inward_normal(labels, affine, corner), np.ones(3) / np.sqrt(3), atol=1e-6)


def test_a_slanted_ray_enters_at_its_first_face():
    labels, affine = box((20, 20, 20), 5)
    # through (0, 8, 9) in the direction (2, 1, 0.5): it reaches the face x = 5 at t = 2.5
    found = first_tissue(labels, affine, (0.0, 8.0, 9.0), (2.0, 1.0, 0.5))
    assert np.allclose(found, (5.0, 10.5, 10.25), atol=1e-9)
    # parallel to a face, beside the tissue and beside the grid
    assert first_tissue(labels, affine, (0.0, 2.0, 9.0), (1.0, 0.0, 0.0)) is None
    assert first_tissue(labels, affine, (0.0, -2.0, 9.0), (1.0, 0.0, 0.0)) is None


def test_a_ray_that_starts_in_tissue_starts_there_and_a_line_of_sight_does_not():
    labels, affine = box((20, 20, 20), 5)
    assert np.allclose(first_tissue(labels, affine, (10.0, 10.0, 10.0), (0.0, 0.0, 1.0)), (10.0, 10.0, 10.0))
    seen = first_tissue(labels, affine, (10.0, 10.0, 10.0), (0.0, 0.0, 1.0), whole_line=True)
    assert np.allclose(seen, (10.0, 10.0, 5.0))


def test_tissue_that_fills_the_grid_has_its_surface_at_the_edge():
    labels, affine = np.ones((10, 12, 14), np.uint8), np.diag([2.0, 1.0, 1.0, 1.0])
    assert np.allclose(nearest_surface(labels, affine, (-1.4, 5.0, 6.0)), (-1.0, 5.0, 6.0))
    assert np.allclose(inward_normal(labels, affine, (-1.0, 5.5, 6.5)), (1.0, 0.0, 0.0), atol=0.05)
    assert np.allclose(first_tissue(labels, affine, (5.0, -9.0, 6.0), (0.0, 1.0, 0.0)), (5.0, -0.5, 6.0))


# ---------------------------------------------------------------------------------------------------------- in a slice


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("across", [0, 1, 2])
def test_in_a_slice_the_nearest_point_stays_in_the_slice(across, turn):
    labels, affine, radius = sphere((0.8, 1.2, 2.0), turn)
    along = rotation_of(affine)[:, across]
    for out in directions(20):
        clicked = CENTER + 0.6 * radius * out
        found = nearest_surface(labels, affine, clicked, across=across)
        assert abs((found - clicked) @ along) < 1e-9
        assert abs(np.linalg.norm(found - CENTER) - radius) < 2.0  # the face of a voxel of that slice
    # near the pole of the sphere the nearest point in space is in another slice
    pole = CENTER + 0.9 * radius * along
    assert abs((nearest_surface(labels, affine, pole) - pole) @ along) > 0.05 * radius


def test_the_nearest_point_is_the_nearest_of_all_however_far():
    rng = np.random.default_rng(5)
    labels = (rng.random((40, 30, 20)) < 0.02).astype(np.uint8)
    affine = affine_of((1.0, 1.5, 2.0), labels.shape)
    sizes = np.array([1.0, 1.5, 2.0])
    corners = np.argwhere(labels) * sizes
    for _ in range(30):
        place = rng.uniform(-30.0, 70.0, 3)
        found = nearest_surface(labels, affine, apply_affine(affine, place / sizes - 0.5))
        grid = (apply_affine(np.linalg.inv(affine), found) + 0.5) * sizes
        inside_a_voxel = ((place > corners) & (place < corners + sizes)).all(axis=1).any()
        if not inside_a_voxel:  # then the distance to the nearest cuboid is the distance to the surface
            gap = np.maximum(np.maximum(corners - place, place - corners - sizes), 0.0)
            assert np.linalg.norm(grid - place) == pytest.approx(np.sqrt((gap**2).sum(axis=1).min()), abs=1e-9)


# ------------------------------------------------------------------------------------------------------- what is wrong


def test_where_there_is_no_tissue_there_is_a_sentence():
    labels, affine = box()
    with pytest.raises(InvalidInput, match="no tissue"):
        nearest_surface(labels, affine, (1.5, 10.0, 10.0), across=0)
    with pytest.raises(InvalidInput, match="outside the volume"):
        nearest_surface(labels, affine, (-50.0, 10.0, 10.0), across=0)
    with pytest.raises(InvalidInput, match="no tissue"):
        nearest_surface(np.zeros_like(labels), affine, (1.5, 10.0, 10.0))
    with pytest.raises(InvalidInput, match="no surface near"):
        inward_normal(np.ones((60, 60, 60), np.uint8), np.eye(4), (30.0, 30.0, 30.0))
    with pytest.raises(InvalidInput, match="smoothing_mm is 0"):
        inward_normal(labels, affine, (4.0, 10.0, 10.0), smoothing_mm=0.0)


@pytest.mark.parametrize(
    ("kind", "position", "direction", "message"),
    [
        ("pencil", (4.0, 12.0, 15.0), (1, 0, 0), ""),  # in tissue
        ("pencil", (3.999, 12.0, 15.0), (1, 0, 0), ""),  # on the surface
        ("pencil", (3.999, 12.0, 15.0), (-1, 0, 0), "points away"),
        ("gaussian", (-50.0, 12.0, 15.0), (1, 0, 0), "54 mm away"),
        ("pencil", (-50.0, 1.0, 15.0), (1, 0, 0), "passes the tissue by"),
        ("isotropic", (3.9, 12.0, 15.0), (1, 0, 0), "label 0"),
        ("line", (8.0, 12.0, 15.0), (1, 0, 0), ""),
    ],
)
def test_the_problem_of_a_source(kind, position, direction, message):
    labels, affine = box()
    problem = source_problem(labels, affine, KINDS[kind](position_mm=position, direction=direction))
    assert message in problem
    assert bool(problem) == bool(message)


# ------------------------------------------------------------------------------------------------- wide beams


def test_a_wide_beam_on_a_plane_needs_no_clearance_but_a_tilted_one_does():
    labels, affine = box((60, 60, 30), 5)
    on_top = (30.0, 30.0, 24.999)  # the upper face is at z = 25
    flat = Disk(position_mm=(30.0, 30.0, 25.001), direction=(0, 0, -1), radius_mm=4.0)
    assert clearance_mm(labels, affine, flat) == 0.0
    tilted = Disk(position_mm=(30.0, 30.0, 25.0), direction=(1, 0, -1), radius_mm=4.0)
    # the lower edge of the disk lies r sin 45 below the face, which is r along the beam
    assert clearance_mm(labels, affine, tilted) == pytest.approx(4.0, abs=0.01)
    wide = Planar(position_mm=on_top, direction=(1, 0, -1), width_mm=6.0, height_mm=2.0)
    assert clearance_mm(labels, affine, wide) == pytest.approx(3.0, abs=0.01)
    for kind in ("pencil", "fiber", "isotropic", "cone", "lambertian"):
        assert clearance_mm(labels, affine, KINDS[kind](position_mm=on_top, direction=(1, 0, -1))) == 0.0


def test_a_beam_that_starts_that_far_before_the_surface_starts_outside():
    labels, affine, radius = sphere((1.0, 1.0, 2.5), TURNS[1])
    rng = np.random.default_rng(1)
    for out in directions(15):
        point = nearest_surface(labels, affine, CENTER + 1.2 * radius * out)
        normal = inward_normal(labels, affine, point)
        beam = Disk(position_mm=tuple(point), direction=tuple(normal), radius_mm=6.0)
        start = point - clearance_mm(labels, affine, beam) * normal
        u, v, _ = beam.frame()
        for r, a in zip(6.0 * np.sqrt(rng.random(40)), 2 * np.pi * rng.random(40), strict=True):
            place = start + r * (np.cos(a) * u + np.sin(a) * v)
            assert label_at(labels, affine, place) == 0 or label_at(labels, affine, place - 0.3 * normal) == 0


# ------------------------------------------------------------------------------------------------- sources that are cut


@pytest.mark.parametrize(
    ("kind", "depth", "expected"),
    [
        ("disk", 0.0, 0.5),
        ("disk", 1.0, 1.0 - (np.arccos(0.5) - 0.5 * np.sqrt(0.75)) / np.pi),  # a segment of the disk is outside
        ("fiber", 0.0, 0.5),
        ("lambertian", -1.0, (np.arccos(0.5) - 0.5 * np.sqrt(0.75)) / np.pi),
        ("gaussian", 1.0, 0.8413),  # one standard deviation, which is half the 1/e^2 radius
        ("planar", 0.5, 0.75),
        ("slit", 0.5, 0.75),
        ("pencil", 0.1, 1.0),
        ("isotropic", -0.1, 0.0),
    ],
)
def test_the_part_of_a_source_that_the_surface_cuts_off(kind, depth, expected):
    """Fine voxels with a face in the plane x = 4; the source looks along y, so that the face cuts it."""
    labels = np.zeros((80, 80, 80), np.uint8)
    labels[40:] = 1
    affine = np.diag([0.1, 0.1, 0.1, 1.0])
    affine[:3, 3] = 0.05
    source = source_of(
            kind, position_mm=(4.0 + depth, 4.0, 4.0), direction=(0, 1, 0), width_axis=(1, 0, 0),
        radius_mm=2.0, width_mm=2.0, height_mm=3.0,
    )  # fmt: skip
    assert share_inside(labels, affine, source) == pytest.approx(expected, abs=0.03)


def test_what_lies_beyond_the_grid_is_outside():
    source = Planar(position_mm=(0.0, 4.0, 4.0), direction=(0, 1, 0), width_axis=(1, 0, 0))
    assert share_inside(np.ones((8, 8, 8), np.uint8), np.eye(4), source) == pytest.approx(0.55 * 0.8, abs=0.05)
