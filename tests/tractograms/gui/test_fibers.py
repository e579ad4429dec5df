"""Fibers from anywhere: napari's File > Open, a script or the panel make the same layer, and files get what is said."""

import dataclasses
import zipfile

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import notification_manager

from napari_gpubio import tractograms
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried, volume_layer
from napari_gpubio.core.operations import digest, run
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.core.space import slice_steps_mm
from napari_gpubio.diffusion.gui.records import output_of_layer
from napari_gpubio.gui.lines.paint import unpack_rgb
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms.gui import fibers as fibers_module
from napari_gpubio.tractograms.gui.fibers import (
    count_text,
    fibers_of,
    fibers_to_save,
    get_tractogram_reader,
    place_warning,
    read_tractogram_layers,
    write_fibers,
)
from napari_gpubio.tractograms.io import read_tractogram, write_tractogram
from tests.tractograms.tractogram_samples import AFFINES, SHAPE, WRITTEN, assert_same_fibers, make

STRAIGHT = AFFINES["anisotropic"]


@pytest.fixture
def notes():
    """A function that returns the notifications so far."""
    notification_manager.records.clear()
    return lambda: [record.message for record in notification_manager.records]


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_file_becomes_a_whole_colored_layer_in_millimeters(tmp_path, suffix):
    made = make(affine=STRAIGHT)
    path = tmp_path / f"left.cst{suffix}"
    write_tractogram(path, made)
    reader = get_tractogram_reader([str(path)])
    (layer,) = reader([str(path)])
    assert isinstance(layer, Streamlines)
    assert layer.name == "left.cst"
    assert (layer.color_by, layer.shown.all(), len(layer.lines)) == ("direction", True, len(made))
    assert [str(unit) for unit in layer.units] == ["millimeter"] * 3
    assert layer.axis_labels == ("z", "y", "x")
    np.testing.assert_allclose([layer.data_to_world(p) for p in layer.points], made.points[:, ::-1], atol=1e-4)
    np.testing.assert_allclose(layer.per_fiber["length_mm"], made.lengths_mm(), rtol=1e-4)
    assert_same_fibers(fibers_of(layer), made)
    if suffix not in (".tck", ".vtk"):
        np.testing.assert_allclose(layer.extent.step, slice_steps_mm(made.affine), rtol=1e-6)
    if suffix != ".tck":
        np.testing.assert_allclose(layer.per_point["fa"], made.per_point["fa"], rtol=1e-6)
        np.testing.assert_allclose(layer.per_fiber["score [1]"], made.per_fiber["score"][:, 1], rtol=1e-6)
        layer.color_by = "dir [2]"


def test_more_than_ten_thousand_fibers_are_all_there(tmp_path):
    made = make((2,) * 12_000, affine=STRAIGHT)
    write_tractogram(tmp_path / "many.tck", made)
    (layer,) = read_tractogram_layers(tmp_path / "many.tck")
    assert len(layer.lines) == 12_000


