"""Where files lie that tell no place, beside those that tell one: known voxel by voxel where that is asked for."""

import nibabel as nib
import numpy as np
from nibabel.streamlines import Tractogram as NibTractogram
from nibabel.streamlines import TrkFile

from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.core.space import same_grid
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.diffusion.io import read_atlas
from napari_gpubio.tractograms import maps
from napari_gpubio.tractograms.bundles import profile
from napari_gpubio.tractograms.connectome import Connectome, ConnectomeSettings, EndVoxels, connectome
from napari_gpubio.tractograms.dissection import dissect, through
from napari_gpubio.tractograms.io import read_tractogram, write_tractogram
from napari_gpubio.tractograms.io.blocks import open_blocks
from tests.conformance import Did, Rows
from tests.conformance.lines import LINES_TEXT as VTK_LINES
from tests.conformance.lines import POINTS, check, patched, tck_file, vtk_file
from tests.shell import run_verb

ROWS = Rows("Where files lie beside others")
READ, ASSUMED, REFUSED = Did.READ, Did.ASSUMED, Did.REFUSED
SHAPE = (24, 30, 20)
AFFINE = np.array([[-2.0, 0, 0, 21], [0, 2, 0, -30], [0, 0, 2.5, -12], [0, 0, 0, 1]])  # of no program's own choice
VOXELS = [np.outer(np.ones(9), (4 + n, 0, 6)) + np.outer(np.arange(9), (0, 3, 0)) for n in range(4)]
LINES = [(voxels @ AFFINE[:3, :3].T + AFFINE[:3, 3]).astype(np.float32) for voxels in VOXELS]
EXACT = ConnectomeSettings(assignment=EndVoxels())


def labels():
    """The first two fibers join regions 1 and 2, the others 1 and nothing."""
    found = np.zeros(SHAPE, np.int16)
    found[:12, :4], found[:6, -8:] = 1, 2
    return found


def volume(folder, name, affine=AFFINE, array=None):
    """Write labels, or an image; without an orientation if there is no affine."""
    image = nib.Nifti1Image(labels() if array is None else array, affine)
    if affine is None:
        image.header.set_zooms(np.linalg.norm(AFFINE[:3, :3], axis=0))
    nib.save(image, folder / name)
    return folder / name


def trk(folder, *, is_placed=True, order="LAS", name="a.trk"):
    header = {"voxel_to_rasmm": AFFINE, "voxel_sizes": (2, 2, 2.5), "dimensions": SHAPE, "voxel_order": order}
    TrkFile(NibTractogram(LINES, affine_to_rasmm=np.eye(4)), header=header).save(folder / name)
    return folder / name if is_placed else patched(folder / name, (440, bytes(64)))


def check_connected(found):
    """Two of the four fibers join the regions."""
    np.testing.assert_array_equal(found.matrix(), [[0, 2], [2, 0]])
    return found


# -- an atlas without an orientation -----------------------------------------------------------------------------------


@ROWS.row("connectome", "an atlas and fibers that tell their places", READ)
def _(folder):
    return check_connected(connectome(trk(folder), read_atlas(volume(folder, "a.nii")), EXACT))


@ROWS.row(
    "connectome", "an atlas without orientation", REFUSED, "a.nii has no orientation", "reference", "voxel by voxel"
)
def _(folder):
    return connectome(trk(folder), read_atlas(volume(folder, "a.nii", None)), EXACT)


@ROWS.row("connectome", "an atlas without orientation, with a reference", ASSUMED, "voxel by voxel in the reference")
def _(folder):
    atlas = read_atlas(volume(folder, "a.nii", None), reference=volume(folder, "t1.nii"))
    return check_connected(connectome(trk(folder), atlas, EXACT))


@ROWS.row("connectome", "an atlas without orientation, with the grid of the fibers", ASSUMED, "voxel by voxel")
def _(folder):
    fibers = read_tractogram(trk(folder))
    atlas = read_atlas(volume(folder, "a.nii", None), reference=(fibers.affine, fibers.shape))
    return check_connected(connectome(fibers, atlas, EXACT))


