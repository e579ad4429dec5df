"""Directions against tensors: right ones pass on every affine; wrong bases, frames and flips are found and named."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.fods.axis_check import agreeing, check_axes, check_fods
from napari_gpubio.diffusion.fods.frames import to_world_matrix
from napari_gpubio.diffusion.fods.harmonics import BASES, from_mrtrix, harmonics
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import TensorField
from tests.diffusion.tensor_samples import AFFINES, TURNS, axes_of, six, turned
from tests.sentences import says

EVERY_AFFINE = pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
SHAPE, LMAX = (10, 5, 10), 8
V1 = TURNS[:, :, 0].reshape(*SHAPE, 3)
TENSORS = six(turned((1.7e-3, 0.3e-3, 0.2e-3))).reshape(*SHAPE, 6)
TENSORS[0] = [1e-3, 1e-3, 1e-3, 0, 0, 0]  # isotropic: not compared
CAUSES = {"world": "in world axes", "fsl": "frame='fsl'", "voxel": "frame='voxel'"}


def tensors(affine):
    return TensorField(tensors=TENSORS, mask=np.ones(SHAPE, bool), affine=affine)


def fixels(directions, affine, frame="world"):
    """A field of two fixels in each voxel, the second of which would disagree."""
    several = np.stack([directions, np.roll(V1, 1, axis=0)], axis=3)
    sizes = np.broadcast_to([1.0, 0.5], (*SHAPE, 2))
    made = FixelField.from_dense(several, sizes, affine, parameters={"frame": frame})
    return dataclasses.replace(made, directions=made.directions * -1)  # either way along the fiber


def fods(affine, *, written=("mrtrix", "world"), read=("mrtrix", "world")):
    """Deltas that a program wrote in one basis and frame, and that were read in another one."""
    own = from_mrtrix(harmonics(V1.reshape(-1, 3) @ axes_of(affine, written[1]), LMAX), written[0])
    coefficients = own @ to_world_matrix(LMAX, *read, affine).T
    return FodField(
        coefficients=coefficients.reshape(*SHAPE, -1).astype(np.float32),
        mask=np.ones(SHAPE, bool),
        affine=affine,
        parameters={"basis": read[0], "frame": read[1]},
    )


@EVERY_AFFINE
def test_right_ones(affine):
    field = tensors(affine)
    check = check_axes(fixels(V1, affine), field)
    assert (check.ok, check.voxels, check.cause) == (True, 450, "")
    assert check.median_angle_deg < 0.1
    assert says(check.message, "agree", "450 voxels", "0.5", "0.0 degrees")
    check = check_fods(fods(affine), field)
    assert (check.ok, check.voxels) == (True, 450)
    assert check.median_angle_deg < 3


@pytest.mark.parametrize("affine", ["rotated", "sheared left-handed"])
@pytest.mark.parametrize("right", ["world", "fsl", "voxel"])
@pytest.mark.parametrize("wrong", ["world", "fsl", "voxel"])
def test_frames_of_fixels_are_named(right, wrong, affine):
    affine = AFFINES[affine]
    own = V1 @ axes_of(affine, right)  # as a program wrote them
    check = check_axes(fixels(own @ axes_of(affine, wrong).T, affine, wrong), tensors(affine))
    if np.allclose(axes_of(affine, right), axes_of(affine, wrong)):
        assert check.ok
    else:
        assert not check.ok
        assert f"frame='{right}'" in check.cause or np.linalg.det(affine[:3, :3]) < 0
        assert check.cause in check.message


@pytest.mark.parametrize("affine", ["rotated", "sheared left-handed"])
@pytest.mark.parametrize("right", ["world", "fsl", "voxel"])
@pytest.mark.parametrize("assumed", ["world", "fsl", "voxel"])
def test_a_frame_that_was_assumed_is_put_right(right, assumed, affine):
    affine = AFFINES[affine]
    own = V1 @ axes_of(affine, right)
    given = fixels(own @ axes_of(affine, assumed).T, affine, assumed)
    assert agreeing(given, tensors(affine)) is given  # the file, or the user, said it
    given = dataclasses.replace(given, parameters={"frame": assumed, "frame_assumed": True})
    found = agreeing(given, tensors(affine))
    assert check_axes(found, tensors(affine)).median_angle_deg < 0.1
    if not np.allclose(axes_of(affine, right), axes_of(affine, assumed)):
        assert says(found.notes[-1], "agree with the tensors", "0.0 degrees")
        np.testing.assert_allclose(axes_of(affine, found.parameters["frame"]), axes_of(affine, right), atol=1e-6)


def test_random_directions_stay_as_they_are():
    affine = AFFINES["rotated"]
    given = fixels(np.random.default_rng(0).normal(size=(*SHAPE, 3)), affine)
    given = dataclasses.replace(given, parameters={"frame": "world", "frame_assumed": True})
    assert agreeing(given, tensors(affine)) is given
    few = dataclasses.replace(tensors(affine), mask=np.zeros(SHAPE, bool))
    assert agreeing(given, few) is given


@EVERY_AFFINE
@pytest.mark.parametrize("change", ["-x, y, z", "x, -y, z", "x, y, -z", "y, x, z", "z, x, y"])
def test_flips_and_swaps_in_world_axes(change, affine):
    """The change named puts it right: what was wrong is its inverse."""
    words = change.split(", ")
    matrix = np.zeros((3, 3))
    for row, word in enumerate(words):
        matrix[row, "xyz".index(word[-1])] = -1 if word[0] == "-" else 1
    wrong = V1 @ matrix  # its change, (matrix @ wrong), is V1 again
    check = check_axes(fixels(wrong, affine), tensors(affine))
    assert not check.ok
    assert check.cause
    if affine is AFFINES["rotated left-handed"]:
        assert f"in the axes of the world their x, y, z should be {change};" in check.cause


@pytest.mark.parametrize("affine", ["rotated", "sheared left-handed"])
@pytest.mark.parametrize("basis", ["descoteaux", "descoteaux_legacy"])
@pytest.mark.parametrize("frame", ["world", "fsl"])
def test_bases_of_fods_are_named(basis, frame, affine):
    affine = AFFINES[affine]
    check = check_fods(fods(affine, written=(basis, frame)), tensors(affine))
    assert not check.ok
    assert check.median_angle_deg > 10
    assert f"basis='{basis}'" in check.cause
    assert "The FODs disagree with the tensors" in check.message
    assert "mrtrix" not in check.cause
    back = check_fods(fods(affine, written=("mrtrix", "world"), read=(basis, frame)), tensors(affine))
    assert "basis='mrtrix', frame='world'" in back.cause


@pytest.mark.parametrize("basis", BASES)
def test_fods_that_were_read_rightly(basis):
    affine = AFFINES["rotated"]
    assert check_fods(fods(affine, written=(basis, "fsl"), read=(basis, "fsl")), tensors(affine)).ok


def test_nothing_explains_random_directions():
    affine = AFFINES["rotated"]
    random = np.random.default_rng(0).normal(size=(*SHAPE, 3))
    check = check_axes(fixels(random, affine), tensors(affine))
    assert (check.ok, check.cause) == (False, "")
    assert "No other basis, frame or order of the axes explains it" in check.message
    assert 50 < check.median_angle_deg < 70


def test_too_few_voxels():
    affine = AFFINES["rotated"]
    field = tensors(affine)
    mask = np.zeros(SHAPE, bool)
    for count in (0, 19):
        mask.ravel()[50 : 50 + count] = True
        few = dataclasses.replace(field, tensors=np.where(mask[..., None], TENSORS, 0), mask=mask)
        for check in (check_axes(fixels(V1, affine), few), check_fods(fods(affine), few)):
            assert (check.ok, check.voxels) == (True, count)
            assert "could not be checked" in check.message
            assert np.isnan(check.median_angle_deg) == (count == 0)


def test_the_same_voxels_in_another_order():
    """MRtrix turns axes round on reading; a finer or smaller grid will do, too."""
    affine = AFFINES["rotated"]
    made = fods(affine)
    turned = affine @ [[0, -1, 0, SHAPE[0] - 1], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    values = np.flip(made.coefficients, axis=0).transpose(1, 0, 2, 3)
    other = dataclasses.replace(made, coefficients=values, mask=np.ones(values.shape[:3], bool), affine=turned)
    check = check_fods(other, tensors(affine))
    assert (check.ok, check.voxels) == (True, 450)
    part = dataclasses.replace(made, coefficients=made.coefficients[:5], mask=made.mask[:5])
    assert check_fods(part, tensors(affine)).voxels == 200


def test_grids_that_do_not_overlap_are_refused():
    affine = AFFINES["rotated"].copy()
    affine[0, 3] += 500
    for check, made in ((check_axes, fixels(V1, affine)), (check_fods, fods(affine))):
        with pytest.raises(InvalidInput, match="lie elsewhere than the tensors"):
            check(made, tensors(AFFINES["rotated"]))
