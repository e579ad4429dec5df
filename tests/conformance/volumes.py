"""Images of every shape and type, as File > Open and the engines' readers take them."""

import warnings

import nibabel as nib
import numpy as np

from napari_gpubio.core.layer_files import write_described
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import ReadingNote, note
from napari_gpubio.diffusion.io import read_mask, read_volume
from napari_gpubio.diffusion.napari_io import get_reader
from tests.conformance import Did, Rows

ROWS = Rows("Images")
OPEN = "File > Open"
AFFINE = np.diag([-2.0, 2, 2, 1])
TURNED = np.array([[0, 2.0, 0, 3], [-2, 0, 0, 5], [0, 0, 3, 7], [0, 0, 0, 1]])
SIZES = [1, 2, 2, 3, 1, 1, 1, 1]  # of NIfTI's pixdim
RANDOM = np.random.default_rng(4)
GRAY = RANDOM.integers(0, 200, (6, 5, 4)).astype(np.uint8)
INSIDE = (GRAY > 90).astype(np.uint8)
SERIES = RANDOM.integers(0, 2000, (6, 5, 4, 6)).astype(np.int16)
BLOCK = np.zeros((8, 8, 8), np.int16)
BLOCK[2:6, 2:6, 2:4], BLOCK[2:6, 2:6, 4:6] = 10, 17


def write(folder, array, name="a.nii.gz", container=nib.Nifti1Image, affine=AFFINE, **header):
    """Write an image with nibabel; returns the path."""
    image = container(array, affine)
    for key, value in header.items():
        image.header[key] = value
    nib.save(image, folder / name)
    return folder / name