@ROWS.row("read_atlas", "no orientation, a reference of other voxels", REFUSED, "2 x 2 x 2.5", "1 x 1 x 1")
def _(folder):
    return read_atlas(volume(folder, "a.nii", None), reference=volume(folder, "t1.nii", np.eye(4)))


@ROWS.row("read_atlas", "an orientation, beside a reference: it is kept", READ)
def _(folder):
    atlas = read_atlas(volume(folder, "a.nii"), reference=volume(folder, "t1.nii", np.diag([2, 2, 2.5, 1])))
    np.testing.assert_array_equal(atlas.affine, AFFINE)
    return atlas


@ROWS.row("connectome", "a reference without orientation", REFUSED, "a.nii has no orientation")
def _(folder):
    atlas = read_atlas(volume(folder, "a.nii", None), reference=volume(folder, "t1.nii", None))
    return connectome(trk(folder), atlas, EXACT)


@ROWS.row("connectome", "fibers tracked in the scan of an atlas, both without orientation", ASSUMED, "no orientation")
def _(folder):
    atlas = read_atlas(volume(folder, "a.nii", None))
    turn = atlas.affine @ np.linalg.inv(AFFINE)
    lines = [line @ turn[:3, :3].T + turn[:3, 3] for line in LINES]
    header = {"voxel_to_rasmm": atlas.affine, "voxel_sizes": (2, 2, 2.5), "dimensions": SHAPE, "voxel_order": "LAS"}
    TrkFile(NibTractogram(lines, affine_to_rasmm=np.eye(4)), header=header).save(folder / "b.trk")
    check_connected(connectome(folder / "b.trk", atlas, EXACT))
    return atlas


@ROWS.row("dissect", "a region without orientation", REFUSED, "no orientation", "reference")
def _(folder):
    return dissect(trk(folder), through(read_atlas(volume(folder, "a.nii", None)).region(2)))


@ROWS.row("dissect", "a region without orientation, with a reference", ASSUMED, "voxel by voxel in the reference")
def _(folder):
    atlas = read_atlas(volume(folder, "a.nii", None), reference=volume(folder, "t1.nii"))
    assert dissect(trk(folder), through(atlas.region(2))).tolist() == [True, True, False, False]
    return atlas


# -- fibers of unknown place -------------------------------------------------------------------------------------------


@ROWS.row(
    "connectome", "a trk file without a matrix", REFUSED, "tells no place", "a.nii", "reference", "voxel by voxel"
)
def _(folder):
    return connectome(trk(folder, is_placed=False), read_atlas(volume(folder, "a.nii")), EXACT)


@ROWS.row("connectome", "a trk file without a matrix, with a reference", ASSUMED, "voxel by voxel in the reference")
def _(folder):
    fibers = read_tractogram(trk(folder, is_placed=False), reference=volume(folder, "t1.nii"))
    np.testing.assert_allclose(fibers.points, np.concatenate(LINES), atol=1e-4)
    check_connected(connectome(fibers, read_atlas(volume(folder, "a.nii")), EXACT))
    return fibers


@ROWS.row("read_tractogram (trk)", "no matrix, a reference with its axes in another order", ASSUMED, "voxel by voxel")
def _(folder):
    other = AFFINE @ nib.orientations.inv_ornt_aff(np.array([[2, 1], [0, -1], [1, 1]]), SHAPE)
    turned = nib.orientations.apply_orientation(labels(), np.array([[2, 1], [0, -1], [1, 1]]))
    reference = volume(folder, "t1.nii", other, turned)
    fibers = read_tractogram(trk(folder, is_placed=False), reference=reference)
    np.testing.assert_allclose(fibers.points, np.concatenate(LINES), atol=1e-4)
    assert fibers.shape == turned.shape
    return fibers


@ROWS.row(
    "read_tractogram (trk)", "no matrix, a reference of other voxels", ASSUMED, "not known", "2 x 2 x 2.5", "1 x 1"
)
def _(folder):
    fibers = read_tractogram(trk(folder, is_placed=False), reference=volume(folder, "t1.nii", np.eye(4)))
    np.testing.assert_allclose(fibers.lengths_mm(), 48)
    return fibers


