"""Sessions in the window: saved, opened in another viewer, results made again, drafts, views, and what is missing."""

import contextlib

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils.colormaps import AVAILABLE_COLORMAPS, Colormap

from napari_gpubio.core.layer_files import MEDIA, OUTSIDE_N, RECORD, STRUCTURES
from napari_gpubio.core.named_layers import label_names
from napari_gpubio.core.napari_io import KEY, grid_of, stored_array, volume_layer
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.operations.held_layers import parts_of
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.volumes import HeldVolume, Volume
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.denoise.gui import DenoisePanel
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.dose.operations import HeldContours
from napari_gpubio.dose.structures.contours import contour_structure
from napari_gpubio.gui.operation_form import layers_showing
from napari_gpubio.gui.session_panel import SessionPanel
from napari_gpubio.gui.views import camera_of
from tests.dock_widgets import docked, press_and_wait, save_scripts_as, script_of, until_the_end, wait_until
from tests.gui.drawn_layers import corners, drawn_layers
from tests.gui.sixth_engine import AFFINE, VALUES, Absolute, ThresholdPanel, add, kept, run, use


@pytest.fixture
def viewer(napari_in_tests):
    """A viewer without a window."""
    return ViewerModel()


@pytest.fixture
def panel(viewer, qtbot):
    """A panel with an image from no file, and a painted mask."""
    panel = docked(viewer, ThresholdPanel(viewer), "Threshold")
    panel.choose_device("cpu")
    add(viewer)
    labels = viewer.add_labels((VALUES > 0.3).T.astype(np.uint8), name="painted", scale=(1, 1, 2))
    panel.form.boxes["mask"].choose(labels)
    run(qtbot, panel, value=0.5)
    yield from until_the_end(qtbot, viewer, panel)


@pytest.fixture
def session(viewer, panel, qtbot):
    yield from until_the_end(qtbot, viewer, SessionPanel(viewer))


@pytest.fixture
def make_other(qtbot):
    """A function that makes a panel of sessions in another viewer."""
    panels = []

    def make(viewer=None):
        panels.append(SessionPanel(viewer or ViewerModel()))
        panels[-1].choose_device("cpu")
        qtbot.addWidget(panels[-1])
        return panels[-1]

    yield make
    for panel in panels:
        panel.teardown()


def after(qtbot, panel, act, *arguments, **options):
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        act(*arguments, **options)


def open_in(qtbot, panel, path, **options):
    STORE.clear()
    after(qtbot, panel, panel.open, path, **options)
    return panel.viewer


def test_what_is_saved_comes_back_and_results_are_made_again(viewer, panel, session, make_other, qtbot, tmp_path):
    layer = panel.layer_of("kept")
    layer.opacity, layer.contrast_limits, layer.name = 0.25, (0.0, 0.5), "bright"
    layer.colormap = "viridis"
    viewer.layers["painted"].contour = 2
    viewer.layers["painted"].metadata[KEY] = {STRUCTURES: {1: "bright", 7: "not there"}}
    plane = viewer.add_image(np.arange(6.0).reshape(2, 3), name="plane", scale=(2, 3), translate=(1, 4), rotate=90)
    viewer.dims.ndisplay = 3
    camera_of(viewer).angles = (10.0, 20.0, 30.0)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    assert "5 layers" in session.status
    other = make_other()
    runs = STORE.runs
    opened = open_in(qtbot, other, tmp_path / "s.zip")
    assert [one.name for one in opened.layers] == ["t1", "painted", "plane"]
    np.testing.assert_array_equal(opened.layers["plane"].data, plane.data)
    for corner in ((0, 0), (1, 2)):
        np.testing.assert_allclose(opened.layers["plane"].data_to_world(corner), plane.data_to_world(corner))
    assert opened.layers["painted"].contour == 2
    assert label_names(opened.layers["painted"]) == {1: "bright", 7: "not there"}
    np.testing.assert_array_equal(stored_array(opened.layers["t1"]), VALUES)
    assert (opened.dims.ndisplay, camera_of(opened).angles) == (3, (10.0, 20.0, 30.0))
    assert STORE.runs == runs + 3, "only what is read was done"
    press_and_wait(qtbot, other, other.run_button)
    made = opened.layers["bright"]
    assert (made.opacity, made.contrast_limits, made.colormap.name) == (0.25, [0.0, 0.5], "viridis")
    np.testing.assert_array_equal(stored_array(made), kept(panel))
    assert record_of(made) == record_of(layer)
    assert not other.run_button.isEnabled()


