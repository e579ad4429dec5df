"""The dock widget "Laser speckle": a whole stack, dark frames, and Copy as Python."""

import threading

import dask.array
import numpy as np
import pytest
import tifffile
from napari.layers import Image
from napari.layers._source import layer_source

from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast, measure_dark, register
from napari_gpubio.speckle.gui import run as stack_run
from napari_gpubio.speckle.gui.inputs import noise_text
from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP, LIVE_RAW
from napari_gpubio.speckle.gui.plots import STACK
from napari_gpubio.speckle.gui.sources import SimulatedPage, StackPage
from napari_gpubio.speckle.opening import HeldFrames
from napari_gpubio.speckle.regions import region_curves
from napari_gpubio.speckle.settings import Spatial, Squared
from tests.dock_widgets import error_after_run, run_script, save_scripts_as, script_of, shown_by_script, wait_until
from tests.sentences import says
from tests.speckle.gui.panel_samples import (
    SHAPE,
    add_stack,
    box,
    choose_dark,
    draw,
    layer,
    moving,
    run,
    run_live,
    simulate,
    speckle,
    start,
    stop,
)

FRAMES = speckle(8)


def shown(viewer):
    return [layer.name for layer in viewer.layers if layer.visible]


@pytest.mark.parametrize("kind", ["numpy", "dask", "float32"])
def test_maps_are_those_of_the_engine(viewer, panel, qtbot, kind):
    frames = FRAMES.astype(np.float32) if kind == "float32" else FRAMES
    if kind == "dask":
        frames = dask.array.from_array(FRAMES, chunks=(3, 20, 56))
    add_stack(viewer, frames)
    run(qtbot, panel)
    maps = contrast(FRAMES, ContrastSettings(), device="cpu")
    np.testing.assert_allclose(viewer.layers["SFI (1/s) of frames"].data, maps.index, rtol=1e-6)
    np.testing.assert_allclose(viewer.layers["K of frames"].data, maps.contrast, rtol=1e-6)
    assert shown(viewer) == ["SFI (1/s) of frames"]
    assert viewer.layers["K of frames"].axis_labels == ("frame", "y", "x")
    for name, part in (("K of frames", "contrast"), ("SFI (1/s) of frames", "index")):
        assert record_of(viewer.layers[name]) == panel.result.operation.output(part)


@pytest.mark.parametrize(("blocks", "first", "step"), [(False, 3, 1), (True, 3, 4)])
def test_maps_lie_at_the_last_frame_of_their_window(viewer, panel, qtbot, blocks, first, step):
    add_stack(viewer, scale=(0.5, 2, 2), translate=(7, 0, 0), frames=FRAMES)
    form = panel.contrast_box.form
    form.widget("mode").value, form.widget("frames").value, form.widget("blocks").value = "temporal", 4, blocks
    run(qtbot, panel)
    layer = viewer.layers["SFI (1/s) of frames"]
    assert tuple(layer.scale) == (0.5 * step, 2, 2)
    assert layer.translate[0] == 7 + 0.5 * first
    assert len(layer.data) == (2 if blocks else 5)
    np.testing.assert_allclose(panel.result.times_s[:2], np.array([first, first + step]) / 30)


def test_flow_relative_to_the_first_maps(viewer, panel, qtbot):
    add_stack(viewer, FRAMES)
    panel.map_box.baseline_maps.setValue(3)
    panel.contrast_box.choose_index("relative")
    run(qtbot, panel)
    k2 = contrast(FRAMES, ContrastSettings(index=Squared()), device="cpu").squared
    inner = (slice(None), slice(2, -2), slice(2, -2))
    got = viewer.layers["relative flow of frames"].data
    np.testing.assert_allclose(got[inner], (k2[:3].mean(axis=0, dtype=float) / k2)[inner], rtol=1e-5)


def test_frames_are_registered_as_far_as_they_can_be(viewer, panel, qtbot):
    frames = moving()
    frames[2] = np.random.default_rng(8).uniform(200, 2000, frames[2].shape)
    add_stack(viewer, frames)
    panel.contrast_box.registers.setChecked(True)
    run(qtbot, panel)
    registered = register(frames)
    assert registered.unmatched == (2,)
    assert registered.notes[0] in panel.message
    maps = contrast(registered.frames, ContrastSettings(), device="cpu")
    registered.clear_outside(maps)
    layer = viewer.layers["SFI (1/s) of frames"]
    np.testing.assert_array_equal(layer.data, maps.index)
    assert record_of(layer).of.recording.of.verb == "register-frames"


def test_a_single_frame(viewer, panel, qtbot):
    add_stack(viewer, FRAMES[0])
    run(qtbot, panel)
    assert viewer.layers["SFI (1/s) of frames"].data.shape == FRAMES.shape[1:]


