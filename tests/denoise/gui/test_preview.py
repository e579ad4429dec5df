"""The dock widget "Denoise": the preview of the slice on screen."""

import sys

import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core import warmup
from napari_gpubio.core.device import CPU
from napari_gpubio.core.napari_io import volume_of
from napari_gpubio.denoise.gui import checks, preview
from napari_gpubio.gui import processors
from tests.denoise.gui.panel_samples import (
    SAGITTAL,
    add_series,
    add_volume,
    look,
    names,
    noisy,
    result_layers,
    run,
    settle,
    use,
)
from tests.dock_widgets import MILLISECONDS, visible_windows

SHAPE = (34, 30, 28)


@pytest.fixture
def exact(panel):
    """Settings with which a slice depends on nothing but what is around it: one patch, no pre-selection."""
    use(panel, patches="small", preselection="none")
    return panel


@pytest.fixture
def shown(panel, monkeypatch):
    """Shapes and first voxels of all previews, which are shown in two steps: of the middle, and of the whole slice."""
    monkeypatch.setattr(preview, "QUICK_SECONDS", 0.0)
    seen = []

    def take():
        layer = panel.preview.layer
        seen.append((np.round(layer.data_to_world((0, 0, 0))).astype(int), layer.data.copy()))

    panel.preview.shown.connect(take)
    return seen


def place(viewer, layer, index):
    """Move the slices to an index of a layer."""
    viewer.dims.set_point(range(viewer.dims.ndim), layer.data_to_world(index))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 13])
def test_a_slice_is_what_a_run_gives(viewer, exact, qtbot, axis, at):
    image = add_volume(viewer, noisy(SHAPE), affine=SAGITTAL)
    viewer.dims.order = [axis, *[a for a in range(3) if a != axis]]
    index = [12, 11, 10]
    index[axis] = at
    place(viewer, image, index)
    layer = look(qtbot, exact)
    assert layer.data.shape[axis] == 1
    where = np.round(image.world_to_data(layer.data_to_world((0, 0, 0)))).astype(int)
    assert where[axis] == at
    assert np.delete(where, axis).max() == 0
    seen = layer.data.copy()
    run(qtbot, exact)
    whole = result_layers(viewer)[0].data
    np.testing.assert_allclose(seen, np.take(whole, [at], axis), rtol=1e-5)


@pytest.mark.parametrize("at", [16, 17])  # sub-bands take voxels in pairs
def test_the_middle_and_the_whole_are_nearly_what_a_run_gives(viewer, panel, qtbot, shown, at):
    """The middle reads no patches beyond its candidates, and both mix sub-bands of a slab only."""
    noise = 4.0
    image = add_volume(viewer, noisy(SHAPE, sigma=noise), affine=np.eye(4))
    place(viewer, image, (at, 0, 0))
    look(qtbot, panel)
    assert names(viewer) == ["scan", "denoised preview"]
    run(qtbot, panel)
    slice_of_run = result_layers(viewer)[0].data[at]
    (start, middle), (_, whole) = shown
    y, x = start[1:]
    assert middle.shape == (1, 16, 16)
    assert rms(middle[0] - slice_of_run[y : y + 16, x : x + 16]) < 0.03 * noise
    assert rms(whole[0] - slice_of_run) < 0.01 * noise


@pytest.mark.parametrize("at", [0, SHAPE[2] - 1])
@pytest.mark.parametrize(("search", "thickness"), [(1, 1.0), (1, 3.0), (3, 3.0), (3, 10.0)])
def test_slices_at_the_border_have_room_for_a_patch(viewer, panel, qtbot, shown, at, search, thickness):
    image = add_volume(viewer, noisy(SHAPE), affine=np.diag([1.0, 1.0, thickness, 1.0]))
    use(panel, search_radius=search)
    place(viewer, image, (at, 0, 0))
    look(qtbot, panel)
    assert [data.shape for _, data in shown] == [(1, 16, 16), (1, 30, 34)], panel.message


def rms(differences):
    return float(np.sqrt(np.mean(np.square(differences))))


def test_it_follows_the_slider_and_the_settings_while_it_is_live(viewer, exact, qtbot):
    image = add_volume(viewer, noisy(SHAPE), affine=np.eye(4))
    place(viewer, image, (5, 0, 0))
    exact.live_box.setChecked(True)
    settle(qtbot, exact)
    first = exact.preview.layer.data.copy()
    place(viewer, image, (9, 0, 0))
    settle(qtbot, exact)
    layer = exact.preview.layer
    assert layer.data_to_world((0, 0, 0))[0] == 9
    second = layer.data.copy()
    assert not np.array_equal(first, second)
    use(exact, search_radius=1)
    settle(qtbot, exact)
    assert not np.array_equal(exact.preview.layer.data, second)
    exact.live_box.setChecked(False)
    assert names(viewer) == ["scan"]
    place(viewer, image, (5, 0, 0))
    settle(qtbot, exact)
    assert names(viewer) == ["scan"]


def test_it_looks_like_the_image_and_leaves_the_choice_of_layer_alone(viewer, panel, qtbot):
    image = add_volume(viewer, contrast_limits=(30, 160), colormap="magma")
    viewer.layers.selection.active = image
    layer = look(qtbot, panel)
    assert layer.contrast_limits == [30, 160]
    assert layer.colormap.name == "magma"
    assert viewer.layers.selection.active.name == image.name
    assert panel.image_box.layer_box.count() == 1
    panel.toggle_before_after()
    assert not layer.visible


