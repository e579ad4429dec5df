"""The dock widget Bundle profiles."""

import csv

import numpy as np
import pytest

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.operations import run
from napari_gpubio.diffusion.napari_io import map_layer
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.gui import theme
from napari_gpubio.tractograms.bundles import profile, summary
from napari_gpubio.tractograms.gui import ProfilesPanel
from napari_gpubio.tractograms.gui.fibers import fibers_of
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from tests.dock_widgets import (
    bands,
    button,
    error_after_run,
    forget_choices,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
    until_the_end,
)

CALLOSUM, CINGULUM = "callosum", "cingulum"


@pytest.fixture(scope="module")
def field():
    return diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device="cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two bundles of the phantom, in files."""
    fibers, folder = (
        tractograms.io.read_tractogram(sample_path("brain_phantom/bundles.trk")),
        tmp_path_factory.mktemp("fib"),
    )
    for number, name in enumerate((CALLOSUM, CINGULUM), 1):
        write_tractogram(folder / f"{name}.trk", fibers.select(fibers.per_fiber["bundle"].ravel() == number))
    return folder


@pytest.fixture
def panel(viewer, qtbot, field, files):
    """A panel over FA and two bundles."""
    data, keywords, _ = map_layer(field, "FA", "phantom")
    viewer.add_image(data, **keywords)
    for name in (CALLOSUM, CINGULUM):
        tractograms.show(viewer, files / f"{name}.trk")
    yield from until_the_end(qtbot, viewer, ProfilesPanel(viewer))


@pytest.fixture
def measured(panel, qtbot):
    """The panel after a run."""
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.message == ""
    return panel


def mean_of(viewer, field, name):
    layer = viewer.layers[name]
    fibers = fibers_of(layer).select(layer.shown)
    return profile(fibers, fa_map(field), field.affine).mean


@pytest.mark.daily
@pytest.mark.display
def test_each_bundle_has_a_curve_and_a_row(viewer, measured, field):
    assert set(measured.plot.curves) == {CALLOSUM, CINGULUM}
    for name, curve in measured.plot.curves.items():
        np.testing.assert_allclose(curve.getData()[1], mean_of(viewer, field, name), atol=1e-6)
    assert len(bands(measured.plot)) == 2
    assert measured.table.rowCount() == 2
    assert "phantom FA" in measured.plot.getAxis("left").labelText
    for name, way in ((CALLOSUM, "left (0 %) to right"), (CINGULUM, "inferior (0 %) to superior")):
        assert f"{name} runs from {way} (100 %)." in measured.results.findings
    lines = measured.results.findings.split("<br>")
    assert all(theme.STATUS_COLORS["ok"] in line for line in lines if "were reversed" in line)


def test_one_bundle_has_the_names_of_its_ends_at_the_axis(viewer, panel, qtbot):
    viewer.layers[CINGULUM].visible = False
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.plot.getAxis("bottom").labelText == "from left (0 %) to right (100 %)"
    titles = [panel.table.horizontalHeaderItem(n).text() for n in range(panel.table.columnCount())]
    assert "phantom\nFA" in titles, "the whole name of the image"
    header = panel.table.horizontalHeader()
    assert sum(header.sectionSize(n) for n in range(1, 7)) <= 300, "nothing is to be scrolled beside a short name"
    metrics = header.fontMetrics()
    for n, title in enumerate(titles):
        assert header.sectionSize(n) >= max(map(metrics.horizontalAdvance, title.split("\n")))


def test_both_follow_filters_and_dissections_and_nothing_else_until_measured_again(viewer, measured, field, qtbot):
    layer = viewer.layers[CALLOSUM]
    with qtbot.waitSignal(measured.run_finished, timeout=60_000):
        layer.shown = np.arange(len(layer.lines)) % 2 == 0
    np.testing.assert_allclose(measured.plot.curves[CALLOSUM].getData()[1], mean_of(viewer, field, CALLOSUM), atol=1e-6)
    assert f"of {len(layer.lines)} fibers of “{CALLOSUM}” are shown and counted" in measured.results.findings
    viewer.layers[CINGULUM].visible = False
    viewer.layers.move(0, len(viewer.layers))
    data, keywords, _ = map_layer(field, "MD", "phantom")
    measured.image_box.choose(viewer.add_image(data, **keywords))
    qtbot.wait(400)
    assert not measured.running
    assert set(measured.plot.curves) == {CALLOSUM, CINGULUM}
    qtbot.waitUntil(lambda: "Image" in measured.stale_line.text())
    press_and_wait(qtbot, measured, measured.run_button)
    assert set(measured.plot.curves) == {CALLOSUM}


def test_table_and_profiles_are_saved(measured, qtbot, monkeypatch, tmp_path):
    for text, name in (("Save table…", "table.csv"), ("Save profiles…", "profiles.csv")):
        save_scripts_as(monkeypatch, tmp_path / name)
        button(measured, text).click()
    qtbot.waitUntil(lambda: not measured.results.files.is_busy, timeout=30_000)
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        assert [row["bundle"] for row in csv.DictReader(file)] == [CALLOSUM, CINGULUM]
    with (tmp_path / "profiles.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 200
    assert float(rows[0]["mean"]) > 0


def test_what_is_missing_is_reported(viewer, panel, qtbot):
    viewer.layers.remove("phantom FA")
    forget_choices(panel)
    assert "no image" in error_after_run(qtbot, panel)
    viewer.layers.clear()
    assert "no fibers" in error_after_run(qtbot, panel)


@pytest.mark.daily
def test_the_script_writes_the_same_numbers(viewer, measured, field, monkeypatch, tmp_path):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(measured), tmp_path, monkeypatch)
    bundles = {name: fibers_of(viewer.layers[name]) for name in (CALLOSUM, CINGULUM)}
    expected = summary(bundles, {"phantom FA": (fa_map(field), field.affine)}).csv()
    assert (tmp_path / "bundles.csv").read_text(encoding="utf-8").splitlines() == expected.splitlines()
    made = run(measured.operation(), device="cpu")  # with all digits
    np.testing.assert_array_equal(made.curves[CALLOSUM].mean, measured.plot.curves[CALLOSUM].getData()[1])
    assert (tmp_path / "profiles.csv").read_text(encoding="utf-8").splitlines() == made.profiles.csv().splitlines()