def test_limits_are_rescaled_to_the_displayed_map_of_a_stack(viewer, panel, qtbot):
    add_stack(viewer, FRAMES * np.arange(1, 9, dtype=np.uint16)[:, None, None] // 8)
    run(qtbot, panel)
    viewer.dims.set_point(0, 5)
    panel.map_box.rescale_button.click()
    layer = panel.map_box.layer
    shown = layer.data[5][np.isfinite(layer.data[5])]
    np.testing.assert_allclose(layer.contrast_limits, np.percentile(shown, (1, 99)), rtol=1e-6)


def test_another_run_takes_the_place_of_the_first_and_saturated_places_are_marked(viewer, panel, qtbot):
    frames = FRAMES.copy()
    frames[:, 20, 30] = 65535
    add_stack(viewer, frames)
    run(qtbot, panel)
    mask = viewer.layers["not valid in frames"].data
    assert (mask[:, 18:23, 28:33] == 8).all()
    assert np.count_nonzero(mask) == 25 * len(frames)
    assert record_of(viewer.layers["not valid in frames"]) is None, "the border, which an operation makes too, is away"
    assert record_of(viewer.layers["SFI (1/s) of frames"]) is not None
    names = [layer.name for layer in viewer.layers]
    panel.contrast_box.form.widget("window").value = 7
    run(qtbot, panel)
    assert [layer.name for layer in viewer.layers] == names
    want = contrast(frames, ContrastSettings(mode=Spatial(window=7)), device="cpu").index
    np.testing.assert_array_equal(viewer.layers["SFI (1/s) of frames"].data, want)


def test_stop_keeps_what_was_done(viewer, panel, qtbot, held):
    add_stack(viewer, speckle(4, (1100, 1000)))  # a chunk of few frames
    panel.run_button.click()
    held.wait(qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=20_000):
        panel.run_button.click()
    assert "stopped" in panel.status
    done = np.isfinite(viewer.layers["K of frames"].data).any(axis=(1, 2))
    assert done.any()
    assert not done.all()


def test_curves_of_a_whole_stack(viewer, panel, qtbot, tmp_path):
    add_stack(viewer, FRAMES)
    panel.map_box.baseline_maps.setValue(2)
    run(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 25))
    course = panel.course_box.course
    assert panel.course_box.which.currentText() == STACK
    mask = np.zeros(FRAMES.shape[1:], bool)
    mask[5:20, 5:25] = True
    curve = region_curves(panel.result.maps, {"region 1": mask})[0]
    np.testing.assert_allclose(course.contrast_squared("region 1"), curve.k2)
    np.testing.assert_allclose(course.relative_flow("region 1"), curve.relative(slice(0, 2)))
    panel.course_box.mark_event()
    panel.course_box.write_csv(tmp_path / "a.csv")
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 1 + 8 + 1


# -- Copy as Python ---------------------------------------------------------------------------------------------------


@pytest.mark.daily
@pytest.mark.parametrize("index", ["none", "relative"])
def test_the_script_makes_the_same_maps(viewer, panel, qtbot, tmp_path, monkeypatch, index):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    add_stack(viewer, moving())
    panel.contrast_box.choose_index(index)
    panel.map_box.baseline_maps.setValue(2)
    panel.contrast_box.registers.setChecked(True)
    panel.contrast_box.form.widget("exposure_ms").value = 4
    panel.contrast_box.noise.form.set_value(NoiseModel(dark_adu=20.0, gain=0.01))
    run(qtbot, panel)
    run_script(script_of(panel), tmp_path)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "contrast of frames.tif"), panel.result.maps.contrast)
    if index != "none":
        got = tifffile.imread(tmp_path / f"{index} of frames.tif")
        np.testing.assert_array_equal(got, panel.result.maps.index)


@pytest.mark.daily
def test_the_script_makes_the_same_temporal_blocks(viewer, panel, qtbot, tmp_path, monkeypatch):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    frames = FRAMES.copy()
    frames[3, 7, 9] = 65535
    add_stack(viewer, frames)
    form = panel.contrast_box.form
    form.widget("mode").value, form.widget("frames").value, form.widget("blocks").value = "spatio-temporal", 4, True
    form.widget("window").value = 3
    panel.contrast_box.choose_index("ict")
    run(qtbot, panel)
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    for name, want in (("contrast", "K"), ("ict", "1/τ (1/s)")):
        shown = viewer.layers[f"{want} of frames"].data
        np.testing.assert_array_equal(tifffile.imread(tmp_path / f"{name} of frames.tif"), shown)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "mask of frames.tif"), panel.result.maps.mask)


@pytest.mark.daily
def test_the_script_of_a_recording_makes_the_maps_on_screen(viewer, panel, qtbot, tmp_path, monkeypatch):
    """Live frames are recorded, their file is opened, and its maps are made: by the panel, and by the script."""
    simulate(panel)
    panel.contrast_box.form.widget("exposure_ms").value = 2.5
    start(qtbot, panel, 1)
    panel.live_box.record_requested.emit(tmp_path / "run.tif")
    wait_until(qtbot, lambda: panel.runner.recording is not None and panel.runner.recording.written > 4)
    stop(qtbot, panel)
    wait_until(qtbot, lambda: not panel.runner.is_recording)
    frames = tifffile.imread(tmp_path / "run.tif")
    panel.source_box.choose(StackPage)
    panel.source_box.stack.layer_box.choose(viewer.add_layer(opened(tmp_path / "run.tif", frames)))
    run(qtbot, panel)
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "contrast of run.tif"), panel.result.maps.contrast)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "sfi of run.tif"), viewer.layers["SFI (1/s) of run"].data)


