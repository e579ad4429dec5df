"""The dock widget Fiber uncertainty."""

import csv

import numpy as np
import pytest

from napari_gpubio import diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.diffusion.napari_io import scan_layer
from napari_gpubio.fibers.gui import UncertaintyPanel
from napari_gpubio.fibers.gui.tracing import BundleSettings
from napari_gpubio.fibers.gui.uncertainty.panel import OTHER_FIT
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.tractograms.gui.fibers import fibers_of
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.gui.tensor_samples import saved
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

SEED = (0.0, -5.0, 22.0)
MADE = BundleSettings(
    seeds=AtPoints(seed=(SEED,)),
    directions=fiber_tracking.Cone(count=5, half_angle_deg=15.0),
    method=fiber_tracking.Hamiltonian(step_mm=1.0),
)
FEW = fiber_tracking.BootstrapSettings(repeats=6, kept_repeats=4, margin_mm=6.0)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """The coarse brain, from a file."""
    return diffusion.io.read_dwi(saved(coarse_brain(), tmp_path_factory.mktemp("scan")))


@pytest.fixture(scope="module")
def fibers(scan):
    return fiber_tracking.track(
        diffusion.fit_tensors(scan, device="cpu"), [SEED], MADE.directions, MADE.method, device="cpu"
    )


@pytest.fixture
def panel(viewer, qtbot, scan, fibers):
    """A panel over a scan and fibers that were tracked in it."""
    data, keywords, _ = scan_layer(scan, "scan")
    viewer.add_image(data, **keywords)
    tractograms.show(viewer, fibers, "bundle 1", metadata={"settings": MADE, "seeds_mm": np.array([SEED])})
    panel = UncertaintyPanel(viewer)
    panel.choose_device("cpu")
    for name in ("repeats", "kept_repeats", "margin_mm"):
        panel.form.widget(name).value = getattr(FEW, name)
    yield from until_the_end(qtbot, viewer, panel)


@pytest.fixture(scope="module")
def expected(scan):
    return fiber_tracking.bootstrap(scan, [SEED], MADE.directions, MADE.method, FEW, device="cpu")


@pytest.fixture
def done(panel, qtbot):
    """The panel after a run."""
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.message == ""
    return panel


@pytest.mark.daily
@pytest.mark.display
def test_the_map_of_visits_is_shown_and_colors_the_fibers(viewer, done, expected):
    image, layer = viewer.layers["bundle 1 visit probability"], viewer.layers["bundle 1"]
    assert np.array_equal(np.sort(image.data, axis=None), np.sort(expected.probability, axis=None))
    assert layer.color_by == image.name
    assert viewer.layers.index(image.name) < viewer.layers.index(layer.name)
    assert OTHER_FIT not in done.results.findings


def test_every_number_has_its_interval(done, expected):
    rows = {row.name: row.text for row in done.results.table.rows}
    estimate, low, high = expected.interval("length_mm")
    assert rows["length (mm)"] == f"{estimate:,.1f} ({low:,.1f} – {high:,.1f})"
    assert rows["bias of length (mm)"].endswith(f" in {expected.of_fit('length_mm'):,.1f}")
    assert rows["repeats"] == "6"
    assert "mean FA" in rows


def test_the_profile_has_its_interval(done, expected):
    (curve,) = done.plot.getPlotItem().listDataItems()
    (band,) = bands(done.plot)
    found = fiber_tracking.uncertainty.profile_interval(expected)
    np.testing.assert_allclose(curve.getData()[1], found.estimate, rtol=1e-6)
    assert band == pytest.approx((np.nanmin(found.low), np.nanmax(found.high)), rel=1e-6)


def test_numbers_belong_to_the_chosen_fibers(viewer, done, fibers, qtbot):
    rows = done.results.table.rows
    about = {"settings": MADE, "seeds_mm": np.array([SEED])}
    other = tractograms.show(viewer, fibers, "bundle 2", metadata=about)
    assert done.results.table.rows == rows, "nothing is chosen unasked"
    done.fibers_box.choose(other)
    assert not done.results.table.rows
    assert done.plot.isHidden()
    assert done.stale_line.isHidden()
    done.fibers_box.choose(viewer.layers["bundle 1"])
    assert done.results.table.rows == rows
    assert not done.plot.isHidden()
    viewer.layers.remove("bundle 1")
    assert done.results.table.rows == rows, "they stay when their layer is deleted"


def test_a_second_run_leaves_one_map(viewer, done, qtbot):
    press_and_wait(qtbot, done, done.run_button)
    assert [layer.name for layer in viewer.layers].count("bundle 1 visit probability") == 1
    assert viewer.layers["bundle 1"].color_by == "bundle 1 visit probability"


def test_the_fibers_of_repeats_become_a_layer(viewer, done, expected):
    button(done.results, "Show repeats").click()
    assert np.array_equal(fibers_of(viewer.layers["bundle 1 repeats"]).points, expected.kept.points)


def test_the_table_is_saved(done, qtbot, tmp_path, monkeypatch, expected):
    path = tmp_path / "intervals.csv"
    save_scripts_as(monkeypatch, path)
    button(done.results, "Save table…").click()
    qtbot.waitUntil(lambda: not done.results.files.is_busy, timeout=30_000)
    rows = list(csv.reader(path.open(encoding="utf-8")))
    assert rows[0] == ["number", "estimate", "low", "high", "fit", "bias"]
    assert [row[0] for row in rows[1:]] == list(expected.numbers)


@pytest.mark.daily
def test_the_script_shows_the_same_map(viewer, done, tmp_path, monkeypatch):
    there = shown_by_script(script_of(done), tmp_path, monkeypatch)
    name = "bundle 1 visit probability"
    assert np.array_equal(there.layers[name].data, viewer.layers[name].data)
    assert there.layers["bundle 1"].color_by == name


def test_fibers_of_another_fit_are_reported(viewer, panel, qtbot, scan, fibers):
    others = fibers.select(np.arange(len(fibers) - 1))
    tractograms.show(viewer, others, "bundle 2", metadata={"settings": MADE, "seeds_mm": np.array([SEED])})
    panel.fibers_box.choose(viewer.layers["bundle 2"])
    press_and_wait(qtbot, panel, panel.run_button)
    assert OTHER_FIT in panel.results.findings


def test_what_is_missing_is_said(viewer, panel, qtbot, fibers):
    viewer.layers.remove("scan")
    forget_choices(panel)
    assert "there is no diffusion scan whose noise" in error_after_run(qtbot, panel)
    viewer.layers.remove("bundle 1")
    forget_choices(panel)
    tractograms.show(viewer, fibers, "of a file")
    assert "'of a file' cannot be used (not tracked here)" in error_after_run(qtbot, panel)