def test_drafts_come_back_in_panels_that_are_open(viewer, panel, session, make_other, qtbot, tmp_path):
    use(panel, level="share", percent=12.5)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    other = make_other()
    open_in(qtbot, other, tmp_path / "s.zip")
    assert "threshold panel" in other.message
    shows = ThresholdPanel(other.viewer)
    qtbot.addWidget(shows)
    open_in(qtbot, other, tmp_path / "s.zip")
    assert shows.form.settings.widget("percent").value == 12.5
    assert shows.form.boxes["image"].currentText() == "t1 (no layer)", "the result, which no layer has to show"
    run(qtbot, shows)
    np.testing.assert_array_equal(kept(shows), np.where((VALUES > 0.3) & (VALUES.max() / 8 <= VALUES), VALUES, 0))
    shows.teardown()


def test_the_settings_of_denoising_come_back(viewer, session, make_other, qtbot, tmp_path):
    add(viewer, name="other")
    with contextlib.ExitStack() as panels:
        first = panels.enter_context(contextlib.closing(Closing(DenoisePanel(viewer)))).panel
        first.image_box.layer_box.choose(viewer.layers["t1"])
        mode = first.mode
        mode.form.set_value(DenoiseSettings(noise_model="rician", cutoff=0.75))
        mode.level.setCurrentText("a map")
        mode.map_box.choose(viewer.layers["other"])
        draft = first.take_draft()()
        after(qtbot, session, session.save, tmp_path / "s.zip")
        other = make_other()
        second = panels.enter_context(contextlib.closing(Closing(DenoisePanel(other.viewer)))).panel
        open_in(qtbot, other, tmp_path / "s.zip")
        assert "denoise panel" not in other.message
        assert second.take_draft()() == draft
        mode.level.setCurrentText("a number")
        mode.number.setText("0.125")
        first.mode_box.setCurrentIndex(1)
        first.mode.second_box.choose(viewer.layers["other"])
        draft = first.take_draft()()
        after(
            qtbot,
            session,
            session.save,
            tmp_path / "s.zip",
        )
        open_in(qtbot, other, tmp_path / "s.zip")
        assert second.take_draft()() == draft


def test_a_layer_in_another_place_does_not_show_a_result(viewer):
    add(viewer)
    moved = AFFINE.copy()
    moved[0, 3] += 5
    for affine, count in ((AFFINE, 1), (moved, 2), (moved, 2)):
        output = HeldVolume.of(Volume(array=VALUES, affine=affine)).output()
        (layer,) = layers_showing(viewer, output)
        np.testing.assert_array_equal(grid_of(layer)[0], affine)
        assert len(viewer.layers) == count
        del layer.metadata[KEY][RECORD]


class Closing:
    """A panel that is torn down at the end."""

    def __init__(self, panel):
        self.panel = panel

    def close(self):
        self.panel.teardown()


def test_files_that_lie_elsewhere_are_named_and_read_when_allowed(viewer, session, make_other, qtbot, tmp_path):
    (tmp_path / "scans").mkdir()
    (tmp_path / "sessions").mkdir()
    write_volume(tmp_path / "scans" / "scan.nii.gz", VALUES, AFFINE)
    add(viewer, name="scan", metadata={"path": str(tmp_path / "scans" / "scan.nii.gz")})
    after(qtbot, session, session.save, tmp_path / "sessions" / "s.zip")
    other = make_other()
    opened = open_in(qtbot, other, tmp_path / "sessions" / "s.zip")
    assert "scan" not in opened.layers
    assert "scan.nii.gz: it lies outside" in other.message
    assert other.allow_button.text() == "Allow scans"
    after(qtbot, other, other.allow_button.click)
    np.testing.assert_array_equal(stored_array(opened.layers["scan"]), VALUES)
    assert [one.name for one in opened.layers] == ["t1", "painted", "scan"], "what was there is not shown twice"
    assert other.allow_button.isHidden()
    session.embed_box.setChecked(True)
    after(qtbot, session, session.save, tmp_path / "sessions" / "e.zip")
    (tmp_path / "scans" / "scan.nii.gz").unlink()
    other = make_other()
    assert "scan" in open_in(qtbot, other, tmp_path / "sessions" / "e.zip").layers
    assert other.allow_button.isHidden()


