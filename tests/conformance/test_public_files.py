"""The files that NiBabel and DIPY bring with them: all open, and hold what the packages' own readers find."""

import importlib.util
import warnings
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.diffusion import io as diffusion_io
from napari_gpubio.diffusion.io.dwi import find_gradient_files
from napari_gpubio.diffusion.io.gradients import world_to_fsl
from napari_gpubio.diffusion.napari_io import get_reader
from napari_gpubio.tractograms import io as tractograms_io

LACKING = ("analyze.hdr", "nifti1.hdr", "nifti2.hdr")  # headers without their images
NO_VOLUME = ("row_major.dconn.nii",)  # a matrix of connections (CIFTI)


def files_of(package, folder, *endings):
    """Files that a package brings; none where it is not installed."""
    spec = importlib.util.find_spec(package)
    where = Path(spec.origin).parent / folder if spec is not None and spec.origin else None
    found = sorted(where.iterdir()) if where is not None and where.is_dir() else []
    kept = [path for path in found if path.name.endswith(endings) and path.name not in (*LACKING, *NO_VOLUME)]
    missing = pytest.mark.skip(f"the installed {package} brings no such files")
    return [pytest.param(path, id=path.name) for path in kept] or [pytest.param(None, marks=missing)]


IMAGES = (".nii", ".nii.gz", ".mgz")
TRACKS = (".trk", ".tck")
NO_TRACKS = ("no_header_end.tck", "no_header_end_eof.tck", "no_magic_number.tck")  # that NiBabel refuses, too


@pytest.mark.parametrize(
    "path", [*files_of("nibabel", "tests/data", *IMAGES), *files_of("dipy", "data/files", *IMAGES)]
)
def test_images_are_those_of_nibabel(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingNote)
        layers = get_reader(str(path))(str(path))
    image = nib.load(path)
    values = np.asarray(image.dataobj)
    values = values.reshape(*values.shape[:3], *[n for n in values.shape[3:] if n > 1])
    data, ours = layers[0][0], layers[0][1]["metadata"][KEY]
    assert ours["shape"] == values.shape[:3]
    np.testing.assert_allclose(ours["affine"], image.affine, rtol=1e-6)
    shown = np.asarray(getattr(data, "source", data), np.float64)  # the volume itself where it is oblique
    np.testing.assert_allclose(np.sort(shown, axis=None), np.sort(values, axis=None), rtol=1e-6)


@pytest.mark.parametrize(
    "path", files_of("dipy", "data/files", "small_25.nii.gz", "small_64D.nii", "small_101D.nii.gz")
)
def test_gradient_tables_are_those_of_dipy(path):
    gradients = pytest.importorskip("dipy.io.gradients")
    bvals, vectors = gradients.read_bvals_bvecs(*map(str, find_gradient_files(path)))
    scan = diffusion_io.read_dwi(path)
    np.testing.assert_allclose(scan.bvals, bvals)
    vectors = np.nan_to_num(vectors) * (bvals > 0)[:, None]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(world_to_fsl(scan.directions, scan.affine) * lengths, vectors, atol=1e-12)


@pytest.mark.parametrize(
    "path", [*files_of("nibabel", "tests/data", *TRACKS), *files_of("dipy", "data/files", *TRACKS)]
)
def test_tractograms_are_those_of_nibabel(path):
    if path.name in NO_TRACKS:
        with pytest.raises(InvalidInput, match=path.name):
            tractograms_io.read_tractogram(path)
        return
    fibers, known = tractograms_io.read_tractogram(path), nib.streamlines.load(path).streamlines
    assert len(fibers) == len(known)
    for ours, theirs in zip(np.split(fibers.points, fibers.offsets[1:-1]), known, strict=False):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