def opened(path):
    """Open a file as napari does; returns its layers, whose notes must be those that are shown."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always", ReadingNote)
        layers = get_reader(str(path))(str(path))
    warned = {note for one in shown for note in str(one.message).split("\n")}
    carried = {note for _, keywords, _ in layers for note in keywords["metadata"][KEY].get("notes", ())}
    assert warned <= carried
    assert all(any(each.endswith(note) for each in warned) for note in carried)
    return layers


def shows(trait, array, kind="image", did=Did.READ, facts=(), name="a.nii.gz", **written):
    """Add a row: an image is opened as one layer of a kind that has these values, transposed as napari shows them."""

    @ROWS.row(OPEN, trait, did, *facts)
    def _(folder):
        ((data, _, found),) = opened(write(folder, array, name, **written))
        assert found == kind
        squeezed = array.reshape(*(*array.shape, 1)[:3], *[n for n in array.shape[3:] if n > 1])
        np.testing.assert_array_equal(data, squeezed.T)


shows("a volume of bytes", GRAY)
shows("a volume of float32", GRAY.astype(np.float32) / 7)
shows("big-endian values", GRAY.astype(">f4"))
shows("two dimensions", GRAY[..., 0].astype(np.float32))
shows("a series (fMRI)", SERIES)
shows("a series of 6 volumes that are no tensors", SERIES.astype(np.float32))
shows("a series of 15 volumes that are no FODs", RANDOM.uniform(500, 900, (6, 5, 4, 15)).astype(np.float32))
shows("five dimensions, the fourth of length 1 (vectors)", SERIES[:, :, :, None, :4])
shows("five dimensions", RANDOM.normal(size=(4, 3, 5, 2, 4)).astype(np.float32))
shows("trailing axes of length 1", GRAY[..., None, None])
shows("an atlas of integers", BLOCK, "labels", Did.ASSUMED, ("labels", "Convert to Image"))
shows("a mask of bytes", (BLOCK > 0).astype(np.uint8), "labels", Did.ASSUMED, ("labels", "Convert to Image"))
shows("a mask of 0.0 and 1.0", (BLOCK > 0).astype(np.float32), "labels", Did.ASSUMED, ("labels", "Convert to Image"))
shows("a head of 8-bit grays is no atlas", GRAY)
shows("negative integers (CT) are no atlas", BLOCK - 1000)
shows("one value everywhere", np.full((4, 3, 2), 7, np.uint8), "labels", Did.ASSUMED, ("labels", "Convert to Image"))
shows("zeros everywhere", np.zeros((4, 3, 2), np.uint8))
shows("NaN and infinite values", np.array([np.nan, np.inf, -1, 2], np.float32).reshape(2, 2, 1))
shows("FreeSurfer's mgz", GRAY, name="a.mgz", container=nib.MGHImage)
shows("FreeSurfer's mgh, a series", SERIES.astype(np.float32), name="a.mgh", container=nib.MGHImage)
shows("a NIfTI pair (.img, .hdr)", GRAY, name="a.img", container=nib.Nifti1Pair)
shows("a NIfTI pair, by its header", GRAY, name="a.hdr", container=nib.Nifti1Pair)
shows("a compressed NIfTI pair (.img.gz)", GRAY, name="a.img.gz", container=nib.Nifti1Pair)
shows("a compressed NIfTI pair, by its header (.hdr.gz)", GRAY, name="a.hdr.gz", container=nib.Nifti1Pair)
shows("NIfTI-2", GRAY, container=nib.Nifti2Image)
shows("the intent of labels on scattered numbers", GRAY.astype(np.int16), "labels", Did.ASSUMED, ("labels",),
      intent_code=1002)  # fmt: skip


@ROWS.row(OPEN, "Analyze 7.5, which has no orientation", Did.ASSUMED, "no orientation", "left")
def _(folder):
    ((data, keywords, _),) = opened(write(folder, GRAY, "a.img", nib.AnalyzeImage))
    assert data.size == GRAY.size
    np.testing.assert_allclose(np.diag(np.abs(keywords["affine"]))[:3], 2)


@ROWS.row(OPEN, "colors (RGB24)", Did.READ)
def _(folder):
    rgb = np.zeros((4, 5, 3), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    rgb["G"] = 200
    ((data, keywords, _),) = opened(write(folder, rgb))
    assert keywords["rgb"]
    np.testing.assert_array_equal(data[0, 0, 0], [0, 200, 0])


@ROWS.row(OPEN, "colors (RGB24) of several volumes", Did.READ)
def _(folder):
    rgb = np.zeros((4, 5, 3, 2), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    rgb["G"][..., 1] = 200
    ((data, keywords, _),) = opened(write(folder, rgb))
    assert "rgb" not in keywords
    np.testing.assert_array_equal(data[:, :, 0, 0, 0], [[0, 0], [0, 200], [0, 0]])


def background(trait, array, kind, did, *facts):
    """Add a row: whole numbers with another background than 0."""

    @ROWS.row(OPEN, trait, did, *facts)
    def _(folder):
        ((data, _, found),) = opened(write(folder, array))
        assert found == kind
        np.testing.assert_array_equal(data, BLOCK.T if kind == "labels" else array.T)


background("a mask of 1 and NaN (SPM)", np.where(BLOCK, BLOCK, np.float32(np.nan)), "labels", Did.ASSUMED, "NaN", "(0)")
background("labels in a background of -1", np.where(BLOCK, BLOCK, np.int16(-1)), "labels", Did.ASSUMED, "no 0", "-1")
background(
    "labels times 1.00003 (a rounded slope)", BLOCK * np.float32(1.00003), "labels", Did.ASSUMED, "0.00051", "off"
)
background("diffusivities in mm^2/s, all near 0", BLOCK * np.float32(5e-5), "image", Did.READ)
background("a map of -1, 0 and 1", np.sign(BLOCK - 12) * (BLOCK > 0), "image", Did.READ)
background("huge whole numbers (1e30)", BLOCK * np.float32(1e30), "image", Did.READ)


@ROWS.row("read_mask", "real numbers that were fitted to integers (scl_slope, scl_inter)", Did.ASSUMED, "values from")
def _(folder):
    image = nib.Nifti1Image(np.where(BLOCK == 10, -0.3, BLOCK).astype(np.float32), AFFINE)
    image.set_data_dtype(np.int16)
    nib.save(image, folder / "a.nii")
    assert np.asarray(nib.load(folder / "a.nii").dataobj).all()
    np.testing.assert_array_equal(read_mask(folder / "a.nii", BLOCK.shape, AFFINE), BLOCK > 0)


@ROWS.row(OPEN, "labels of this package that another program has filled with fractions", Did.ASSUMED, "JSON", "float32")
def _(folder):
    write_described(folder / "a.nii", BLOCK, AFFINE, {"kind": "labels", "structures": {10: "x"}}, {})
    ((data, _, kind),) = opened(write(folder, BLOCK / np.float32(3), "a.nii"))
    assert kind == "image"
    np.testing.assert_array_equal(data, (BLOCK / np.float32(3)).T)


@ROWS.row(OPEN, "an atlas of a single sagittal slice", Did.ASSUMED, "labels")
def _(folder):
    ((_, _, kind),) = opened(write(folder, BLOCK[4:5]))
    assert kind == "labels"


@ROWS.row(OPEN, "tensors beside a table of as many rows, which the folder shares", Did.ASSUMED, "by chance", "tensors")
def _(folder):
    fsl_folder(folder)
    values = RANDOM.normal(0, 5e-5, (6, 5, 4, 6)).astype(np.float32)
    values[..., [0, 3, 5]] += [1.2e-3, 8e-4, 5e-4]
    layers = opened(write(folder, values, "dti_tensor.nii.gz"))
    assert [keywords["name"] for _, keywords, _ in layers] == ["dti_tensor FA", "dti_tensor DEC"]


@ROWS.row(OPEN, "masks beside a table of as many rows, which the folder shares", Did.ASSUMED, "by chance")
def _(folder):
    fsl_folder(folder)
    assert len(opened(write(folder, (SERIES > 1000).astype(np.uint8)))) == 1


@ROWS.row(OPEN, "complex values", Did.ASSUMED, "complex", "magnitude", "phase")
def _(folder):
    layers = opened(write(folder, (3 * np.exp(0.5j) * np.ones((4, 3, 2))).astype(np.complex64)))
    assert [keywords["name"] for _, keywords, _ in layers] == ["a magnitude", "a phase"]
    np.testing.assert_allclose(layers[0][0], 3, rtol=1e-6)
    np.testing.assert_allclose(layers[1][0], 0.5, rtol=1e-6)


@ROWS.row("read_volume", "complex values", Did.REFUSED, "complex64", "real numbers")
def _(folder):
    return read_volume(write(folder, np.ones((4, 3, 2), np.complex64)))


@ROWS.row("read_volume", "colors (RGB24)", Did.REFUSED, "real numbers")
def _(folder):
    return read_volume(write(folder, np.zeros((4, 5, 3), [("R", "u1"), ("G", "u1"), ("B", "u1")])))


@ROWS.row("read_volume", "a slope and an intercept (scl_slope)", Did.READ)
def _(folder):
    image = nib.Nifti1Image(GRAY.astype(np.int16), AFFINE)
    image.header.set_slope_inter(0.5, 10)
    image.header["scl_slope"], image.header["scl_inter"] = 0.5, 10
    nib.save(image, folder / "a.nii")
    values, _ = read_volume(folder / "a.nii")
    np.testing.assert_allclose(values, np.asarray(nib.load(folder / "a.nii").dataobj))
    assert not np.array_equal(values, GRAY)


@ROWS.row("read_volume", "a slope of 0, which NIfTI ignores", Did.READ)
def _(folder):
    path = write(folder, GRAY, "a.nii")
    raw = bytearray(path.read_bytes())
    raw[112:120] = np.array([0, 5], "<f4").tobytes()
    path.write_bytes(raw)
    np.testing.assert_array_equal(read_volume(path)[0], GRAY)


@ROWS.row("read_volume", "a series where one volume is needed", Did.REFUSED, "(6, 5, 4, 6)", "one volume")
def _(folder):
    return read_volume(write(folder, SERIES))


@ROWS.row(OPEN, "a file that ends too early", Did.REFUSED, "a.nii", "incomplete")
def _(folder):
    path = write(folder, GRAY, "a.nii")
    path.write_bytes(path.read_bytes()[:-20])
    opened(path)


@ROWS.row(OPEN, "a compressed file that is cut off", Did.REFUSED, "a.nii.gz", "again")
def _(folder):
    path = write(folder, RANDOM.integers(0, 255, (30, 30, 30)).astype(np.uint8))
    path.write_bytes(path.read_bytes()[:-500])
    opened(path)


def misnamed(trait, made, name, container=nib.Nifti1Image):
    """Add a row: a name that does not say whether the file is compressed."""

    @ROWS.row(OPEN, trait, Did.ASSUMED, name, "compressed, whatever its name")
    def _(folder):
        write(folder, GRAY, made, container).rename(folder / name)
        ((data, _, _),) = opened(folder / name)
        np.testing.assert_array_equal(data, GRAY.T)


misnamed("a compressed file named .nii", "b.nii.gz", "a.nii")
misnamed("an uncompressed file named .nii.gz", "b.nii", "a.nii.gz")
misnamed("a compressed file of FreeSurfer named .mgh", "b.mgz", "a.mgh", nib.MGHImage)
misnamed("an uncompressed file of FreeSurfer named .mgz", "b.mgh", "a.mgz", nib.MGHImage)


@ROWS.row(OPEN, "a compressed file named .nii that is cut off", Did.REFUSED, "a.nii")
def _(folder):
    path = write(folder, GRAY)
    (folder / "a.nii").write_bytes(path.read_bytes()[:100])
    opened(folder / "a.nii")


@ROWS.row(OPEN, "sizes that no memory holds", Did.REFUSED, "a.nii", "declares")
def _(folder):
    path = write(folder, GRAY, "a.nii")
    raw = bytearray(path.read_bytes())
    raw[42:48] = np.array([32767] * 3, "<i2").tobytes()
    path.write_bytes(raw)
    opened(path)


@ROWS.row(OPEN, "an axis of length 0", Did.REFUSED, "a.nii")
def _(folder):
    path = write(folder, GRAY, "a.nii")
    raw = bytearray(path.read_bytes())
    raw[42:44] = np.array([0], "<i2").tobytes()
    path.write_bytes(raw)
    opened(path)


@ROWS.row(OPEN, "text under the name of an image", Did.REFUSED, "a.nii")
def _(folder):
    (folder / "a.nii").write_text("b = 0 and some more words\n" * 40)
    opened(folder / "a.nii")


@ROWS.row(OPEN, "a header without its .img", Did.REFUSED, "a.img")
def _(folder):
    write(folder, GRAY, "a.img", nib.Nifti1Pair)
    (folder / "a.img").unlink()
    opened(folder / "a.hdr")


# -- beside gradient tables -------------------------------------------------------------------------------------------


def fsl_folder(folder, volumes=6):
    """Write bvals and bvecs of a folder as FSL and the Human Connectome Project share them."""
    np.savetxt(folder / "bvals", [[0] + [1000] * (volumes - 1)], fmt="%d")
    np.savetxt(folder / "bvecs", np.eye(3)[:, np.arange(volumes) % 3])


@ROWS.row(OPEN, "a mask beside shared bvals and bvecs", Did.ASSUMED, "labels")
def _(folder):
    fsl_folder(folder)
    ((_, _, kind),) = opened(write(folder, (BLOCK > 0).astype(np.uint8), "nodif_brain_mask.nii.gz"))
    assert kind == "labels"


@ROWS.row(OPEN, "an FA map beside shared bvals and bvecs", Did.READ)
def _(folder):
    fsl_folder(folder)
    ((_, _, kind),) = opened(write(folder, GRAY.astype(np.float32) / 255, "dti_FA.nii.gz"))
    assert kind == "image"


@ROWS.row(OPEN, "a series of another length beside shared bvals", Did.ASSUMED, "not as a diffusion scan", "6", "5")
def _(folder):
    fsl_folder(folder, 5)
    ((data, _, _),) = opened(write(folder, SERIES))
    assert data.shape == (6, 4, 5, 6)


@ROWS.row(OPEN, "bvals without bvecs", Did.ASSUMED, "not as a diffusion scan", "bvec")
def _(folder):
    fsl_folder(folder)
    (folder / "bvecs").unlink()
    assert len(opened(write(folder, SERIES))) == 1


@ROWS.row(OPEN, "a scan beside shared bvals and bvecs", Did.ASSUMED, "folder", "bvals and bvecs")
def _(folder):
    fsl_folder(folder)
    layers = opened(write(folder, SERIES, "data.nii.gz"))
    assert [keywords["name"] for _, keywords, _ in layers] == ["data", "data b = 0 mean"]


@ROWS.row(OPEN, "72 masks at once: one note for all", Did.ASSUMED, "72 files", "labels")
def _(folder):
    paths = [str(write(folder, (BLOCK > 0).astype(np.uint8), f"bundle_{n}.nii")) for n in range(72)]
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always", ReadingNote)
        assert [kind for *_, kind in get_reader(paths)(paths)] == ["labels"] * 72
    for one in str(shown[0].message).split("\n"):
        note(one)


def foreign(name, tool):
    """Add a row: an image of a program whose format is not read."""

    @ROWS.row("read_volume", f"another format (`{name}`)", Did.REFUSED, tool, "NIfTI")
    def _(folder):
        (folder / name).write_bytes(b"0")
        return read_volume(folder / name)


foreign("a+orig.BRIK.gz", "3dAFNItoNIFTI")
foreign("a.mnc", "mnc2nii")
foreign("a.nhdr", "3D Slicer")
