"""The dock widget "Diffusion tensors": what can go wrong, and opening files."""

import dataclasses
import shutil

import numpy as np
import pytest

from napari_gpubio import tracts
from napari_gpubio.core.files import sample_path
from napari_gpubio.tracts.gui import tensor_panel as module
from napari_gpubio.tracts.napari_io import field_of, scan_of
from tests.dock_widgets import MILLISECONDS, NOTHING_COPIED, script_of
from tests.tracts.tensor_gui.panel_samples import add_scan, fit, layer_named, names, phantom_field, saved, sticks

# ------------------------------------------------------------------------------------------------ what can go wrong


def test_without_a_scan_run_and_copy_say_so(viewer, panel):
    panel.run_button.click()
    assert "no diffusion scan" in panel.message
    assert not panel.running
    panel.clear_message()
    assert script_of(panel) == NOTHING_COPIED
    assert "no diffusion scan" in panel.message


def test_a_wrong_gradient_table_is_warned_of(viewer, panel, qtbot):
    add_scan(viewer, sticks(), "right")
    fit(qtbot, panel)
    assert "fits the fibers" in panel.check_label.text()
    plain = panel.check_label.styleSheet()
    add_scan(viewer, sticks(flip=True), "flipped")
    panel.scan_box.choose(layer_named(viewer, "flipped"))
    fit(qtbot, panel)
    assert "The gradient table looks wrong: x (left-right) is flipped" in panel.check_label.text()
    assert panel.check_label.styleSheet() != plain
    panel.scan_box.choose(layer_named(viewer, "right"))
    fit(qtbot, panel)
    assert panel.check_label.styleSheet() == plain


def test_stop_does_not_pass_a_part_off_as_the_whole(viewer, panel, qtbot, monkeypatch):
    stop_in_the_middle(monkeypatch, panel)
    add_scan(viewer, tracts.load_brain_phantom())
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    maps = [field_of(layer) for layer in viewer.layers if field_of(layer) is not None]
    assert all(field.mask.sum() < phantom_field().mask.sum() for field in maps)
    assert "stopped" in panel.message.lower()


def stop_in_the_middle(monkeypatch, panel):
    """Let the fit be stopped after its first chunk of voxels."""
    real = module.fit_steps

    def steps(*args, **keywords):
        inner = real(*args, **keywords)
        step = next(inner)
        yield step
        keywords["stop"].set()
        return (yield from inner)

    monkeypatch.setattr(module, "fit_steps", steps)


@pytest.mark.display
def test_removing_the_scan_during_a_run_does_no_harm(viewer, panel, qtbot, held, errors):
    layer = add_scan(viewer, sticks())
    panel.run_button.click()
    viewer.layers.remove(layer.name)
    with qtbot.waitSignal(panel.run_finished, timeout=2000, raising=False) as said:
        held.go.set()
    assert not errors()
    assert said.signal_triggered
    assert not panel.running
    assert panel.run_button.text() == "Fit"


def test_choosing_another_scan_during_a_run_hides_the_one_that_was_fitted(viewer, panel, qtbot, held):
    fitted = add_scan(viewer, sticks(), "fitted")
    other = add_scan(viewer, dataclasses.replace(sticks()), "other")
    panel.scan_box.choose(fitted)
    panel.run_button.click()
    panel.scan_box.choose(other)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        held.go.set()
    assert names(viewer)[-2:] == ["fitted FA", "fitted DEC"]
    assert (fitted.visible, other.visible) == (False, True)


def test_a_fit_of_another_scan_does_not_leave_the_old_note(viewer, panel, qtbot, tmp_path):
    add_scan(viewer, tracts.load_brain_phantom(), "with notes")
    fit(qtbot, panel)
    assert panel.message
    clean = add_scan(viewer, sticks(), "clean")
    panel.scan_box.choose(clean)
    assert "gradient table: dwi.bval" not in panel.message


# ---------------------------------------------------------------------------------------------------------- opening


def test_opening_a_scan_and_what_goes_wrong(viewer, panel, tmp_path):
    path = saved(sticks(), tmp_path)
    panel.open_scan(str(path))
    scan = scan_of(panel.scan_box.layer)
    assert scan.path == path
    assert np.allclose(scan.directions, sticks().directions, atol=1e-6)
    shutil.move(tmp_path / "dwi.bvec", tmp_path / "elsewhere.txt")
    panel.open_scan(str(path))
    assert "bvec" in panel.message
    assert len(viewer.layers) == 1
    (tmp_path / "dwi.bvec").write_text("1 2 three")
    panel.open_scan(str(path))
    assert "dwi.bvec" in panel.message
    assert len(viewer.layers) == 1
    path.write_bytes(b"this is no image")
    panel.open_scan(str(path))
    assert "dwi.nii.gz" in panel.message
    assert len(viewer.layers) == 1


def test_opening_tensors(viewer, panel, tmp_path):
    path = tmp_path / "tensors.nii.gz"
    tracts.write_tensors(path, phantom_field())
    panel.open_tensors(str(path))
    assert names(viewer) == ["tensors FA", "tensors DEC"]
    field = field_of(viewer.layers[0])
    assert np.allclose(field.tensors[field.mask], phantom_field().tensors[field.mask], atol=1e-9)
    panel.open_tensors(str(tmp_path / "missing.nii.gz"))
    assert "missing.nii.gz" in panel.message
    panel.open_tensors(str(sample_path("brain_phantom") / "dwi.nii.gz"))
    assert panel.message
    assert len(viewer.layers) == 2
