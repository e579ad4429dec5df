"""The dock widget "Denoise" on a series of many volumes: one noise, in the run, the preview, and the script."""

import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core.napari_io import stored_array
from tests.denoise.gui.panel_samples import (
    SHAPE,
    add_series,
    look,
    noisy,
    number,
    result_layers,
    run,
    run_script_here,
    use,
)
from tests.denoise.gui.test_script import same, saved, written
from tests.dock_widgets import script_of, shown_by_script

VOLUMES = 12


def scan():
    """Volumes of the same anatomy, Gaussian enough."""
    noise = np.random.default_rng(6).normal(size=(*SHAPE, VOLUMES))
    return np.abs(noisy(sigma=0.0)[..., None] + 3 * noise).astype(np.float32)


@pytest.mark.daily
def test_the_run_the_note_and_the_script(viewer, panel, qtbot, tmp_path, monkeypatch):
    add_series(viewer, scan(), metadata=saved(scan(), tmp_path / "series.nii.gz"))
    panel.image_box.last.setValue(1)
    run(qtbot, panel, noise_model="rician", patches="small")
    found = denoise.noise.estimate(scan())
    assert found.sigma == pytest.approx(3, rel=0.1)
    clean, _, noise = result_layers(viewer, "series")
    assert np.unique(stored_array(noise)[..., :2]) == np.float32(found.sigma)
    assert "in the unit of the image" in panel.message
    assert f"across {VOLUMES} volumes" in panel.message
    assert number(panel, "Noise σ").startswith(f"{found.sigma:.3g}")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    assert all(same(*pair) for pair in zip(written(tmp_path, "series")[:1], (clean,), strict=True))


@pytest.mark.daily
def test_the_noise_of_some_volumes_is_that_of_all(viewer, panel, qtbot, tmp_path, monkeypatch):
    add_series(viewer, scan(), metadata=saved(scan(), tmp_path / "series.nii.gz"))
    panel.image_box.last.setValue(1)
    run(qtbot, panel, noise_model="rician", patches="small")
    text = run_script_here(panel, tmp_path, monkeypatch)
    assert "volumes=(0, 1)" in text
    made = denoise.open_volume(tmp_path / "denoised series.nii.gz").array
    assert np.array_equal(made, stored_array(viewer.layers["denoised series"]))
    found = denoise.noise.estimate(scan())
    settings = denoise.DenoiseSettings(noise_model="rician", patches=denoise.Small())
    size = denoise.open_volume(tmp_path / "series.nii.gz").voxel_size_mm
    expected = denoise.denoise(scan()[..., :2], settings, noise=found, voxel_size_mm=size, device="cpu").image
    assert np.array_equal(made[..., :2], expected)


def test_the_preview_has_the_noise_of_the_series_which_is_found_once(viewer, panel, qtbot, monkeypatch):
    calls = []
    estimate = denoise.noise.estimate
    monkeypatch.setattr("napari_gpubio.denoise.parts.estimate", lambda *a, **k: calls.append(1) or estimate(*a, **k))
    add_series(viewer, scan(), affine=np.eye(4))
    use(panel, noise_model="rician", patches="small")
    shown = look(qtbot, panel).data.copy()
    assert np.isfinite(shown).all()
    viewer.dims.set_current_step(1, 5)
    look(qtbot, panel)
    assert len(calls) == 1
