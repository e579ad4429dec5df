"""Fluence by depth and radius: the bins of layers, means of voxels, and their table."""

from types import SimpleNamespace

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered import LayeredSettings
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.light import depth_radius
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import Estimates, FluenceUnit
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Pencil


def voxel_run(values, position=(0.0, 0.0, 0.0), direction=(0.0, 0.0, 1.0)):
    """A run whose fluence is given; air lies above z = 1 mm."""
    affine = np.diag([0.5, 0.5, 0.5, 1.0])
    affine[:3, 3] = -2.0, -2.0, 0.25
    labels = np.ones(values.shape, np.uint8)
    labels[:, :, :2] = 0
    domain = Domain(labels=labels, affine=affine, media=(Medium(label=1, mua_per_mm=0.1, mus_per_mm=1.0),))
    run = LightResult.__new__(LightResult)
    held = {"domain": domain, "source": Pencil(position_mm=position, direction=direction)}
    vars(run).update(held, fluence=values.astype(np.float32), fluence_error=np.full(values.shape, 0.1, np.float32))
    return run


def test_bins_of_voxels_are_means_from_where_tissue_begins():
    i, j, k = np.indices((9, 9, 8))
    away = 0.5 * np.hypot(i - 4, j - 4)
    found = depth_radius({473.0: voxel_run(k + 100.0 * (away >= 0.5) * (away < 1.0))}, unit=FluenceUnit("mW/mm²", 10.0))
    np.testing.assert_allclose(found.z_mm[:3], [0.25, 0.75, 1.25])
    np.testing.assert_allclose(found.fluence[0, :, 0], 10 * np.arange(2, 8))  # the axis alone
    np.testing.assert_allclose(found.fluence[0, :, 1], 10 * (100 + np.arange(2, 8)))
    ring = np.count_nonzero((away >= 0.5) & (away < 1.0)) // 8
    np.testing.assert_allclose(found.error[0, :, 1], 10 * 0.1 / np.sqrt(ring), rtol=1e-6)
    assert found.unit == "mW/mm²"


def test_an_axis_across_the_grid_and_wavelengths_as_a_table(tmp_path):
    i, _, _ = np.indices((9, 9, 8))
    found = depth_radius(
        {473.0: voxel_run(i, (-9.0, 0.0, 2.25), (1.0, 0, 0)), 593.0: voxel_run(2 * i, (-9.0, 0, 2.25), (1, 0, 0))}
    )
    np.testing.assert_allclose(found.fluence[:, :, 0], [np.arange(9), 2 * np.arange(9)])
    found.write_csv(tmp_path / "a.csv")
    head, first, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert head == "wavelength_nm,z_mm,r_mm,fluence (1/mm2),standard_error"
    assert first == "473,0.25,0.25,0,0.1"
    assert len(rows) + 1 == found.fluence.size == len(found.to_dataframe())


def test_bins_of_layers_are_taken_as_they_are():
    run = LayeredResult.__new__(LayeredResult)
    settings = LayeredSettings(dr_mm=0.1, dz_mm=0.2, radial_bins=3, depth_bins=2)
    medium = SimpleNamespace(layers=(SimpleNamespace(mua_per_mm=0.5),), layers_at=lambda z: np.zeros(len(z), int))
    absorbed = Estimates(np.arange(6.0).reshape(3, 2), np.ones((3, 2)))
    vars(run).update(settings=settings, medium=medium, A_rz=absorbed)
    found = depth_radius({633.0: run})
    assert found.fluence[0].tolist() == (absorbed.value / 0.5).T.tolist()
    assert found.error[0].tolist() == [[2.0] * 3] * 2
    np.testing.assert_allclose(found.r_mm, [0.05, 0.15, 0.25])


def test_bad_input_gets_a_sentence():
    run = voxel_run(np.ones((9, 9, 8)))
    with pytest.raises(InvalidInput, match="no runs"):
        depth_radius({})
    with pytest.raises(InvalidInput, match="no tissue lies on the axis"):
        depth_radius({473.0: voxel_run(np.ones((9, 9, 8)), (50.0, 0, 0))})
    with pytest.raises(InvalidInput, match="different bins"):
        depth_radius({473.0: run, 593.0: voxel_run(np.ones((9, 9, 8)), (0, 0, 2.0))})
