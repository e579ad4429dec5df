"""The dock widget "Light transport": sources and properties of a file that it has no controls for."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.napari_io import KEY, NOTES
from napari_gpubio.light.gui import LightPanel
from napari_gpubio.light.gui.domains import Domains
from napari_gpubio.light.gui.several import case_notes, input_notes
from napari_gpubio.light.io.results import save_result
from napari_gpubio.light.napari_io import fluence_layer, labels_layer
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.optics.anisotropy import with_fibers
from napari_gpubio.optics.detectors import FaceDetector
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import KINDS, Disk, EmittingVolume, Pattern, Pencil, Planar
from tests.dock_widgets import docked, until_the_end
from tests.light.gui.panel_samples import CENTER, FEW, LEFT, add_ball, ball, open_file, settle
from tests.light.gui.test_fibers import add_map, field

SETTINGS = LightSettings(photons=FEW)
BELOW = {"position_mm": (3.0, -4.0, 40.0), "direction": (0.0, 0.0, -1.0)}
VOLUME = EmittingVolume(position_mm=CENTER, width_mm=4.0, height_mm=4.0, length_mm=4.0, pattern=np.ones((2, 2, 2)))
SLANTED = Planar(**BELOW, width_axis=(1.0, 0.0, 0.0), height_axis=(1.0, 1.0, 0.0))
PENCIL, PATTERN = Pencil(**BELOW), Pattern(**BELOW, pattern=np.outer([1.0, 2.0, 4.0], [1.0, 0.0]))


@pytest.fixture
def box(empty):
    """The source box of a panel whose quick runs are off."""
    empty.voxels.run_box.set_live(False)
    return empty.voxels.source_box


def kind_of(box, kind, **sizes):
    for name, value in {"source": kind, **sizes}.items():
        box.form.widget(name).value = value


# ------------------------------------------------------------------------------------------- a file, then the panel


def test_a_file_that_is_open_before_the_panel_is_run_quickly_and_its_notes_are_said_once(viewer, qtbot):
    notes, inputs = ("A note.", "Another."), {"source": PENCIL, "settings": SETTINGS, "detectors": ()}
    case = LightCase(domain=ball(), **inputs, notes=notes, name="case")
    data, keywords, _ = labels_layer(case.domain, "case")
    keywords["metadata"][KEY] |= {"case": case, NOTES: ("case.json: A note.",)}
    viewer.add_labels(data, **keywords)
    for panel in until_the_end(qtbot, viewer, docked(viewer, LightPanel(viewer), "Light transport")):
        settle(qtbot, panel)
        assert panel.voxels.results.result.launched == FEW
        assert panel.message == "Another."


# ------------------------------------------------------------------------------------------------- sectors, angles


def test_a_sector_of_a_file_stays_with_the_kinds_that_have_one(empty, box, open_mcx):
    open_mcx(Disk(**BELOW, radius_mm=3.0, sector_deg=(20.0, 80.0)), SETTINGS)
    assert empty.voxels.draft().source.sector_deg == (20.0, 80.0)
    assert "80" in box._given_note.text()
    kind_of(box, "pencil")
    assert empty.voxels.draft().source.kind == "pencil"
    assert box._given_note.isHidden()
    kind_of(box, "lambertian")
    assert empty.voxels.draft().source.sector_deg == (20.0, 80.0)


@pytest.mark.parametrize("kind", ["disk", "radial_line"])
def test_a_sector_is_turned_as_in_the_file(empty, box, open_mcx, kind):
    source = KINDS[kind](
        position_mm=CENTER, direction=(0.0, 1.0, 0.0), width_axis=(0.0, 0.0, 1.0), sector_deg=(-30.0, 30.0)
    )
    open_mcx(source, SETTINGS)
    assert np.allclose(empty.voxels.draft().source.frame(), source.frame())
    box.turn_box.setValue(box.turn_box.value() + 90.0)
    turned = empty.voxels.draft().source
    assert turned.frame()[0] @ source.frame()[0] == pytest.approx(0.0, abs=1e-9)
    assert box._extra.isRowVisible(0)
    kind_of(box, "pencil")
    assert not box._extra.isRowVisible(0)


@pytest.mark.parametrize(("kind", "size"), [("slit", "spread_across"), ("disk", "focus_mm")])
def test_launch_angles_are_named_and_left_out_for_a_spread_or_a_focus(empty, box, open_mcx, kind, size):
    angles = (0.0, 10.0, 30.0)
    open_mcx(KINDS[kind](**BELOW, launch_angles_deg=angles), SETTINGS)
    note = box._given_note.text()
    assert "30" in note
    kind_of(box, kind, **{size: 0.5})
    bent = empty.voxels.draft().source
    assert (getattr(bent, size), bent.launch_angles_deg) == (0.5, None)
    assert box._given_note.text() not in ("", note)
    kind_of(box, kind, **{size: 0.0})
    assert empty.voxels.draft().source.launch_angles_deg == angles
    assert box._given_note.text() == note


# -------------------------------------------------------------------------------------------------- bad sizes


def test_sizes_that_do_not_fit_are_a_warning_and_nothing_is_lost(panel, qtbot):
    mode = panel.voxels
    mode.place_source(LEFT)
    kind_of(mode.source_box, "disk", radius_mm=1.0, inner_radius_mm=2.0)
    assert "inner radius" in mode.source_box.warning
    assert "inner radius" not in panel.message  # once is enough
    mode.controller.add_detector(LEFT + np.array([2.0, 6.0, 0.0]))
    mode.source_box.turned.emit((1.0, 0.5, 0.0))
    assert "inner radius" in mode.source_box.warning
    assert len(mode.controller.optodes.detectors) == 1
    kind_of(mode.source_box, "disk", inner_radius_mm=0.5)
    settle(qtbot, panel)
    assert "inner radius" not in mode.source_box.warning
    assert mode.results.result.source.inner_radius_mm == 0.5


# -------------------------------------------------------------------------------------------------- patterns


def test_the_pattern_of_a_file_is_the_one_that_is_used(viewer, empty, box, open_mcx):
    viewer.add_image(np.ones((5, 5)), name="open before")
    open_mcx(PATTERN, SETTINGS)
    assert np.array_equal(empty.voxels.draft().source.pattern, PATTERN.pattern)


def test_another_image_is_a_change_of_several_sources(viewer, empty, box, open_mcx):
    other = np.ones((5, 5))
    layer = viewer.add_image(other, name="mine")
    open_mcx((PATTERN, PENCIL), SETTINGS)
    assert empty.voxels.draft().source == (PATTERN, PENCIL)
    box.pattern_box.choose(layer)
    assert np.array_equal(empty.voxels.draft().source.pattern, other)


# -------------------------------------------------------------------------------------------------- notes


def test_a_saved_result_says_what_of_it_is_left_out(viewer, empty, box, qtbot, tmp_path):
    made = simulate(ball(), VOLUME, SETTINGS, detectors=(FaceDetector(face="+k"),), device="cpu")
    save_result(tmp_path / "made.npz", made)
    open_file(viewer, tmp_path / "made.npz")
    settle(qtbot, empty)
    assert empty.voxels.draft().source.kind == "isotropic"
    assert "a volume whose cells emit" in empty.message
    assert "Whole faces" in empty.message


@pytest.mark.parametrize("labels_first", [True, False])
def test_notes_on_labels_and_on_sources_are_shown_together(viewer, empty, box, qtbot, labels_first):
    domain = dataclasses.replace(ball(), notes=("A note on the labels.",))
    made = simulate(domain, (PENCIL, dataclasses.replace(PENCIL, weight=2.0)), SETTINGS, device="cpu")

    def add_labels():
        add_ball(viewer, domain)

    def add_fluence():
        data, keywords, _ = fluence_layer(made, "made")
        viewer.add_image(data, **keywords)

    for add in (add_labels, add_fluence) if labels_first else (add_fluence, add_labels):
        add()
    settle(qtbot, empty)
    assert "A note on the labels." in empty.message
    assert "2 sources" in empty.message


def test_several_sources_run_as_they_are_until_one_is_changed():
    alone = {source.kind: input_notes((source,), ()) for source in (VOLUME, SLANTED)}
    assert input_notes((PENCIL,), ()) == ()
    for source in (VOLUME, SLANTED):
        for sources in ((source, PENCIL), (PENCIL, source)):
            notes = input_notes(sources, ())
            assert len(notes) == 2
            assert not set(notes) & set(alone[source.kind])
            assert "once" in notes[1]


def test_patterns_that_share_photons_are_named():
    case = LightCase(
        domain=ball(), source=PATTERN, settings=SETTINGS, detectors=(), notes=(), name="case",
        patterns=np.ones((3, 2, 2)),
    )  # fmt: skip
    (note,) = case_notes(case)
    assert "3 patterns" in note


# -------------------------------------------------------------------------------------------------- properties


def test_properties_that_the_table_does_not_change_are_named(viewer, empty, box, qtbot):
    note = empty.voxels.table.carried_note
    add_ball(viewer, dataclasses.replace(ball(), mua_per_mm=np.full(ball().shape, 0.2), n=np.full(ball().shape, 1.4)))
    settle(qtbot, empty)
    assert "µa and n " in note.text()
    phase = TabulatedPhaseFunction(cosines=np.array([-1.0, 1.0]))
    empty.voxels.labels_box.choose(add_ball(viewer, dataclasses.replace(ball(), phase_function=phase)))
    assert "phase function" in note.text()
    empty.voxels.labels_box.choose(add_ball(viewer))
    assert note.isHidden()
    settle(qtbot, empty)


def test_tensors_of_labels_are_named_until_a_layer_replaces_them(viewer, empty, box, qtbot):
    note = empty.voxels.table.carried_note
    add_ball(viewer, with_fibers(ball(), field().tensors, field().affine))
    settle(qtbot, empty)
    assert "scattering tensors" in note.text()
    empty.voxels.fiber_box.choice.choose(add_map(viewer))
    assert note.isHidden()


def test_a_layer_of_tensors_replaces_those_of_the_labels_whatever_their_model(viewer, empty, box, qtbot):
    add_ball(viewer, with_fibers(ball(), field().tensors, field().affine, labels=[1], model="free"))
    settle(qtbot, empty)
    empty.voxels.fiber_box.choice.choose(add_map(viewer))
    empty.voxels.fiber_box.labels_box.setCurrentIndex(2)
    found = Domains().of(empty.voxels._volume())
    expected = with_fibers(ball(), field().tensors, field().affine, labels=[2])
    assert found.scattering_model == "product"
    np.testing.assert_array_equal(found.mus_tensor_per_mm, expected.mus_tensor_per_mm)
