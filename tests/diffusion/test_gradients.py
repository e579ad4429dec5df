"""FSL's gradient files: the convention, the layouts met in the wild, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.io.gradients import (
    fsl_to_world,
    read_fsl_gradients,
    tidy_gradients,
    world_to_fsl,
    write_fsl_gradients,
)
from tests.diffusion.tensor_samples import AFFINES, axes_of
from tests.fuzzing import fuzzed
from tests.sentences import says

SIX = np.array([[1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]]) / np.sqrt(2)


@pytest.fixture
def files(tmp_path):
    """Write bval and bvec text and give their paths."""

    def write(bval, bvec):
        paths = tmp_path / "a.bval", tmp_path / "a.bvec"
        for path, content in zip(paths, (bval, bvec), strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return paths

    return write


GOOD_BVAL = "0 1000 1000 2000"
GOOD_BVEC = "0 1 0 0\n0 0 1 0\n0 0 0 1\n"
ODD_WORDS = st.sampled_from([b"1e308", b"-1e-300", b"nan", b"\n", b"9" * 30, b"\x85", b"_1"])


def test_convention_by_hand():
    # LAS: the first voxel axis runs to the left, nothing is flipped.
    np.testing.assert_allclose(fsl_to_world([[1, 0, 0]], AFFINES["left-handed"]), [[-1, 0, 0]])
    # RAS: the first voxel axis runs to the right, and FSL turns it round.
    np.testing.assert_allclose(fsl_to_world([[1, 0, 0]], AFFINES["isotropic"]), [[-1, 0, 0]])
    np.testing.assert_allclose(fsl_to_world([[0, 0.6, 0.8]], AFFINES["isotropic"]), [[0, 0.6, 0.8]])
    # i runs to -y, j to +z, k to +x: determinant -6, so left-handed.
    np.testing.assert_allclose(fsl_to_world([[1, 2, 3]], AFFINES["swapped axes"]), [[3, -1, 2]])


@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_against_the_polar_decomposition(affine, tmp_path):
    world = SIX @ axes_of(affine, "fsl").T
    np.testing.assert_allclose(fsl_to_world(SIX, affine), world, atol=1e-14)
    np.testing.assert_allclose(world_to_fsl(world, affine), SIX, atol=1e-14)
    mirrored = affine @ np.diag(
        [-1, 1, 1, 1.0]
    )  # a mirrored copy of the voxels, as fslswapdim makes, has the same file
    np.testing.assert_allclose(fsl_to_world(SIX, mirrored), world, atol=1e-14)
    bvals, directions = np.array([0, 700.5, 1000, 1000, 2000, 3000, 1e-3]), np.vstack([[0, 0, 0], SIX])
    paths = tmp_path / "x.bval", tmp_path / "x.bvec"
    write_fsl_gradients(*paths, bvals, directions, affine)
    b, g, _, notes = read_fsl_gradients(*paths, 7, affine)
    np.testing.assert_allclose(b, bvals, rtol=1e-14)
    np.testing.assert_allclose(g, directions, atol=1e-14)
    assert notes == ()


@pytest.mark.parametrize(
    ("bval", "bvec", "note"),
    [
        (GOOD_BVAL, GOOD_BVEC, None),
        ("0,1000,1000,2000\n", GOOD_BVEC.replace(" ", ","), None),
        ("0\t1000\t1000\t2000\r\n\r\n", GOOD_BVEC.replace(" ", " \t ").replace("\n", "\r\n"), None),
        ("\ufeff" + GOOD_BVAL, "\ufeff" + GOOD_BVEC, None),
        ("0\n1000\n1000\n2000\n", GOOD_BVEC, "a.bval is a column"),
        (GOOD_BVAL, "0 0 0\n1 0 0\n0 1 0\n0 0 1\n", "a.bvec has a row for each volume"),
    ],
)
def test_layouts(files, bval, bvec, note):
    b, g, _, notes = read_fsl_gradients(*files(bval, bvec), 4, np.diag([-1.0, 1, 1, 1]))
    np.testing.assert_array_equal(b, [0, 1000, 1000, 2000])
    np.testing.assert_allclose(g, [[0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 1]], atol=1e-15)
    assert [n for n in notes if note and note in n] == list(notes)
    assert bool(notes) == bool(note)


def test_three_volumes_are_read_as_three_rows(files):
    _, g, _, notes = read_fsl_gradients(*files("1000 1000 1000", "0 0 1\n1 0 0\n0 1 0"), 3, np.diag([-1.0, 1, 1, 1]))
    np.testing.assert_allclose(g, [[0, 1, 0], [0, 0, 1], [-1, 0, 0]], atol=1e-15)
    assert notes == ()


@pytest.mark.parametrize(
    ("bval", "bvec", "sentence"),
    [
        ("0 1000 1000", GOOD_BVEC, "a.bval has 3 b-values and the image 4 volumes"),
        (GOOD_BVEC, GOOD_BVEC, "is it the bvec file"),
        ("", GOOD_BVEC, "a.bval is empty"),
        (GOOD_BVAL, " \n\n", "a.bvec is empty"),
        ("b: 0 1000 1000 2000", GOOD_BVEC, "'b:' where a number should be"),
        ("0 1000 -5 2000", GOOD_BVEC, "the b-value -5"),
        ("0 1e9 1e9 2e9", GOOD_BVEC, "in s/mm\\^2, from 0 to 1e6"),
        (GOOD_BVAL, GOOD_BVEC.replace("1", "nan"), "3 volumes .* b = 1000 .* no weighted volume"),
        (GOOD_BVAL, GOOD_BVEC.replace("1", "1e30"), "longer than 1000"),
        (GOOD_BVAL, "0 1 0\n0 0 1\n0 0 0\n", "3 rows of 3 numbers; for the image's 4 volumes it needs 3 rows of 4"),
        (GOOD_BVAL, "0 1 0 0\n0 0 1\n0 0 0 1\n", "rows of 4, 3, 4 numbers"),
        (b"\x00\x80", GOOD_BVEC, "a.bval is not a text in UTF-8"),
    ],
)
def test_refused(files, bval, bvec, sentence):
    paths = files(bval, bvec)
    with pytest.raises(InvalidInput, match=sentence) as refused:
        read_fsl_gradients(*paths, 4, np.eye(4))
    assert any(path.name in str(refused.value) for path in paths)
    paths[0].unlink()
    with pytest.raises(InvalidInput, match=r"a\.bval does not exist"):
        read_fsl_gradients(*paths, 4, np.eye(4))


@pytest.mark.parametrize(
    ("bval", "bvec", "usable", "fact"),
    [
        (GOOD_BVAL, "0 1 0 0\n0 0 0 0\n0 0 0 1\n", [1, 1, 0, 1], "volume 2 (counted from 0) has b = 1000"),
        (GOOD_BVAL, "0 1 nan 0\n0 0 0 0\n0 0 0 1\n", [1, 1, 0, 1], "volume 2 (counted from 0) has b = 1000"),
        ("0 1000 nan 2000", GOOD_BVEC, [1, 1, 0, 1], "volume 2 (counted from 0) has no b-value"),
        ("inf 1000 inf 2000", GOOD_BVEC, [0, 1, 0, 1], "2 volumes"),
        (GOOD_BVAL, GOOD_BVEC.replace("0 1 0 0\n", "nan 1 0 0\n"), [1, 1, 1, 1], "not needed: 1"),
    ],
)
def test_a_volume_that_cannot_be_used_is_left_out_and_noted(files, bval, bvec, usable, fact):
    found = read_fsl_gradients(*files(bval, bvec), 4, np.diag([-1.0, 1, 1, 1]))
    np.testing.assert_array_equal(found.usable, usable)
    assert says(" ".join(found.notes), fact)
    assert np.isfinite(found.bvals).all()
    assert np.isfinite(found.directions).all()


TIDY = {
    "long directions scale b as in MRtrix": (
        ([0, 3000, 3000, 3000], np.diag([1, 0.5, 1])[[0, 0, 1, 2]]),
        ([0, 3000, 750, 3000], [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        "lengths from 0.5 to 1",
    ),
    "rounding of lengths does not": (
        ([0, 1000, 1000, 1000], np.diag([1.009, 0.991, 1])[[0, 0, 1, 2]]),
        ([0, 1000, 1000, 1000], [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        "",
    ),
    "a low b keeps its direction, b = 0 loses it": (
        ([0, 5, 5, 1000], [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]),
        ([0, 5, 5, 1000], [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]),
        "",
    ),
    "b in another unit is noted": (([0, 1, 3], SIX[:3]), ([0, 1, 3], [[0, 0, 0], *SIX[1:3]]), "multiply it by 1000"),
}


@pytest.mark.parametrize(("given", "expected", "note"), TIDY.values(), ids=TIDY)
def test_tables_are_tidied(given, expected, note):
    b, g, _, notes = tidy_gradients(*given)
    np.testing.assert_array_equal(b, expected[0])
    np.testing.assert_allclose(g, expected[1], atol=1e-15)
    assert note in " ".join(notes)
    assert bool(notes) == bool(note)


def test_writing_refuses_what_cannot_be_read(tmp_path):
    paths = tmp_path / "x.bval", tmp_path / "x.bvec"
    with pytest.raises(InvalidInput, match="do not fit"):
        write_fsl_gradients(*paths, [0, 1], [[0, 0, 0]], np.eye(4))
    with pytest.raises(InvalidInput, match="not finite"):
        write_fsl_gradients(*paths, [np.nan], [[0, 0, 0]], np.eye(4))
    assert list(tmp_path.iterdir()) == []


@fuzzed(150)
@given(data=st.data())
def test_damaged_files_give_a_sentence_or_a_good_table(data, tmp_path_factory):
    texts = [bytearray(GOOD_BVAL.encode()), bytearray(GOOD_BVEC.encode())]
    for text in texts:
        for _ in range(data.draw(st.integers(0, 4))):
            at = data.draw(st.integers(0, len(text) - 1))
            text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | ODD_WORDS)
            text.extend(b" " if not text else b"")
    folder = tmp_path_factory.getbasetemp()
    paths = folder / "f.bval", folder / "f.bvec"
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    try:
        b, g, *_ = read_fsl_gradients(*paths, 4, AFFINES["rotated"])
    except InvalidInput:
        return
    assert b.shape == (4,)
    assert np.isfinite(b).all()
    lengths = np.linalg.norm(g, axis=1)
    assert ((np.abs(lengths - 1) < 1e-12) | (lengths == 0)).all()