def test_what_a_session_cannot_hold_is_named(viewer, panel, session, qtbot, tmp_path):
    viewer.add_image([np.zeros((8, 8)), np.zeros((4, 4))], name="pyramid", multiscale=True)
    panel.form.boxes["image"].choose(None)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    assert "pyramid' is not saved: sessions hold no image" in session.message
    assert "threshold panel" in session.message


def test_drawn_layers_come_back_where_they_were(viewer, session, make_other, qtbot, tmp_path):
    """Those of users, of other plugins, and of panels that are closed."""
    viewer.layers.clear()
    drawn = drawn_layers()
    for layer in drawn:
        viewer.add_layer(layer)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    assert session.message == ""
    opened = open_in(qtbot, make_other(), tmp_path / "s.zip")
    assert [one.name for one in opened.layers] == [one.name for one in drawn]
    for layer in drawn:
        found = opened.layers[layer.name]
        assert type(found).__name__ == layer._type_string.capitalize()
        for one, other in zip(corners(found), corners(layer), strict=True):
            np.testing.assert_array_equal(one, other)
        assert parts_of(found).values == parts_of(layer).values
        found.data = found.data  # which may be changed


def test_an_image_that_fades_and_labels_of_tissue_come_back_as_they_lay(viewer, session, make_other, qtbot, tmp_path):
    """Else the image would be an opaque box over the labels in a window that does not know its colormap by name."""
    viewer.layers.clear()
    media = [{"label": 1, "name": "scalp", "mua_per_mm": 0.02}]
    about = {STRUCTURES: {1: "scalp"}, MEDIA: media, OUTSIDE_N: 1.33}
    colors = {None: "magenta", 0: "transparent", 1: "#b5795a"}
    labels = volume_layer(
        (VALUES > 0.3).astype(np.uint8), AFFINE, "tissue", kind="labels", metadata=about, colormap=colors
    )
    labels = viewer.add_labels(labels[0], **labels[1])
    layer = add(viewer, name="fluence")
    layer.colormap = Colormap([(0, 0, 0, 0), (1, 0.5, 0, 1)], name="fading into what lies below")
    layer.opacity, layer.blending = 0.85, "translucent_no_depth"
    after(qtbot, session, session.save, tmp_path / "s.zip")
    AVAILABLE_COLORMAPS.pop(layer.colormap.name)
    opened = open_in(qtbot, make_other(), tmp_path / "s.zip")
    tissue, fluence = opened.layers
    assert (fluence.opacity, fluence.blending) == (0.85, "translucent_no_depth")
    np.testing.assert_allclose(fluence.colormap.map([0.0, 0.5, 1.0]), layer.colormap.map([0.0, 0.5, 1.0]), atol=1e-4)
    assert label_names(tissue) == {1: "scalp"}
    assert (tissue.metadata[KEY][MEDIA], tissue.metadata[KEY][OUTSIDE_N]) == (media, 1.33)
    for label in (0, 1, 2):
        np.testing.assert_allclose(tissue.colormap.map(label), labels.colormap.map(label), atol=1e-4)


def test_results_that_are_made_later_lie_where_they_lay(viewer, panel, session, make_other, qtbot, tmp_path):
    viewer.layers.move(viewer.layers.index("painted"), len(viewer.layers))
    names = [one.name for one in viewer.layers]
    assert names[-1] == "painted"
    after(qtbot, session, session.save, tmp_path / "s.zip")
    other = make_other()
    opened = open_in(qtbot, other, tmp_path / "s.zip")
    press_and_wait(qtbot, other, other.run_button)
    assert [one.name for one in opened.layers] == names


