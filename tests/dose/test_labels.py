"""Labels and points against brute force."""

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import ByAccuracy, BySpacing, Dose, DvhSettings, LabelStructures, PointStructure, dvh
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import ROTATION, affine_of, linear_dose

SHAPE = (14, 11, 9)
RNG = np.random.default_rng(5)
VALUES = RNG.random(SHAPE) * 50
LABELS = RNG.integers(0, 4, SHAPE).astype(np.uint8)
AFFINE = affine_of((2.0, 3.0, 2.5), (5, -7, 11), ROTATION)
DOSE = Dose(values=VALUES, affine=AFFINE, unit="Gy")
ONE_EACH = DvhSettings(sampling=BySpacing(spacing_mm=4.0))  # larger than a voxel: its center is the only sample


def labels_of(array, affine=AFFINE, **more):
    return LabelStructures(labels=array, affine=affine, **more)


def check_voxels(found, values, voxel_cc):
    """A histogram of voxels that lie on those of the dose."""
    assert found.volume_cc == pytest.approx(values.size * voxel_cc, rel=1e-12)
    assert found.mean == pytest.approx(values.mean(), abs=5e-5)
    assert (found.least, found.largest) == (pytest.approx(values.min()), pytest.approx(values.max()))
    for dose in (5.0, 20.0, 43.0):
        assert found.volume_at(dose) == pytest.approx((values >= dose).sum() * voxel_cc, abs=2 * voxel_cc)


@pytest.mark.parametrize("lower", [0, 25], ids=["positive", "negative too"])
def test_voxels_on_the_dose_grid_are_counted_one_by_one(lower):
    dose = Dose(values=VALUES - lower, affine=AFFINE, unit="Gy")
    for found, value in zip(dvh(dose, labels_of(LABELS), ONE_EACH, device="cpu"), (1, 2, 3), strict=True):
        assert found.name == f"label {value}"
        check_voxels(found, VALUES[value == LABELS] - lower, 15.0 / 1000)


def test_histograms_are_numpys():
    settings = DvhSettings(sampling=BySpacing(spacing_mm=4.0), bins=100)
    found = dvh(DOSE, labels_of(LABELS), settings, device="cpu")["label 2"]
    values = VALUES[LABELS == 2]
    counts, edges = np.histogram(values, bins=100, range=(0, VALUES.max()))
    volumes = found.differential(edges, relative_volume=False).volumes
    inner = slice(1, -1)  # the outermost bins end with the least and largest dose
    np.testing.assert_allclose(volumes[inner], counts[inner] * 0.015, atol=0.015 * 0.6)
    np.testing.assert_allclose(volumes.sum(), counts.sum() * 0.015)


def test_the_layout_in_memory_changes_nothing():
    """A layer of napari holds the transposed array."""
    turned = Dose(values=np.asfortranarray(VALUES), affine=AFFINE, unit="Gy")
    flipped = labels_of(LABELS[::-1, :, ::-1], AFFINE @ np.diag([-1.0, 1, -1, 1]) + _shift(AFFINE))
    expected = dvh(DOSE, labels_of(LABELS), ONE_EACH, device="cpu")
    for dose, labels in ((turned, labels_of(np.asfortranarray(LABELS))), (DOSE, flipped)):
        for a, b in zip(dvh(dose, labels, ONE_EACH, device="cpu"), expected, strict=True):
            assert a.volume_cc == b.volume_cc
            np.testing.assert_allclose(a.mean, b.mean, rtol=1e-6)
            np.testing.assert_allclose(a.dose_at_percent([2, 50, 98]), b.dose_at_percent([2, 50, 98]), atol=0.02)


def _shift(affine):
    move = np.zeros((4, 4))
    move[:3, 3] = affine[:3, 0] * (SHAPE[0] - 1) + affine[:3, 2] * (SHAPE[2] - 1)
    return move


def test_other_grids_are_interpolated_as_scipy_does():
    own = affine_of((1.1, 0.9, 1.3), (8, -4, 14), ROTATION.T)
    shape = (9, 12, 7)
    found = dvh(DOSE, whole_grid(shape, own), ONE_EACH, device="cpu")["everything"]
    cells = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, 3)
    index = (np.linalg.inv(AFFINE) @ own @ np.column_stack([cells, np.ones(len(cells))]).T)[:3]
    inside = ((index >= -0.5) & (index <= np.array(SHAPE)[:, None] - 0.5)).all(axis=0)
    values = map_coordinates(VALUES, index[:, inside], order=1, mode="nearest")
    assert 0 < inside.sum() < inside.size
    assert found.outside_cc == pytest.approx((~inside).sum() * np.prod([1.1, 0.9, 1.3]) / 1000, rel=1e-9)
    assert found.volume_at(1e-9) == pytest.approx(inside.sum() * np.prod([1.1, 0.9, 1.3]) / 1000, rel=1e-9)
    assert found.mean * found.volume_cc / found.volume_at(1e-9) == pytest.approx(values.mean(), abs=1e-4)
    assert found.largest == pytest.approx(values.max(), abs=1e-4)


