"""OME-Zarr and DICOM segmentations, as this program and others write them."""

import numpy as np
import zarr

from napari_gpubio.core.ome_zarr import read_ome_zarr, write_ome_zarr
from napari_gpubio.core.operations.volumes import open_volume
from napari_gpubio.dose.io import read_seg
from tests.conformance import Did, Rows
from tests.dose.dicom_files import save_ct

ROWS = Rows("OME-Zarr and DICOM segmentations")
TURNED = np.array([[-2.0, 0, 0, 90], [0, 0, 1.5, -100], [0, 2, 0, -70], [0, 0, 0, 1]])
VALUES = np.arange(120.0).reshape(1, 2, 3, 4, 5)


def image(folder, axes, values=VALUES, **scale):
    """An image as another program writes it, of version 0.4: one resolution, with names of axes and their units."""
    group = zarr.open_group(folder / "a.zarr", mode="w")
    group.create_array("0", data=values)
    steps = [{"type": kind, kind: numbers} for kind, numbers in scale.items()]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    group.attrs["multiscales"] = [{"axes": axes, "datasets": datasets}]
    return folder / "a.zarr"


def in_space(unit):
    return [{"name": "t"}, {"name": "c"}, *({"name": name, "type": "space", **unit} for name in "zyx")]


@ROWS.row("read_ome_zarr", "axes that are turned, as this program writes them", Did.READ)
def _(folder):
    write_ome_zarr(folder / "a.ome.zarr", VALUES[0, 0].T, TURNED)
    found = read_ome_zarr(folder / "a.ome.zarr")
    np.testing.assert_array_equal(found.affine, TURNED)
    np.testing.assert_array_equal(open_volume(folder / "a.ome.zarr").array, VALUES[0, 0].T)
    return found


@ROWS.row("read_ome_zarr", "channels, scale and shift in µm, version 0.4", Did.ASSUMED, "which side is left")
def _(folder):
    unit = {"unit": "micrometer"}
    found = read_ome_zarr(
        image(folder, in_space(unit), scale=[1, 1, 500, 20, 10], translation=[0, 0, 1000, 2000, 3000])
    )
    np.testing.assert_array_equal(found.array, VALUES[0].transpose(3, 2, 1, 0))
    np.testing.assert_allclose(found.affine[:3], [[0.01, 0, 0, 3], [0, 0.02, 0, 2], [0, 0, 0.5, 1]])
    assert not found.is_oriented
    return found


@ROWS.row("read_ome_zarr", "no unit of length", Did.ASSUMED, "no unit", "mm")
def _(folder):
    found = read_ome_zarr(image(folder, in_space({}), scale=[1, 1, 3, 2, 1]))
    np.testing.assert_allclose(np.diag(found.affine), [1, 2, 3, 1])
    return found


@ROWS.row("read_ome_zarr", "a plane", Did.REFUSED, "y, x", "z, y, x")
def _(folder):
    return read_ome_zarr(image(folder, [{"name": "y"}, {"name": "x"}], VALUES[0, 0, 0]))


@ROWS.row("read_ome_zarr", "several times and channels", Did.REFUSED, "t, c, z, y, x", "one other")
def _(folder):
    return read_ome_zarr(image(folder, in_space({}), np.zeros((2, 2, 3, 4, 5))))


@ROWS.row("read_ome_zarr", "a resolution that is not there", Did.REFUSED, "level 9")
def _(folder):
    return read_ome_zarr(image(folder, in_space({})), level=9)


@ROWS.row("read_ome_zarr", "a label image that is not there", Did.REFUSED, "label 'cells'")
def _(folder):
    return read_ome_zarr(image(folder, in_space({})), label="cells")


@ROWS.row("read_ome_zarr", "a folder of something else", Did.REFUSED, "no OME-Zarr image")
def _(folder):
    return open_volume(folder)


@ROWS.row("read_seg", "a CT slice", Did.REFUSED, "kind CT", "SEG")
def _(folder):
    return read_seg(save_ct(folder, np.zeros((2, 4, 4)))[0])