@ROWS.row("read_tractogram (tck)", "of unknown place, with a reference", ASSUMED, "voxel by voxel in the reference")
def _(folder):
    write_tractogram(folder / "b.tck", read_tractogram(trk(folder, is_placed=False)))
    fibers = read_tractogram(folder / "b.tck", reference=volume(folder, "t1.nii"))
    np.testing.assert_allclose(fibers.points, np.concatenate(LINES), atol=1e-4)
    return fibers


@ROWS.row("connectome", "a tck file of unknown place, read in blocks", REFUSED, "tells no place")
def _(folder):
    write_tractogram(folder / "b.tck", read_tractogram(trk(folder, is_placed=False)))
    return connectome(folder / "b.tck", read_atlas(volume(folder, "a.nii")), EXACT)


@ROWS.row("read_tractogram (trk)", "no dimensions, axes as those of its matrix", ASSUMED, "dimensions [0, 0, 0]")
def _(folder):
    fibers = read_tractogram(patched(trk(folder), (6, bytes(6))))
    np.testing.assert_allclose(fibers.points, np.concatenate(LINES), atol=1e-4)
    check_connected(connectome(fibers, read_atlas(volume(folder, "a.nii")), EXACT))
    return fibers


@ROWS.row("read_tractogram (trk)", "no dimensions, an axis against that of its matrix", ASSUMED, "not known", "lengths")
def _(folder):
    fibers = read_tractogram(patched(trk(folder, order="RAS"), (6, bytes(6))))
    np.testing.assert_allclose(fibers.lengths_mm(), 48, rtol=1e-5)
    return fibers


@ROWS.row("dissect", "a trk file without a matrix", REFUSED, "tells no place", "reference")
def _(folder):
    return dissect(trk(folder, is_placed=False), through(read_atlas(volume(folder, "a.nii")).region(1)))


@ROWS.row("density", "a trk file without a matrix, in its own volume", ASSUMED, "not known")
def _(folder):
    fibers = read_tractogram(trk(folder, is_placed=False))
    assert maps.density(fibers, device="cpu").sum() == 4 * 25
    return fibers


@ROWS.row("density", "a trk file without a matrix, in an image", REFUSED, "tells no place")
def _(folder):
    return maps.density(read_tractogram(trk(folder, is_placed=False)), shape=SHAPE, affine=AFFINE)


@ROWS.row("profile", "a trk file without a matrix, along an image", REFUSED, "tells no place")
def _(folder):
    return profile(read_tractogram(trk(folder, is_placed=False)), np.ones(SHAPE), AFFINE)


@ROWS.row("write_tractogram (vtk)", "fibers of unknown place", ASSUMED, "vtk cannot store")
def _(folder):
    write_tractogram(folder / "b.vtk", read_tractogram(trk(folder, is_placed=False)))


# -- fibers without a volume -------------------------------------------------------------------------------------------


def _boxed(reader, trait, make, suffix):
    @ROWS.row(reader, trait, ASSUMED, "belong to no volume", "box of 1 mm")
    def _(folder):
        write_tractogram(folder / f"b{suffix}", read_tractogram(make(folder)))
        again = check(read_tractogram(folder / f"b{suffix}"))
        if suffix == ".trk":
            theirs = nib.streamlines.load(folder / "b.trk")
            np.testing.assert_allclose(theirs.streamlines.get_data(), POINTS, atol=1e-4)
            np.testing.assert_allclose(theirs.header["voxel_to_rasmm"], again.affine)
        return again


_boxed("write_tractogram (trk)", "fibers of a tck file, which has no volume", tck_file, ".trk")
_boxed("write_tractogram (trx)", "fibers of a tck file, which has no volume", tck_file, ".trx")
_boxed("write_tractogram (trk)", "fibers of a vtk file, which has no volume", lambda f: vtk_file(f, VTK_LINES), ".trk")