def opened(path, frames):
    """A file of frames, and the layer that napari's reader makes of it."""
    tifffile.imwrite(path, frames)
    with layer_source(path=str(path)):
        return Image(frames.copy(), name=path.stem)


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_stack_is_read_from_its_file_until_a_frame_is_changed(viewer, panel, tmp_path, place, monkeypatch):
    looked, output = [], stack_run.FramesSource.output
    monkeypatch.setattr(
        stack_run.FramesSource, "output", lambda *a: looked.append(threading.current_thread()) or output(*a)
    )
    stack = viewer.add_layer(opened(tmp_path / "rat.tif", FRAMES))
    assert f"file=file({str(tmp_path / 'rat.tif')!r}" in script_of(panel)
    assert len(looked) == 1
    assert looked[0] is not threading.main_thread()
    stack.data[place, 5, 5] += 1
    assert isinstance(panel.operation().recording.of, HeldFrames)


def test_a_large_recording_is_compared_in_parts(tmp_path, monkeypatch):
    frames = speckle(200, (8, 8))
    monkeypatch.setattr(stack_run, "MAX_COMPARED", frames.nbytes - 1)
    one = opened(tmp_path / "long.tif", frames)
    assert stack_run.FramesSource.of(one).is_in_file()
    one.data[40:160] = 0
    assert not stack_run.FramesSource.of(one).is_in_file()


def test_a_run_needs_a_stack(viewer, panel):
    panel.run_button.click()
    assert "there is no stack of frames" in panel.message
    panel.source_box.choose(SimulatedPage)
    panel.run_button.click()
    assert "choose 'open image stack' as the source" in panel.message


LIT = speckle(4) + 100


def dark_frames(count=6, shape=SHAPE):
    """A level and a noise that differ from pixel to pixel."""
    rng = np.random.default_rng(2)
    level = rng.uniform(80, 120, shape)
    return np.rint(level + rng.normal(0, 3.0, (count, *shape))).astype(np.uint16)


DARK = dark_frames()


@pytest.fixture
def with_dark(viewer, panel, qtbot):
    """A stack of frames, and dark frames that are chosen and averaged."""
    add_stack(viewer, LIT)
    add_stack(viewer, DARK, "dark")
    choose_dark(panel, qtbot)
    return panel


def test_the_noise_of_dark_frames_is_subtracted(viewer, with_dark, qtbot):
    panel = with_dark
    panel.contrast_box.noise.form.widget("gain").value = 0.2
    run(qtbot, panel)
    want = contrast(LIT, ContrastSettings(), noise=measure_dark(DARK, gain=0.2), device="cpu")
    np.testing.assert_array_equal(viewer.layers["K of frames"].data, want.contrast)
    made = record_of(viewer.layers["K of frames"]).of
    assert (made.dark.of.verb, made.dark.of.recording.of.title) == ("measure-dark", "dark")
    assert made.noise.gain == 0.2
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
    assert says(noise_text(noise), "dark level of 64 ADU", "2.5 ADU", "1/12 ADU²", "0.3 ADU per electron")


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
    add_stack(viewer, LIT)
    if dark is not None:
        add_stack(viewer, dark, "dark")
    choose_dark(panel, qtbot, "frames" if dark is None else "dark")
    assert words in error_after_run(qtbot, panel)


def test_a_layer_that_is_changed_or_removed(viewer, with_dark, qtbot):
    box = with_dark.contrast_box.noise
    viewer.layers["dark"].data = DARK + 7
    wait_until(qtbot, lambda: f"mean {DARK.mean() + 7:.4g} ADU)" in box.description.text())
    viewer.layers["dark"].data = DARK[:1]
    wait_until(qtbot, lambda: "two or more" in box.description.text())
    dark = viewer.layers["dark"]
    viewer.layers.remove("dark")
    assert box.layer == dark, "only a click changes what was chosen"
    box.dark_box.setCurrentIndex(0)
    assert box.layer is None
    assert not box.model.has_noise


@pytest.mark.daily
def test_the_script_reads_the_dark_frames(viewer, with_dark, qtbot, tmp_path, monkeypatch):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    with_dark.contrast_box.noise.form.widget("gain").value = 0.2
    run(qtbot, with_dark)
    text = script_of(with_dark)
    assert len([*tmp_path.glob("*.npy")]) == 2, "the frames, and the dark ones"
    shown_by_script(text, tmp_path, monkeypatch)
    for name, expected in (("contrast", with_dark.result.maps.contrast), ("mask", with_dark.result.maps.mask)):
        np.testing.assert_array_equal(tifffile.imread(tmp_path / f"{name} of frames.tif"), expected)