def test_large_files_show_progress(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("napari.utils.progress.update", lambda _, n=1: shown.append(n))
    write_tractogram(tmp_path / "a.tck", make())
    monkeypatch.setattr(fibers_module, "_LARGE_FILE_BYTES", 1)
    layers = read_tractogram_layers([tmp_path / "a.tck"] * 3)
    assert len(layers) == 3
    assert shown == [1] * 6, "one after reading and one after packing each"


def test_columns_with_names_of_others_are_kept(tmp_path):
    points = {"fa": np.zeros(4, np.float32), "direction": np.ones(4, np.float32)}
    fibers = tractograms.Tractogram(
        points=np.arange(12).reshape(4, 3), offsets=[0, 2, 4], affine=np.eye(4), shape=(9, 9, 20),
        per_fiber={"fa": np.array([1.0, 2.0]), "length_mm": np.array([7.0, 8.0])}, per_point=points,
    )  # fmt: skip
    layer = tractograms.show(ViewerModel(), fibers)
    assert layer.per_fiber["length_mm"].tolist() == [7.0, 8.0], "the file's own"
    assert layer.per_fiber["fa"].tolist() == [1.0, 2.0]
    assert set(layer.per_point) == {"fa (2)", "direction (2)"}


def test_files_that_are_none_and_those_without_fibers(tmp_path):
    assert get_tractogram_reader(str(tmp_path / "a.txt")) is None
    assert get_tractogram_reader([]) is None
    write_tractogram(tmp_path / "none.trk", make(()))
    with pytest.raises(InvalidInput, match=r"none\.trk holds no fibers"):
        read_tractogram_layers(tmp_path / "none.trk")
    (tmp_path / "broken.trk").write_bytes(b"TRACK")
    with pytest.raises(InvalidInput, match=r"broken\.trk"):
        read_tractogram_layers(tmp_path / "broken.trk")


GROUPS = {"group/AF": np.array([True, False, True, False]), "group/CST": np.array([True, False, False, False])}


def test_groups_of_a_file_become_bundles_each_a_layer(tmp_path):
    made = make(affine=STRAIGHT)
    write_tractogram(tmp_path / "brain.trx", dataclasses.replace(made, per_fiber=GROUPS))
    layers = {layer.name: layer for layer in read_tractogram_layers(tmp_path / "brain.trx")}
    which = {"AF": [0, 2], "CST": [0], "brain": [1, 3]}
    assert set(layers) == set(which)
    for name, fibers in which.items():
        assert_same_fibers(fibers_of(layers[name]), made.select(np.array(fibers)))
        assert digest(run(output_of_layer(layers[name]))) == digest(fibers_of(layers[name]))


def test_what_a_reader_assumed_is_shown_and_stays_with_the_layer(tmp_path):
    write_tractogram(tmp_path / "a.trk", make(affine=STRAIGHT))
    data = bytearray((tmp_path / "a.trk").read_bytes())
    data[440:504] = bytes(64)  # the matrix
    (tmp_path / "a.trk").write_bytes(data)
    with pytest.warns(ReadingNote, match=r"a\.trk.*not known") as shown:
        (layer,) = read_tractogram_layers(tmp_path / "a.trk")
    assert len(shown) == 1
    assert any("not known" in note for note in carried(layer, "notes"))
    with pytest.warns(ReadingNote, match="not known"):
        layer = tractograms.show(ViewerModel(), tmp_path / "a.trk")
    assert any("not known" in note for note in carried(layer, "notes"))


@pytest.mark.display
@pytest.mark.parametrize("name", ["a.trx", "fibers"])
def test_napari_opens_a_folder_of_what_a_trx_file_holds(viewer, tmp_path, name):
    made = make(affine=STRAIGHT)
    write_tractogram(tmp_path / "packed.trx", made)
    zipfile.ZipFile(tmp_path / "packed.trx").extractall(tmp_path / name)
    (layer,) = viewer.open(str(tmp_path / name), plugin="napari-gpubio")
    assert layer.name == name.removesuffix(".trx")
    assert_same_fibers(fibers_of(layer), made)


@pytest.mark.display
@pytest.mark.parametrize("how", ["viewer.open", "File > Open"])
def test_napari_opens_fibers_beside_a_volume(viewer, tmp_path, how):
    made = make(affine=STRAIGHT)
    path = str(tmp_path / "a.trk")
    write_tractogram(path, made)
    data, keywords, _ = volume_layer(np.ones(SHAPE, np.float32), STRAIGHT, "T1")
    viewer.add_image(data, **keywords)
    if how == "viewer.open":
        (layer,) = viewer.open(path, plugin="napari-gpubio")
    else:
        viewer.window._qt_viewer._qt_open([path], stack=False, plugin="napari-gpubio")
        layer = viewer.layers[-1]
    assert isinstance(layer, Streamlines)
    assert viewer.layers[-1] is layer
    assert (layer.source.path, layer.source.reader_plugin) == (path, "napari-gpubio")
    assert [str(unit) for unit in viewer.dims.units] == ["millimeter"] * 3
    np.testing.assert_allclose([step for *_, step in viewer.dims.range], slice_steps_mm(STRAIGHT), rtol=1e-5)


def test_sliders_go_on_stopping_at_the_slices_of_an_image():
    viewer, coarse = ViewerModel(), np.diag([2.5, 2.5, 3.0, 1.0])
    tractograms.show(viewer, make(affine=STRAIGHT))
    np.testing.assert_allclose([step for *_, step in viewer.dims.range], slice_steps_mm(STRAIGHT))
    viewer.layers.clear()
    data, keywords, _ = volume_layer(np.zeros((40, 40, 40), np.float32), coarse, "T1")
    viewer.add_image(data, **keywords)
    tractograms.show(viewer, make(affine=np.eye(4)))
    np.testing.assert_allclose([step for *_, step in viewer.dims.range], [3.0, 2.5, 2.5])


# -- scripts ----------------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_a_script_shows_fibers_and_files(tmp_path):
    viewer, made = ViewerModel(), make(affine=STRAIGHT)
    write_tractogram(tmp_path / "a.trx", made)
    keep = made.lengths_mm() > 1
    layer = tractograms.show(
        viewer, made, "mine", shown=keep, color_by="fa", contrast_limits=(0, 1), line_style="lines"
    )
    other = tractograms.show(viewer, tmp_path / "a.trx")
    assert list(viewer.layers) == [layer, other]
    assert (layer.name, other.name) == ("mine", "a")
    np.testing.assert_array_equal(layer.shown, keep)
    assert (layer.color_by, layer.contrast_limits, layer.line_style) == ("fa", (0.0, 1.0), "lines")
    np.testing.assert_array_equal(other.points, layer.points)
    assert len(np.unique(unpack_rgb(other.lines.vertices[:, 3]), axis=0)) > 2, "colored by direction"
    with pytest.raises(InvalidInput, match="color_by is 'nothing'"):
        tractograms.show(viewer, made, color_by="nothing")


# -- another space ----------------------------------------------------------------------------------------------------


def image_of(affine, shape=SHAPE, name="T1"):
    data, keywords, _ = volume_layer(np.zeros(shape, np.float32), affine, name)
    return Image(data, **keywords)


@pytest.mark.parametrize("name", AFFINES)
def test_fibers_inside_their_volume_need_no_word(name):
    made = make((200,), affine=AFFINES[name])
    assert place_warning(made, "a", [image_of(AFFINES[name])]) == ""
    assert place_warning(made, "a", []) == ""
    assert place_warning(made, "a", [Image(np.zeros((4, 4, 4)), name="in pixels")]) == ""


def test_fibers_elsewhere_are_reported_with_their_distance():
    made, away = make((200,), affine=np.eye(4)), np.eye(4)
    away[0, 3] = made.points[:, 0].max() + 30.5
    text = place_warning(made, "fibers", [image_of(away)])
    assert "30 mm" in text
    assert "'fibers'" in text
    assert "'T1'" in text
    away[0, 3] = 20
    share = (made.points[:, 0] < 19.5).mean()
    text = place_warning(made, "fibers", [image_of(away)])
    assert f"{share:.0%} of the points" in text
    assert f"{19.5 - made.points[:, 0].min():.0f} mm" in text
    assert place_warning(made, "fibers", [image_of(away), image_of(np.eye(4))]) == "", "one image holds them"


def test_opening_and_showing_tell_it(notes):
    viewer, away = ViewerModel(), STRAIGHT.copy()
    away[2, 3] += 500
    data, keywords, _ = volume_layer(np.zeros(SHAPE, np.float32), away, "T1")
    viewer.add_image(data, **keywords)
    tractograms.show(viewer, make(affine=STRAIGHT))
    assert any("mm from that of the image 'T1'" in note for note in notes())


@pytest.mark.display
def test_napari_opening_fibers_tells_it_once(viewer, tmp_path, notes):
    write_tractogram(tmp_path / "a.trk", make(affine=STRAIGHT))
    viewer.open(str(tmp_path / "a.trk"), plugin="napari-gpubio")
    away = STRAIGHT.copy()
    away[0, 3] -= 300
    data, keywords, _ = volume_layer(np.zeros(SHAPE, np.float32), away, "T1")
    viewer.add_image(data, **keywords)
    viewer.open(str(tmp_path / "a.trk"), plugin="napari-gpubio")
    distances = [note for note in notes() if "mm from that of the image 'T1'" in note]
    assert len(distances) == 1
    assert "'a'" in distances[0]


def test_no_fibers_can_be_shown():
    viewer = ViewerModel()
    layer = tractograms.show(viewer, make((), affine=STRAIGHT))
    assert (len(layer.lines), layer.color_by) == (0, "direction")
    layer.color_by = "length_mm"
    assert len(fibers_to_save(layer)) == 0


# -- saving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("saves", ["shown", "all"])
def test_napari_saves_what_is_shown_or_all_and_says_which(tmp_path, notes, saves):
    viewer, made = ViewerModel(), make(affine=STRAIGHT, parameters={"step_mm": 0.5})
    layer = tractograms.show(viewer, made, "cst", saves=saves)
    layer.shown = np.array([True, False, False, True])
    path = str(tmp_path / "saved.trx")
    assert layer.save(path, plugin="napari-gpubio") == [path]
    expected = made.select(layer.shown) if saves == "shown" else made
    read = read_tractogram(path)
    assert_same_fibers(read, expected)
    np.testing.assert_array_equal(read.per_fiber["score"], expected.per_fiber["score"])
    assert dict(read.parameters) == {"step_mm": 0.5}
    which = "the 2 of 4 fibers that are shown" if saves == "shown" else "all 4 fibers"
    assert any(which in note and "saved.trx" in note for note in notes())
    assert_same_fibers(fibers_to_save(layer), expected)


def test_lines_that_were_moved_or_bent_are_saved_where_they_are(tmp_path):
    made = make(affine=STRAIGHT)
    layer = tractograms.show(ViewerModel(), made, translate=(5.0, 0, 0))
    for fibers in (fibers_to_save(layer), read_back(layer, tmp_path)):
        np.testing.assert_allclose(fibers.points, made.points + np.array([0, 0, 5]), atol=1e-3)
        np.testing.assert_array_equal(fibers.per_fiber["seed"], made.per_fiber["seed"])
    layer.translate = (0, 0, 0)
    layer.data = layer.points + 1
    np.testing.assert_allclose(fibers_to_save(layer).points, made.points + 1, atol=1e-4)


def read_back(layer, folder):
    layer.save(str(folder / "a.trx"), plugin="napari-gpubio")
    return read_tractogram(folder / "a.trx")


def test_lines_without_a_tractogram_are_saved_with_their_numbers(tmp_path):
    points = np.arange(15.0).reshape(5, 3)
    layer = Streamlines(points, [0, 2, 5], per_fiber={"n": [3.0, 4.0]}, per_point={"fa": np.arange(5.0)})
    layer.shown = [False, True]
    fibers = read_back(layer, tmp_path)
    np.testing.assert_allclose(fibers.points, points[2:, ::-1])
    assert fibers.per_fiber["n"].tolist() == [4.0]
    assert fibers.per_point["fa"].tolist() == [2.0, 3.0, 4.0]


def test_a_duplicate_saves_as_its_layer_does(tmp_path):
    layer = tractograms.show(ViewerModel(), make(affine=STRAIGHT))
    layer.shown = [True, False, True, False]
    data, attributes, _ = layer.as_layer_data_tuple()
    write_fibers(str(tmp_path / "b.trk"), data, attributes)
    assert len(read_tractogram(tmp_path / "b.trk")) == 2
    back = Streamlines.from_layer_data(data, attributes)
    np.testing.assert_array_equal(back.shown, layer.shown)


def test_what_is_saved_is_reported_in_words():
    assert count_text(1200, 1200) == "all 1,200 fibers"
    assert count_text(5, 1200) == "the 5 of 1,200 fibers that are shown"
    with pytest.raises(InvalidInput, match="shown, all"):
        tractograms.show(ViewerModel(), make(), saves="some")
