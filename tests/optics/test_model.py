"""Media, label volumes and detectors: what they mean in space, and what is refused."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.result import exposed_area_mm2
from napari_gpubio.optics.detectors import Detector, FaceDetector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from tests.light.result_samples import detected_photons
from tests.light.voxel_samples import layers, make_domain, sliced, turned_affine

NAN, INF = float("nan"), float("inf")
SKULL = Medium(label=2, name="skull", mua_per_mm=0.0136, mus_per_mm=10.75, g=0.92, n=1.37)


# -- media ------------------------------------------------------------------------------------------------------------


def test_reduced_scattering():
    assert SKULL.musp_per_mm == pytest.approx(0.86, abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mua_per_mm": -0.1}, r"label 2 \(skull\): mua_per_mm is -0.1 1/mm; it must be at least 0"),
        ({"mus_per_mm": -1}, "mus_per_mm is -1 1/mm; it must be at least 0"),
        ({"mua_per_mm": NAN}, "mua_per_mm is nan; give a finite number in 1/mm"),
        ({"mus_per_mm": INF}, "mus_per_mm is inf; give a finite number in 1/mm"),
        ({"g": 1.01}, "g is 1.01; it must be at most 1"),
        ({"g": -1.01}, "g is -1.01; it must be at least -1"),
        ({"g": NAN}, "g is nan; give a finite number"),
        ({"n": 0.99}, "n is 0.99; it must be at least 1"),
        ({"n": NAN}, "n is nan; give a finite number"),
        ({"label": 0}, "label 0 .*: label is 0; it must be at least 1"),
        ({"label": 65536}, "label is 65536; it must be at most 65535"),
    ],
)
def test_properties_that_no_medium_has(changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        dataclasses.replace(SKULL, **changes)


@pytest.mark.parametrize("changes", [{"g": 1.0}, {"g": -1.0}, {"n": 1.0}, {"mua_per_mm": 0.0, "mus_per_mm": 0.0}])
def test_limits_belong_to_the_range(changes):
    dataclasses.replace(SKULL, **changes)


# -- domains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (np.ones((2, 3, 4), bool), np.uint8),
        (np.full((2, 3, 4), 255, np.int64), np.uint8),
        (np.full((2, 3, 4), 256.0), np.uint16),
        (np.full((2, 3, 4), 65535, np.int32), np.uint16),
    ],
)
def test_labels_of_any_type_become_the_smallest(labels, kept):
    label = int(labels.max())
    domain = make_domain(labels, Medium(label=label))
    assert (domain.labels.dtype, domain.labels.flags.c_contiguous) == (kept, True)
    assert (domain.shape, domain.labels_present) == ((2, 3, 4), (label,))


def test_labels_may_be_in_fortran_order():
    labels = np.asfortranarray(np.arange(24).reshape(2, 3, 4) % 3)
    np.testing.assert_array_equal(make_domain(labels, *sliced(SKULL, 2)).labels, labels)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.ones((4, 4)), r"the labels have shape \(4, 4\); give a volume with three dimensions"),
        (np.ones((0, 4, 4)), "give a volume with three dimensions"),
        (np.full((2, 2, 2), 1.5), "values that are not integers; give a segmentation"),
        (np.full((2, 2, 2), NAN), "not integers"),
        (np.full((2, 2, 2), "a"), "are of type <U1; give integers"),
        (np.full((2, 2, 2), -1), "range from -1 to -1; they must lie between 0 and 65535"),
        (np.full((2, 2, 2), 65536), "range from 65536 to 65536"),
        (np.zeros((2, 2, 2), int), "every voxel is 0, which is outside; label the tissue with 1 or more"),
    ],
)
def test_what_is_no_label_volume(labels, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_domain(labels, SKULL)


def test_labels_without_properties_are_named():
    labels = np.arange(24).reshape(2, 3, 4)
    with pytest.raises(InvalidInput, match=r"no optical properties for label 1, 3, 4, 5, 6, 7, 8, 9, …; add a row"):
        make_domain(labels, SKULL)
    with pytest.raises(InvalidInput, match="label 2 has two rows of optical properties; remove one"):
        make_domain(np.full((2, 2, 2), 2), SKULL, SKULL)
    with pytest.raises(InvalidInput, match=r"label 7 has no optical properties; there are \[2\]"):
        make_domain(np.full((2, 2, 2), 2), SKULL).medium(7)


def test_rows_for_labels_that_do_not_occur_are_allowed():
    domain = make_domain(np.full((2, 2, 2), 2), *sliced(SKULL, 5))
    assert domain.labels_present == (2,)
    assert domain.medium(4).mus_per_mm == SKULL.mus_per_mm


def affine_with(row, column, value):
    affine = np.eye(4)
    affine[row, column] = value
    return affine


@pytest.mark.parametrize(
    ("affine", "sentence"),
    [
        (affine_with(2, 2, 0.0), "the affine cannot be inverted"),
        (affine_with(0, 0, NAN), "the affine has values that are not finite"),
        (np.eye(3), r"the affine has shape \(3, 3\)"),
        (affine_with(0, 1, 0.1), r"the volume is sheared \(its axes are not perpendicular\); resample it"),
    ],
)
def test_affines_that_are_refused(affine, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_domain((2, 2, 2), affine=affine)


@pytest.mark.parametrize("outside_n", [0.5, NAN, INF])
def test_the_index_outside_is_checked(outside_n):
    with pytest.raises(InvalidInput, match=r"the refractive index outside is .*; it must be at least 1"):
        make_domain((2, 2, 2), outside_n=outside_n)


def test_a_position_and_its_voxel():
    domain = make_domain((4, 5, 6), affine=turned_affine())
    np.testing.assert_allclose(domain.voxel_sizes_mm, [1, 2, 3])
    assert domain.voxel_volume_mm3 == pytest.approx(6.0)
    index = np.array([[0, 0, 0], [3, 4, 5], [1, 2, 0.5]])
    world = index @ turned_affine()[:3, :3].T + turned_affine()[:3, 3]
    np.testing.assert_allclose(domain.world_to_grid(world), (index + 0.5) * [1, 2, 3], atol=1e-12)
    np.testing.assert_allclose(domain.grid_to_world((index + 0.5) * [1, 2, 3]), world, atol=1e-12)


def test_directions_keep_their_length_and_angle():
    domain = make_domain((2, 2, 2), affine=turned_affine())
    random = np.random.default_rng(1).standard_normal((20, 3))
    inside = domain.direction_to_grid(random)
    np.testing.assert_allclose(inside @ inside.T, random @ random.T, atol=1e-12)
    np.testing.assert_allclose(domain.direction_to_world(inside), random, atol=1e-12)
    steps = domain.world_to_grid(random) - domain.world_to_grid(np.zeros(3))
    np.testing.assert_allclose(steps, inside, atol=1e-12)  # a displacement in mm is the same in both


def test_absorption_of_every_voxel():
    domain = layers((2, 2, 4), dataclasses.replace(SKULL, label=1), dataclasses.replace(SKULL, label=2, mua_per_mm=1.0))
    np.testing.assert_allclose(domain.absorption()[0, 0], [0.0136, 0.0136, 1, 1], rtol=1e-6)
    assert not domain.is_continuous


def test_continuous_media():
    labels = np.ones((2, 2, 2), np.uint8)
    labels[0, 0, 0] = 0
    mua = np.full((2, 2, 2), 0.3)
    mua[0, 0, 0] = NAN  # outside, where nobody looks
    domain = make_domain(labels, mua_per_mm=mua)
    assert domain.is_continuous
    assert domain.absorption().dtype == np.float32
    assert domain.absorption()[0, 0, 0] == 0.0
    assert domain.absorption()[1, 1, 1] == np.float32(0.3)
    mua[1, 1, 1] = 9.0
    assert domain.absorption()[1, 1, 1] == np.float32(0.3)  # a copy


@pytest.mark.parametrize("name", ["mua_per_mm", "mus_per_mm", "g", "n"])
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.ones((2, 2, 3)), r"has shape \(2, 2, 3\) and the labels \(2, 2, 2\); make them the same"),
        (np.full((2, 2, 2), -1.5), "has the value -1.5 in tissue"),
        (np.full((2, 2, 2), NAN), "has the value nan in tissue"),
        (np.full((2, 2, 2), INF), "has the value inf in tissue"),
    ],
)
def test_continuous_media_that_are_refused(name, values, sentence):
    with pytest.raises(InvalidInput, match=f"{name} {sentence}"):
        make_domain((2, 2, 2), **{name: values})


@pytest.mark.parametrize(("name", "value"), [("g", 1.01), ("n", 0.99), ("n", 11.0), ("mua_per_mm", -1e-9)])
def test_properties_beyond_their_limits_are_refused_with_value_and_limits(name, value):
    values = np.ones((2, 2, 2))
    values[1, 0, 1] = value
    with pytest.raises(InvalidInput, match=f"{name} has the value {value} in tissue; it must be .* there"):
        make_domain((2, 2, 2), **{name: values})


def test_properties_of_a_voxel_are_its_own():
    volumes = {name: 1.0 + 0.01 * np.arange(8).reshape(2, 2, 2) for name in ("mua_per_mm", "mus_per_mm", "n")}
    domain = make_domain((2, 2, 2), g=np.linspace(-1, 1, 8).reshape(2, 2, 2), **volumes)
    found = domain.medium_at((1.5, 0.5, 1.5))
    assert (found.mua_per_mm, found.n, found.g) == pytest.approx((1.05, 1.05, 3 / 7))


def test_air_in_cavities_has_its_own_index():
    labels = np.ones((3, 3, 3), np.uint8)
    labels[1, 1, 1] = 0
    filled = make_domain(labels, n=np.full((3, 3, 3), 1.4)).with_air_in_cavities()
    assert (filled.n[1, 1, 1], filled.n[0, 1, 1]) == (1.0, np.float32(1.4))


def test_a_phase_function_has_the_g_of_every_medium():
    table = TabulatedPhaseFunction(cosines=[0.0, 1.0])
    domain = make_domain((2, 2, 2), phase_function=table)
    assert domain.medium(1).g == pytest.approx(0.5)
    assert domain.medium_at((0.5, 0.5, 0.5)).musp_per_mm == pytest.approx(0.5 * domain.media[0].mus_per_mm)
    with pytest.raises(InvalidInput, match="a phase function and g voxel by voxel"):
        make_domain((2, 2, 2), phase_function=table, g=np.zeros((2, 2, 2)))


def test_other_optics_of_the_same_labels():
    domain = make_domain((4, 5, 6))
    darker = dataclasses.replace(domain.media[0], mua_per_mm=3.0)
    other = domain.with_optics([darker], mus_per_mm=np.ones((4, 5, 6)))
    assert other.media == (darker,)
    assert other.mus_per_mm.dtype == np.float32
    assert other.labels_present is domain.labels_present
    assert not domain.is_continuous
    with pytest.raises(InvalidInput, match=r"mua_per_mm has the value -1\.0 in tissue"):
        domain.with_optics((darker,), mua_per_mm=np.full((4, 5, 6), -1.0))


def test_area_toward_the_outside():
    labels = np.ones((3, 3, 3), np.uint8)
    labels[1, 1, 1] = 0
    area = exposed_area_mm2(make_domain(labels, voxel_mm=(1.0, 2.0, 3.0)))
    assert area[0, 0, 0] == 6 + 3 + 2  # one face each way
    assert area[0, 1, 1] == 6 + 6  # the rim of the grid and the hole
    assert area[1, 1, 1] == 0
    assert area.sum() == 2 * 9 * (6 + 3 + 2) + 2 * (6 + 3 + 2)


# -- detectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"position_mm": (0, NAN, 0)}, r"position_mm\[1\] is nan; give a finite number"),
        ({"position_mm": (0, 0)}, "position_mm has 2 values; give 3"),
        ({"position_mm": (0, 0, 0), "radius_mm": 0.0}, "radius_mm is 0 mm; it must be greater than 0 mm"),
        ({"position_mm": (0, 0, 0), "normal": (0, 0, 0)}, r"the detector's normal is \(0, 0, 0\); give a direction"),
        ({"position_mm": (0, 0, 0), "normal": (0, INF, 0)}, r"normal\[1\] is inf; give a finite number"),
    ],
)
def test_detectors_that_are_refused(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Detector(**values)


def test_a_face_that_does_not_exist_is_refused():
    assert FaceDetector(face="+j").face == "+j"
    with pytest.raises(InvalidInput, match=r"face is '\+x'; choose one of"):
        FaceDetector(face="+x")


def detected():
    """Three photons of weights 1, 2 and 1, of ten that were launched."""
    paths = [[10, 0], [20, 4], [30, 8]]
    return detected_photons([1, 2, 1], paths, detector=[0, 1, 0], time_ns=[0.1, 0.2, 0.3], labels=(1, 5), launched=10)


def test_numbers_of_detected_photons():
    photons = detected()
    assert photons.detected_weight == pytest.approx(0.4)
    np.testing.assert_allclose(photons.mean_path_mm(), [(10 + 40 + 30) / 4, (8 + 8) / 4])
    assert photons.mean_time_ns() == pytest.approx((0.1 + 0.4 + 0.3) / 4)
    assert photons.differential_pathlength_factor(12.0) == pytest.approx(24 / 12)
    spread = photons.time_point_spread([0.0, 0.15, 0.35])
    np.testing.assert_allclose(spread * [0.15, 0.2], [0.1, 0.3])
    first = photons.of(0)
    assert (len(first), first.detected_weight, first.launched) == (2, pytest.approx(0.2), 10)
    np.testing.assert_allclose(first.mean_path_mm(), [20, 4])


def test_a_detector_without_photons_has_no_mean():
    none = detected().of(7)
    assert len(none) == 0
    assert none.detected_weight == 0
    assert np.isnan(none.mean_path_mm()).all()
    assert np.isnan(none.mean_time_ns())


@pytest.mark.parametrize("separation", [0.0, -3.0, NAN])
def test_a_pathlength_factor_needs_a_distance(separation):
    with pytest.raises(InvalidInput, match=r"the source-detector separation is .* mm; it must be greater than 0"):
        detected().differential_pathlength_factor(separation)


# -- cavities ---------------------------------------------------------------------------------------------------------


def with_cavity():
    """A block with a cavity of 2 x 1 x 1 voxels, a notch, and a hole that reaches the outside around a corner."""
    labels = np.ones((8, 8, 8), np.uint8)
    labels[3:5, 3, 3] = 0
    labels[0, 4, 4] = 0
    labels[7, 7, 6] = labels[6, 6, 5] = 0
    return make_domain(labels, voxel_mm=(0.5, 1.0, 2.0))


def test_a_cavity_is_what_tissue_encloses_and_does_not_touch_the_outside():
    domain = with_cavity()
    assert np.argwhere(domain.cavities).tolist() == [[3, 3, 3], [4, 3, 3]]
    assert not make_domain((4, 4, 4)).cavities.any()


def test_the_faces_of_cavities_are_those_of_their_neighbors():
    domain = with_cavity()
    area = exposed_area_mm2(domain, domain.cavities)
    assert area.sum() == pytest.approx(2 * (1.0 * 2.0) + 4 * (0.5 * 2.0) + 4 * (0.5 * 1.0))
    assert area[2, 3, 3] == pytest.approx(2.0)
    assert area[3, 3, 3] == area[0, 0, 0] == 0.0


def test_cavities_get_a_label_of_their_own_with_air():
    domain = with_cavity().with_optics((*sliced(SKULL, 2)[:1], dataclasses.replace(SKULL, label=2)))
    filled = domain.with_air_in_cavities()
    assert not filled.cavities.any()
    np.testing.assert_array_equal(filled.labels, np.where(domain.cavities, 3, domain.labels))
    air = filled.medium(3)
    assert (air.mua_per_mm, air.mus_per_mm, air.n, air.name) == (0.0, 0.0, 1.0, "air")
    assert filled.path is None
    with pytest.raises(InvalidInput, match="no cavities"):
        filled.with_air_in_cavities()