@ROWS.row("write_tractogram (trk)", "fibers of a tck file, with a reference", READ)
def _(folder):
    fibers = read_tractogram(tck_file(folder), reference=volume(folder, "t1.nii"))
    write_tractogram(folder / "b.trk", fibers)
    assert same_grid(SHAPE, AFFINE, fibers.shape, fibers.affine)
    return check(read_tractogram(folder / "b.trk"))


# -- grids -------------------------------------------------------------------------------------------------------------


@ROWS.row("read_tractogram (tck)", "an image of MRtrix as its reference", READ)
def _(folder):
    write_mif(folder / "t1.mif", labels(), AFFINE)
    read = check(read_tractogram(tck_file(folder), reference=folder / "t1.mif"))
    assert same_grid(SHAPE, AFFINE, read.shape, read.affine)
    return read


@ROWS.row("same_grid", "voxels of 1 micrometer, moved by half of one", READ)
def _(folder):
    affine = np.diag([1e-3, 1e-3, 1e-3, 1])
    moved = affine.copy()
    moved[0, 3] = 5e-4
    assert not same_grid(SHAPE, affine, SHAPE, moved)
    moved[0, 3] = 5e-7
    assert same_grid(SHAPE, affine, SHAPE, moved)


@ROWS.row("same_grid", "an sform and the qform of the same image of 256 voxels, in float32", READ)
def _(folder):
    turn = nib.eulerangles.euler2mat(0.3, -0.2, 0.1)
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * (0.9375, 0.9375, 1.2), (-119.3, -97.6, -133.1)
    image = nib.Nifti1Image(np.zeros((256, 256, 160), np.uint8), affine)
    image.set_sform(None, 0)
    image.set_qform(affine, 1)
    nib.save(image, folder / "a.nii")
    assert same_grid(image.shape, affine, image.shape, read_volume(folder / "a.nii")[1])


@ROWS.row("open_blocks (tck)", "no volume: the box has all points", READ)
def _(folder):
    with open_blocks(tck_file(folder)) as blocks:
        assert blocks.part(0, 1).shape == read_tractogram(folder / "a.tck").shape


# -- the shell ---------------------------------------------------------------------------------------------------------


@ROWS.row("napari-gpubio connectome", "an atlas without orientation", REFUSED, "no orientation", "--reference")
def _(folder):
    run_verb("connectome", trk(folder), "--atlas", volume(folder, "a.nii", None), "--out", folder / "m.csv")


@ROWS.row("napari-gpubio connectome --reference", "an atlas without orientation", ASSUMED, "voxel by voxel")
def _(folder):
    files = trk(folder), "--atlas", volume(folder, "a.nii", None)
    more = "--reference", volume(folder, "t1.nii"), "--assignment", "end voxels", "--connectome-out", folder / "m.npz"
    assert run_verb("connectome", *files, *more) == 0
    check_connected(Connectome.load(folder / "m.npz"))


@ROWS.row("napari-gpubio dissect --reference", "a trk file without a matrix", ASSUMED, "voxel by voxel")
def _(folder):
    region, out = f"{volume(folder, 'a.nii')}:2", folder / "b.trk"
    more = "--include", region, "--reference", folder / "a.nii", "--out", out, "--device", "cpu"
    assert run_verb("dissect", trk(folder, is_placed=False), *more) == 0
    np.testing.assert_allclose(read_tractogram(out).points, np.concatenate(LINES[:2]), atol=1e-4)


@ROWS.row("napari-gpubio bundles", "an image without orientation, as many voxels", ASSUMED, "voxel by voxel")
def _(folder):
    image = volume(folder, "fa.nii", None, np.broadcast_to(np.arange(24, dtype=np.float32)[:, None, None], SHAPE))
    assert run_verb("bundles", trk(folder), "--image", f"FA={image}", "--out", folder / "t.csv") == 0
    names, row = ((folder / "t.csv").read_text().splitlines()[n].split(",") for n in range(2))
    assert abs(float(dict(zip(names, row, strict=True))["FA_mean"]) - 5.5) < 1e-4