def test_parts_of_voxels_follow_the_accuracy():
    """Coarse voxels in a steep dose: with one sample each the curve has steps, with parts it is straight."""
    dose = linear_dose((0.0, 0.0, 1.0))
    coarse = whole_grid((8, 8, 4), affine_of(6.0, (-21, -21, -9)))
    levels = np.linspace(29, 51, 200)
    expected = np.clip((52 - levels) / 24, 0, 1)
    one, many = (
        np.abs(dvh(dose, coarse, settings, device="cpu")["everything"].volume_at(levels) / 55.296 - expected).max()
        for settings in (
            DvhSettings(sampling=BySpacing(spacing_mm=6.0)),
            DvhSettings(sampling=ByAccuracy(accuracy_percent=0.05)),
        )
    )
    assert one > 0.1
    assert many < 0.0005


def test_several_label_volumes_may_overlap():
    twice = [labels_of(LABELS, structures={1: "a"}), labels_of(LABELS.astype(np.int64), structures={1: "b", 9: "none"})]
    result = dvh(DOSE, twice, ONE_EACH, device="cpu")
    assert result["a"].volume_cc == result["b"].volume_cc > 0
    assert result["none"].is_empty
    assert dvh(DOSE, labels_of(LABELS, structures={300: "far"}), ONE_EACH, device="cpu")["far"].is_empty


def test_points_stand_for_shares_of_a_volume():
    points = RNG.normal(size=(10_000, 3)) * 8
    dose = linear_dose((0.5, 0.5, 0.5))
    found = dvh(dose, PointStructure(name="p", points=points, volume_cc=3.0), device="cpu")["p"]
    values = 40 + points @ (0.5, 0.5, 0.5)
    assert found.volume_cc == pytest.approx(3.0)
    assert found.mean == pytest.approx(values.mean(), abs=1e-3)
    np.testing.assert_allclose(found.dose_at_percent([90, 50, 10]), np.percentile(values, [10, 50, 90]), atol=0.05)


def test_a_dose_of_one_slice():
    dose = Dose(values=VALUES[:, :, :1], affine=AFFINE, unit="Gy")
    found = dvh(dose, labels_of(np.ones((14, 11, 1), np.uint8)), ONE_EACH, device="cpu").dvhs[0]
    assert found.outside_cc == 0.0
    assert found.mean == pytest.approx(VALUES[:, :, 0].mean(), abs=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: labels_of(LABELS[0]), r"the labels have shape \(11, 9\)"),
        (lambda: labels_of(LABELS * 0.5), "the labels hold float64 values"),
        (lambda: labels_of(LABELS.astype(int) - 1), "the labels run from -1 to 2"),
        (lambda: labels_of(LABELS, structures={0: "air"}), "label 0 cannot be a structure"),
        (lambda: Dose(values=VALUES[0], affine=AFFINE, unit="Gy"), r"the dose has shape \(11, 9\)"),
        (lambda: Dose(values=np.where(VALUES > 49, np.inf, VALUES), affine=AFFINE, unit="Gy"), "are not finite"),
        (lambda: Dose(values=VALUES, affine=np.zeros((4, 4)), unit="Gy"), "cannot be inverted"),
        (lambda: Dose(values=VALUES, affine=AFFINE, unit=" "), "the unit of the dose is missing"),
        (lambda: PointStructure(name="p", points=np.zeros((3, 2)), volume_cc=1.0), r"have shape \(3, 2\)"),
        (lambda: PointStructure(name="p", points=np.full((3, 3), np.inf), volume_cc=1.0), "not finite"),
        (lambda: PointStructure(name="p", points=np.zeros((3, 3)), volume_cc=0.0), "give a positive volume"),
        (lambda: dvh(DOSE, []), "there is no structure"),
        (
            lambda: dvh(DOSE, labels_of(LABELS), DvhSettings(sampling=BySpacing(spacing_mm=0.002))),
            "samples a voxel, 0.002 mm apart",
        ),
        (lambda: DvhSettings(bins=5), "bins is 5; it must be at least 10"),
    ],
)
def test_bad_input_is_a_sentence(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