def test_contours_that_were_changed_are_saved_as_they_are(viewer, session, make_other, qtbot, tmp_path):
    viewer.layers.clear()
    planes = [np.array([[x, y, z] for x, y in ((1, 1), (1, 5), (5, 5), (5, 1))], float) for z in (2, 3)]
    structure = contour_structure("heart", planes, slice_mm=0.0)
    output = HeldContours.of([structure]).output()
    (made,) = layers_showing(viewer, output)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    opened = open_in(qtbot, make_other(), tmp_path / "s.zip")
    assert record_of(opened.layers[0]) == output
    made.data = [made.data[0] + 1.0]
    after(qtbot, session, session.save, tmp_path / "s.zip")
    opened = open_in(qtbot, make_other(), tmp_path / "s.zip")
    np.testing.assert_array_equal(opened.layers[0].data, made.data)
    assert record_of(opened.layers[0]) is None


@pytest.mark.parametrize("damage", ["no file", "no session", "cut"])
def test_what_is_no_session_gets_a_sentence_and_changes_nothing(viewer, panel, session, qtbot, tmp_path, damage):
    path = tmp_path / "s.zip"
    if damage == "cut":
        after(qtbot, session, session.save, path)
        path.write_bytes(path.read_bytes()[:-40])
    elif damage == "no session":
        path.write_bytes(b"PK\x05\x06" + bytes(18))
    before = [*viewer.layers]
    after(qtbot, session, session.open, path)
    assert "s.zip" in session.message
    assert [*viewer.layers] == before


def test_a_stopped_run_of_results_keeps_what_was_made(viewer, panel, session, make_other, qtbot, tmp_path, monkeypatch):
    use(panel, value=0.75)
    viewer.layers.remove(panel.layer_of("dropped"))
    panel._layers.clear()  # the next result gets a layer of its own
    run(qtbot, panel)
    after(qtbot, session, session.save, tmp_path / "s.zip")
    other = make_other()
    opened = open_in(qtbot, other, tmp_path / "s.zip")
    steps = type(panel.operation()).steps

    def stopping(operation, data, **run_):
        yield from ()
        if operation.level == Absolute(value=0.75):
            run_["stop"].set()
        return (yield from steps(operation, data, **run_))

    monkeypatch.setattr(type(panel.operation()), "steps", stopping)
    press_and_wait(qtbot, other, other.run_button)
    levels = [record_of(layer).of.level.value for layer in opened.layers[2:]]
    assert levels == [0.5]
    assert other.run_button.isEnabled(), "the rest is still to be made"


def test_the_script_of_a_session_makes_every_layer(viewer, panel, session, qtbot, tmp_path, monkeypatch):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    with qtbot.waitSignal(session.run_finished, timeout=60_000):
        script_of(session)
    text = (tmp_path / "script.py").read_text()
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(text, found)
    image, painted, bright, dropped = found["results"]
    np.testing.assert_array_equal(image.array, VALUES)
    np.testing.assert_array_equal(painted.array, VALUES > 0.3)
    np.testing.assert_array_equal(bright.array, kept(panel))
    np.testing.assert_array_equal(bright.array + dropped.array, VALUES)


def test_a_session_that_nothing_was_opened_for(make_other, qtbot, tmp_path):
    empty = make_other()
    assert not empty.run_button.isEnabled()
    empty.copy_script()
    assert "open a file" in empty.message
    after(qtbot, empty, empty.save, tmp_path / "s.zip")
    wait_until(qtbot, lambda: not empty.running)
    assert (tmp_path / "s.zip").is_file()


def test_a_report_of_what_is_shown(panel, session, qtbot, tmp_path):
    after(qtbot, session, session.report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for layer in session.viewer.layers:
        assert f"<h2>{layer.name}</h2>" in page
    assert "page.html is written" in session.status
