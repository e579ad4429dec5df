"""The dock widget "Laser speckle": frames that were taken in the dark."""

import numpy as np
import pytest
import tifffile

from napari_gpubio.speckle import ContrastSettings, contrast, measure_dark
from napari_gpubio.speckle.gui.inputs import noise_text
from napari_gpubio.speckle.gui.layers import LIVE_MAP, LIVE_RAW
from napari_gpubio.speckle.settings import NoiseModel
from tests.dock_widgets import complaint, run_script, save_scripts_as, script_of, wait_until
from tests.speckle.gui.panel_samples import SHAPE, add_stack, choose_dark, layer, run, run_live, speckle

FRAMES = speckle(4)


def dark_frames(count=6, shape=SHAPE):
    """A level and a noise that differ from pixel to pixel."""
    rng = np.random.default_rng(2)
    level = rng.uniform(80, 120, shape)
    return np.rint(level + rng.normal(0, 3.0, (count, *shape))).astype(np.uint16)


DARK = dark_frames()


@pytest.fixture
def with_dark(viewer, panel, qtbot):
    """A stack of frames, and dark frames that are chosen and averaged."""
    add_stack(viewer, FRAMES + 100)
    add_stack(viewer, DARK, "dark")
    choose_dark(panel, qtbot)
    return panel


def test_the_noise_of_dark_frames_is_subtracted(viewer, with_dark, qtbot):
    panel = with_dark
    panel.contrast_box.noise.form.widget("gain").value = 0.2
    run(qtbot, panel)
    want = contrast(FRAMES + 100, ContrastSettings(), noise=measure_dark(DARK, gain=0.2), device="cpu")
    np.testing.assert_array_equal(viewer.layers["K of frames"].data, want.contrast)
    facts = viewer.layers["K of frames"].metadata["napari_gpubio"]
    assert facts["dark_frames"] == "dark"
    assert facts["parameters"]["noise"]["dark_map"] is True
    assert not viewer.layers["dark"].visible


def test_live_too(viewer, with_dark, qtbot):
    run_live(qtbot, with_dark)
    raw = layer(viewer, LIVE_RAW).data
    want = contrast(raw, ContrastSettings(), noise=measure_dark(DARK), device="cpu").index
    np.testing.assert_allclose(layer(viewer, LIVE_MAP).data, want, rtol=1e-6)


def test_the_measured_noise_is_described_and_stays_while_the_gain_changes(viewer, with_dark):
    box = with_dark.contrast_box.noise
    level, variance = DARK.mean(), DARK.var(axis=0, ddof=1).mean()
    assert f"mean {level:.4g} ADU)" in box.description.text()
    assert f"mean {variance:.4g} ADU²" in box.description.text()
    assert "not shot noise, which needs the gain" in box.description.text()
    before = box.model
    box.form.widget("gain").value = 0.5
    assert box.description.text().endswith("shot noise at 0.5 ADU per electron.")
    assert box.model.gain == 0.5
    assert box.model.dark_map is before.dark_map, "a live loop keeps its baseline as long as they are the same arrays"
    assert box.form.widget("dark_adu").native.isHidden()
    box.dark_box.setCurrentIndex(0)
    assert not box.form.widget("dark_adu").native.isHidden()
    assert "each pixel" not in box.description.text()


def test_typed_noise_is_described():
    assert noise_text(NoiseModel()) == "Nothing is subtracted."
    noise = NoiseModel(dark_adu=64.0, read_noise_adu=2.5, quantization=True, gain=0.3)
    assert noise_text(noise) == (
        "Subtracted: a dark level of 64 ADU, read noise of 2.5 ADU, rounding (1/12 ADU²), shot noise at 0.3 ADU per "
        "electron."
    )


@pytest.mark.parametrize(
    ("dark", "words"),
    [
        (dark_frames(shape=(20, 20)), "dark_map has shape (20, 20) and the frames (40, 56)"),
        (DARK[:1], "the dark frames have shape (1, 40, 56)"),
        (None, "the dark frames are the stack itself"),
    ],
    ids=["another region", "a single frame", "the stack itself"],
)
def test_dark_frames_that_cannot_be_used(viewer, panel, qtbot, dark, words):
    add_stack(viewer, FRAMES)
    if dark is not None:
        add_stack(viewer, dark, "dark")
    choose_dark(panel, qtbot, "frames" if dark is None else "dark")
    assert words in complaint(qtbot, panel)


def test_a_layer_that_is_changed_or_removed(viewer, with_dark, qtbot):
    box = with_dark.contrast_box.noise
    viewer.layers["dark"].data = DARK + 7
    wait_until(qtbot, lambda: f"mean {DARK.mean() + 7:.4g} ADU)" in box.description.text())
    viewer.layers.remove("dark")
    assert box.layer is None
    assert not box.model.has_noise


def test_the_script_reads_the_dark_frames(viewer, with_dark, qtbot, tmp_path, monkeypatch):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    with_dark.contrast_box.noise.form.widget("gain").value = 0.2
    run(qtbot, with_dark)
    text = script_of(with_dark)
    assert (tmp_path / "dark.tif").is_file()
    run_script(text, tmp_path)
    for name, expected in (("contrast", with_dark.result.maps.contrast), ("mask", with_dark.result.maps.mask)):
        np.testing.assert_array_equal(tifffile.imread(tmp_path / f"{name} of frames.tif"), expected)