def test_the_volume_of_a_series_that_is_on_screen(viewer, exact, qtbot):
    image = add_series(viewer, affine=np.eye(4))
    place(viewer, image, (2, 7, 0, 0))
    layer = look(qtbot, exact)
    assert layer.data.shape == (1, 1, 18, 20)
    assert np.allclose(layer.data_to_world((0, 0, 0, 0))[:2], (2, 7))
    settings = denoise.DenoiseSettings(patches=denoise.Small(), preselection="none")
    expected = denoise.denoise(noisy(seed=2), settings, device="cpu").image
    np.testing.assert_allclose(layer.data[0, 0], expected[:, :, 7].T, rtol=1e-5)


def test_logarithms_and_a_mask(viewer, exact, qtbot):
    linear = 1e-9 * noisy(SHAPE)
    image = add_volume(viewer, np.log10(linear), affine=np.eye(4), metadata={"quantity": "log10 fluence"})
    mask = np.zeros(SHAPE, int)
    mask[5:30, 5:25, 5:25] = 1
    exact.image_box.mask_box.choose(viewer.add_labels(mask.T, name="mask"))
    place(viewer, image, (12, 0, 0))
    seen = look(qtbot, exact).data.copy()
    run(qtbot, exact)
    clean = volume_of(result_layers(viewer)[0])
    np.testing.assert_allclose(seen[0], clean[:, :, 12].T, rtol=1e-5)
    is_near = np.isclose(clean, np.log10(linear), rtol=1e-6)  # powers and logarithms round
    assert is_near[mask == 0].all()
    assert is_near[mask == 1].mean() < 0.5


def test_nothing_to_see_is_no_error(viewer, exact, qtbot):
    array = noisy(SHAPE)
    array[:, :, 8:] = 0
    image = add_volume(viewer, array, affine=np.eye(4))
    place(viewer, image, (20, 0, 0))
    assert not look(qtbot, exact).data.any()
    assert exact.message == ""


def test_no_slice_and_a_wrong_input_are_sentences(viewer, panel, qtbot):
    array = noisy()
    array[0, 0, 0] = -1
    image = add_volume(viewer, array)
    place(viewer, image, (0, 0, 0))
    use(panel, noise_model="rician")
    panel.preview_button.click()
    settle(qtbot, panel)
    assert "negative values" in panel.message
    viewer.dims.ndisplay = 3
    panel.preview_button.click()
    settle(qtbot, panel)
    assert names(viewer) == ["scan"]
    assert "2-D" in panel.status
    viewer.dims.ndisplay = 2
    use(panel, noise_model="gaussian")
    look(qtbot, panel)
    assert panel.message == ""


def test_it_goes_with_its_image_and_with_a_result(viewer, panel, qtbot):
    add_volume(viewer)
    look(qtbot, panel)
    run(qtbot, panel)
    assert "denoised preview" not in names(viewer)
    look(qtbot, panel)
    for name in ("scan", "denoised scan", "residual scan", "noise σ of scan"):
        viewer.layers.remove(name)
    settle(qtbot, panel)
    assert not names(viewer)


def test_a_run_has_the_machine_for_itself(viewer, panel, qtbot, held):
    add_volume(viewer)
    panel.run_button.click()
    held.wait(qtbot)
    panel.preview_button.click()
    panel.live_box.setChecked(True)
    qtbot.wait(30)
    assert held.runs == 1
    held.go.set()
    qtbot.waitUntil(lambda: not panel.running)


def test_it_waits_until_the_filter_is_compiled(viewer, panel, qtbot, monkeypatch):
    """With a cold cache it compiles nothing itself: a process does, and then the preview comes."""
    warm, process = [], "import sys; print(3, flush=True); sys.stdin.read()"
    monkeypatch.delenv(processors.DISABLED, raising=False)
    monkeypatch.setattr(warmup, "is_warm", lambda _: bool(warm))
    monkeypatch.setattr(warmup, "command", lambda *_: [sys.executable, "-c", process])
    add_volume(viewer)
    panel.live_box.setChecked(True)
    viewer.dims.set_point(0, 20.0)
    qtbot.waitUntil(lambda: "3 of" in panel.status, timeout=MILLISECONDS)
    assert not panel.preview.is_busy
    assert panel.preview.layer is None
    warm.append(True)
    with qtbot.waitSignal(panel.preview.shown, timeout=MILLISECONDS):
        panel.warmup_process.closeWriteChannel()


@pytest.mark.display
@pytest.mark.usefixtures("napari_in_tests")
def test_the_reference_case_times_every_step(qtbot, monkeypatch):
    before = visible_windows()
    took = checks.preview_ms(CPU, slices=2, side=24)
    assert len(took) == 2
    assert min(took) > 0
    qtbot.waitUntil(lambda: visible_windows() <= before)
    monkeypatch.setattr(checks, "preview_ms", lambda _: (10.0, 190.0))
    assert [finding.passed for finding in checks.CHECKS[0].run(CPU)] == [True, False]
