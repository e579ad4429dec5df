"""A known transform is found again; figures say what is wrong; bad images are refused in a sentence."""

import sys
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.registration import RegistrationSettings, checkerboard, overlap, register, resampled
from tests.registration.samples import largest_error_mm, moved, needs_sitk, scan


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
