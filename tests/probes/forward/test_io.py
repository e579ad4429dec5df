"""Files of forward models: netCDF that xarray and cedalion read, sparse archives, surfaces, atlases."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.probes.forward import Surface, forward_model, write_adot, write_model, write_npz
from napari_gpubio.probes.forward import io as forward_io
from tests.probes.forward.samples import FEW, SHAPE, block, probe

h5py = pytest.importorskip("h5py", reason="h5py is absent: python -m pip install h5py")


@pytest.fixture(scope="module")
def model():
    settings = dataclasses.replace(FEW, threshold=0.05, photons=3200)
    return forward_model(block(), probe(), settings, device="cpu")


def scales(dataset):
    """Names of the dimensions of a dataset, from the scales that netCDF has for them."""
    return [dimension[0].name.strip("/") for dimension in dataset.dims]


@pytest.mark.daily
def test_netcdf_has_what_cedalion_expects(model, tmp_path):
    path = tmp_path / "model.nc"
    write_adot(path, model)
    with h5py.File(path) as file:
        values = file["Adot"]
        assert scales(values) == ["channel", "vertex", "wavelength"]
        assert values.attrs["units"] == "mm"
        assert set(values.attrs["coordinates"].split()) == {"source", "detector", "is_brain", "parcel", "x", "y", "z"}
        assert file["channel"].asstr()[()].tolist() == ["S1D1", "S1D2", "S2D1"]
        assert file["source"].asstr()[()].tolist() == ["S1", "S1", "S2"]
        assert file["detector"].asstr()[()].tolist() == ["D1", "D2", "D1"]
        assert file["wavelength"][()].tolist() == [760.0, 850.0]
        assert scales(file["is_brain"]) == ["vertex"]
        assert file["is_brain"].attrs["dtype"] == "bool"
        brain = file["is_brain"][()].astype(bool)
        assert set(file["parcel"].asstr()[brain].tolist()) == {"gray matter"}
        assert set(file["parcel"].asstr()[~brain].tolist()) == {"scalp"}
        found, below = values[()], file["z"][()] > 5
    np.testing.assert_array_equal(brain, below)
    assert (found >= 0).all()
    for column, part in enumerate(model.parts):
        sums = model.matrix(part.wavelength_nm).sum(axis=1)
        np.testing.assert_allclose(found[:, :, column].sum(axis=1), sums, rtol=1e-5)
        # the mean path, but for what was dropped
        paths = part.label_paths_mm.sum(axis=1) * part.kept
        np.testing.assert_allclose(found[:, :, column].sum(axis=1), paths, rtol=1e-3)


def test_xarray_reads_it(model, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is absent: python -m pip install xarray h5netcdf")
    pytest.importorskip("h5netcdf", reason="h5netcdf is absent: python -m pip install h5netcdf")
    path = tmp_path / "model.nc"
    write_model(path, model)
    found = xarray.load_dataarray(path)
    assert found.dims == ("channel", "vertex", "wavelength")
    assert found.is_brain.dtype == bool
    assert found.sel(channel="S2D1", wavelength=850).sum() == pytest.approx(model.matrix(850).sum(axis=1)[2], rel=1e-5)


def test_an_atlas_names_the_parcels(model, tmp_path):
    atlas = np.zeros(SHAPE, np.int32)
    atlas[:22] = 7
    path = tmp_path / "model.nc"
    write_adot(path, model, brain=(), parcels=atlas, parcel_names={7: "left"})
    with h5py.File(path) as file:
        assert not file["is_brain"][()].any()
        left = file["x"][()] < 22
        assert set(file["parcel"].asstr()[left].tolist()) == {"left"}
        assert set(file["parcel"].asstr()[~left].tolist()) == {"0"}
    with pytest.raises(InvalidInput, match=r"the atlas has shape \(2, 2, 2\)"):
        write_adot(path, model, parcels=np.zeros((2, 2, 2)))


def test_voxels_are_gathered_at_the_nearest_vertex_of_their_kind(model, tmp_path):
    positions = np.array([(14.0, 15.0, 6.0), (28.0, 15.0, 6.0), (20.0, 15.0, 0.0)])
    surface = Surface(positions, np.array([True, True, False]))
    path = tmp_path / "model.nc"
    write_adot(path, model, surface=surface)
    with h5py.File(path) as file:
        found = file["Adot"][()]
        assert file["parcel"].asstr()[()].tolist() == ["brain", "brain", "scalp"]
    assert found.shape == (3, 3, 2)
    volume = model.volume("S1D1", 760)
    deep = np.asarray(model.head.labels) == 2
    assert found[0, 2, 0] == pytest.approx(volume[~deep].sum(), rel=1e-5)
    x = np.arange(SHAPE[0])[:, None, None] + 0.5
    assert found[0, 0, 0] == pytest.approx(volume[deep & (x < 21)].sum(), rel=1e-4)
    with pytest.raises(InvalidInput, match="no vertices of the scalp"):
        write_adot(path, model, surface=Surface(positions[:2], np.array([True, True])))


@pytest.mark.parametrize("compressed_bytes", [0, 1 << 30])
def test_numpy_and_scipy_read_the_archive(model, tmp_path, monkeypatch, compressed_bytes):
    monkeypatch.setattr(forward_io, "_COMPRESSED_BYTES", compressed_bytes)
    path = tmp_path / "model.npz"
    write_npz(path, model)
    with np.load(path, allow_pickle=False) as found:
        assert found["channels"].tolist() == ["S1_D1", "S1_D2", "S2_D1"]
        rows = found["values_850"], found["columns_850"], found["row_starts_850"]
        matrix = csr_array(rows, shape=tuple(found["matrix_shape"]))
        assert abs(matrix - model.matrix(850)).max() == 0
        np.testing.assert_array_equal(found["voxels"], model.voxels)
        np.testing.assert_array_equal(found["label_paths_mm_760"], model.parts[0].label_paths_mm)
        assert json.loads(str(found["about"]))["complete"] is True


def test_what_cannot_be_written_is_refused(model, tmp_path):
    with pytest.raises(InvalidInput, match=r"does not end in \.nc or \.npz"):
        write_model(tmp_path / "model.mat", model)
    with pytest.raises(InvalidInput, match="stopped before its end"):
        write_adot(tmp_path / "model.nc", dataclasses.replace(model, complete=False))
    dark = tuple(dataclasses.replace(p, values=p.values[:0], columns=p.columns[:0]) for p in model.parts)
    with pytest.raises(InvalidInput, match="no values"):
        write_adot(tmp_path / "model.nc", dataclasses.replace(model, parts=dark))
    assert not list(tmp_path.iterdir())
