"""A known transform is found again; figures say what is wrong; bad images are refused in a sentence."""

import sys
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.registration import (
    RegistrationSettings,
    Transform,
    checkerboard,
    overlap,
    register,
    register_steps,
    resampled,
)
from napari_gpubio.registration.quality import doubts
from tests.registration.samples import bent, largest_error_mm, moved, needs_dipy, needs_sitk, scan

WARPED = RegistrationSettings(method="nonlinear")


@pytest.fixture(scope="module")
def rigid():
    needs_sitk()
    return register(moved().t1, moved().affine, scan().b0, scan().affine)


def test_a_rigid_transform_is_found_to_a_fifth_of_a_voxel(rigid):
    assert largest_error_mm(rigid.matrix, moved().truth) < 0.8
    assert rigid.notes == ()
    assert rigid.figures["mutual_information_after"] > 5 * rigid.figures["mutual_information_before"]
    assert rigid.figures["overlap_after"] > 0.95
    assert rigid.figures["least_displacement_mm"] > 80
    assert np.isclose(rigid.figures["determinant"], 1)
    assert len([*rigid.lines()]) == 4


def test_labels_keep_their_numbers_in_one_step(rigid):
    found = resampled(moved().labels, moved().affine, [rigid], scan().b0.shape, scan().affine, linear=False)
    assert found.dtype == np.int32
    assert set(np.unique(found)) == {0, 17, 12_000}
    assert overlap(found == 12_000, scan().labels == 12_000) > 0.9


@pytest.mark.long  # its parts are those of the rigid one
def test_an_affine_transform_is_found_and_its_scaling_doubted():
    needs_sitk()
    other = moved(zoom=(1.1, 0.92, 1.05))
    found = register(other.t1, other.affine, scan().b0, scan().affine, RegistrationSettings(method="affine"))
    assert largest_error_mm(found.matrix, other.truth) < 1.2
    assert any("another subject" in note for note in found.notes)


def test_a_mirrored_image_is_noticed():
    needs_sitk()
    coarse = RegistrationSettings(iterations=60)
    found = register(moved().t1, moved().affine, scan().b0[::-1], scan().affine, coarse)
    assert any("mirrored" in note for note in found.notes), found.figures


def test_images_that_are_none_are_refused():
    head, needed = scan(), needs_sitk()
    assert needed
    for array, words in (
        (np.zeros((8, 8, 8, 5)), "one volume"),
        (np.full((8, 8, 8), 7.0), "is 7 everywhere"),
        (head.labels, "holds labels"),
        (np.zeros((8, 8)), "one volume"),
    ):
        with pytest.raises(InvalidInput, match=words):
            register(array, head.affine, head.b0, head.affine, names=("t1.nii.gz", "dwi"))


def test_a_stopped_one_is_not_complete():
    needs_sitk()
    stop = threading.Event()
    stop.set()
    assert not register(moved().t1, moved().affine, scan().b0, scan().affine, stop=stop).complete


def test_without_the_library_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    with pytest.raises(InvalidInput, match=r"napari-gpubio\[registration\]"):
        register(moved().t1, moved().affine, scan().b0, scan().affine)


def test_blocks_of_both_in_turn():
    board = checkerboard(np.full((8, 8, 8), 5.0), np.arange(512.0).reshape(8, 8, 8), np.diag([2.0, 2, 2, 1]), 4.0)
    assert np.array_equal(board[:2, :2, :2], np.zeros((2, 2, 2)))  # the first image, which is even
    assert np.unique(board[:2, 2:4, :2]).size > 1


def errors_mm(transform):
    return np.linalg.norm(transform.moved(bent().centers) - bent().truth, axis=-1)


@pytest.fixture(scope="module")
def warped():
    needs_sitk(), needs_dipy()
    return register(bent().t1, scan().affine, bent().fixed, scan().affine, WARPED)


def test_a_warp_halves_the_errors_of_its_affine_part_and_has_an_inverse(warped):
    error, affine = errors_mm(warped), errors_mm(Transform(matrix=warped.matrix))
    assert error.mean() < 0.5 * affine.mean()
    assert np.percentile(error, 95) < 0.75 * np.percentile(affine, 95)
    back = warped.inverse().moved(warped.moved(bent().centers))
    assert np.linalg.norm(back - bent().centers, axis=-1).max() < 0.5  # an eighth of a voxel
    again = warped.inverse().inverse().moved(bent().centers)
    np.testing.assert_allclose(again, warped.moved(bent().centers), atol=1e-3)
    assert warped.figures["least_jacobian"] > 0
    assert warped.figures["mutual_information_after"] > 1.1 * warped.figures["mutual_information_affine"]
    assert warped.notes == ()
    assert len([*warped.lines()]) == 5


def test_labels_follow_a_warp(warped):
    def carried(transform):
        labels = resampled(bent().labels, scan().affine, [transform], scan().b0.shape, scan().affine, linear=False)
        return overlap(labels == 12_000, scan().labels == 12_000)

    assert carried(warped) > carried(Transform(matrix=warped.matrix)) + 0.03


def test_a_warp_has_the_same_bits_twice_and_ends_in_the_middle(warped):
    again = register(bent().t1, scan().affine, bent().fixed, scan().affine, WARPED)
    np.testing.assert_array_equal(again.warps[0].displacements, warped.warps[0].displacements)
    stop, steps = threading.Event(), 0
    work = register_steps(bent().t1, scan().affine, bent().fixed, scan().affine, WARPED, stop=stop)
    while True:
        try:
            steps += next(work).message.startswith("bending")
        except StopIteration as end:
            found = end.value
            break
        if steps == 2:
            stop.set()
    assert steps < 6
    assert not found.complete
    assert found.warps == ()


def test_a_warp_that_cannot_be_is_doubted(warped):
    for figure, value, words in (
        ("least_jacobian", -0.2, "folds"),
        ("largest_warp_mm", 30.0, "30 mm"),
        ("mutual_information_affine", warped.figures["mutual_information_after"], "hardly grew"),
    ):
        (note,) = doubts({**warped.figures, figure: value}, "nonlinear")
        assert words in note


def test_a_warp_to_an_image_without_the_tissues_is_doubted():
    """Of which there is noise and an outline only."""
    needs_sitk(), needs_dipy()
    noise = np.random.default_rng(5).normal(100, 10, scan().b0.shape) * (scan().b0 > 0)
    found = register(bent().t1, scan().affine, noise, scan().affine, WARPED)
    assert any("hardly grew" in note for note in found.notes), found.figures


def test_images_that_cannot_be_bent_are_refused(monkeypatch):
    needs_sitk()
    thin = scan().t1[:, :, 20:26]
    with pytest.raises(InvalidInput, match="6 voxels thin"):
        register(thin, scan().affine, thin, scan().affine, RegistrationSettings(method="nonlinear", iterations=2))
    monkeypatch.setitem(sys.modules, "dipy.align.imwarp", None)
    with pytest.raises(InvalidInput, match=r"dipy.*napari-gpubio\[registration\]"):
        register(bent().t1, scan().affine, bent().fixed, scan().affine, WARPED)
