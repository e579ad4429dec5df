"""The dock widget "Diffusion tensors": what can go wrong, and opening files."""

import dataclasses

import numpy as np
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QPushButton

from napari_gpubio import diffusion
from napari_gpubio.core.files import sample_path
from napari_gpubio.diffusion.gui import tensor_panel as module
from napari_gpubio.diffusion.napari_io import field_of, scan_of
from tests.diffusion.gui.tensor_samples import add_scan, fit, layer_named, names, phantom_field, saved, sticks
from tests.dock_widgets import MILLISECONDS, NOTHING_COPIED, error_after_run, open_and_wait, save_scripts_as, script_of
from tests.sentences import says

# -- what can go wrong -----------------------------------------------------------------------------------------------


def test_run_and_copy_without_a_scan_or_its_file(proxy, fit_panel, qtbot, monkeypatch, tmp_path):
    assert "no diffusion scan" in error_after_run(qtbot, fit_panel)
    fit_panel.clear_message()
    assert script_of(fit_panel) == NOTHING_COPIED
    assert "no diffusion scan" in fit_panel.message
    add_scan(proxy, sticks())
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    assert "HeldScan(" in script_of(fit_panel)


def test_a_wrong_gradient_table_is_warned_of(proxy, fit_panel, qtbot):
    add_scan(proxy, sticks(), "right")
    fit(qtbot, fit_panel)
    assert "fits the fibers" in fit_panel.check_label.text()
    plain = fit_panel.check_label.styleSheet()
    add_scan(proxy, sticks(flip=True), "flipped")
    fit_panel.scan_box.choose(layer_named(proxy, "flipped"))
    fit(qtbot, fit_panel)
    assert "The gradient table looks wrong: x (left-right) is flipped" in fit_panel.check_label.text()
    assert fit_panel.check_label.styleSheet() != plain
    fit_panel.scan_box.choose(layer_named(proxy, "right"))
    fit(qtbot, fit_panel)
    assert fit_panel.check_label.styleSheet() == plain


def test_stop_does_not_pass_a_part_off_as_the_whole(proxy, fit_panel, qtbot, monkeypatch):
    real = module.fit_tensors_steps

    def stopped(*args, **keywords):
        """Stop the fit after its first chunk of voxels."""
        inner = real(*args, **keywords)
        yield next(inner)
        keywords["stop"].set()
        return (yield from inner)

    monkeypatch.setattr(module, "fit_tensors_steps", stopped)
    add_scan(proxy, diffusion.phantom.load_brain_phantom())
    fit(qtbot, fit_panel)
    maps = [field_of(layer) for layer in proxy.layers if field_of(layer) is not None]
    assert all(field.mask.sum() < phantom_field().mask.sum() for field in maps)
    assert "stopped" in fit_panel.message.lower()


def test_removing_the_scan_during_a_run_does_no_harm(proxy, fit_panel, qtbot, held_fit, errors):
    layer = add_scan(proxy, sticks())
    fit_panel.run_button.click()
    proxy.layers.remove(layer.name)
    with qtbot.waitSignal(fit_panel.run_finished, timeout=MILLISECONDS):
        held_fit.go.set()
    assert not errors()
    assert not fit_panel.running
    assert fit_panel.run_button.text() == "Fit"


def test_choosing_another_scan_during_a_run_hides_the_one_that_was_fitted(proxy, fit_panel, qtbot, held_fit):
    fitted = add_scan(proxy, sticks(), "fitted")
    other = add_scan(proxy, dataclasses.replace(sticks()), "other")
    fit_panel.scan_box.choose(fitted)
    fit_panel.run_button.click()
    fit_panel.scan_box.choose(other)
    with qtbot.waitSignal(fit_panel.run_finished, timeout=MILLISECONDS):
        held_fit.go.set()
    assert names(proxy)[-2:] == ["fitted FA", "fitted DEC"]
    assert (fitted.visible, other.visible) == (False, True)


def test_a_fit_of_another_scan_does_not_leave_the_old_note(proxy, fit_panel, qtbot, tmp_path):
    add_scan(proxy, diffusion.phantom.load_brain_phantom(), "with notes")
    fit(qtbot, fit_panel)
    assert fit_panel.message
    clean = add_scan(proxy, sticks(), "clean")
    fit_panel.scan_box.choose(clean)
    assert fit_panel.message == ""


def test_the_lowest_shell_of_a_scan_without_b_0_can_be_taken(proxy, fit_panel, qtbot, tmp_path):
    scan = sticks()
    along_x = np.where(scan.is_b0[:, None], [1.0, 0, 0], scan.directions)
    near = dataclasses.replace(scan, bvals=np.where(scan.is_b0, 90.0, scan.bvals), directions=along_x)
    open_and_wait(qtbot, fit_panel.open_scan, saved(near, tmp_path))
    layer = fit_panel.scan_box.layer
    assert any(says(note, "no volume counts as b = 0", "b0_limit=90") for note in fit_panel.input_notes())
    assert list(fit_panel.shell_boxes) == [100, *[shell for shell in scan.shells() if shell]]
    qtbot.mouseClick(fit_panel.findChild(QPushButton, "lowest_shell"), Qt.MouseButton.LeftButton)
    assert list(fit_panel.shell_boxes) == scan.shells()
    np.testing.assert_array_equal(scan_of(layer).is_b0, scan.is_b0)
    fit(qtbot, fit_panel)
    assert "b0_limit=90.0" in script_of(fit_panel)


# -- opening ----------------------------------------------------------------------------------------------------------


def test_opening_a_scan_and_what_goes_wrong(proxy, fit_panel, qtbot, tmp_path):
    path = saved(sticks(), tmp_path)
    open_and_wait(qtbot, fit_panel.open_scan, str(path))
    scan = scan_of(fit_panel.scan_box.layer)
    assert scan.path == path
    assert np.allclose(scan.directions, sticks().directions, atol=1e-6)
    for name, content in (("dwi.bvec", None), ("dwi.bvec", b"1 2 three"), ("dwi.nii.gz", b"this is no image")):
        (tmp_path / name).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / name).write_bytes(content)
        open_and_wait(qtbot, fit_panel.open_scan, str(path))
        assert name.removeprefix("dwi.") in fit_panel.message
        assert names(proxy) == ["dwi", "dwi b = 0 mean"]


def test_opening_tensors(proxy, fit_panel, qtbot, tmp_path):
    path = tmp_path / "tensors.nii.gz"
    diffusion.io.write_tensors(path, phantom_field())
    open_and_wait(qtbot, fit_panel.open_tensors, str(path))
    assert names(proxy) == ["tensors FA", "tensors DEC"]
    field = field_of(proxy.layers[0])
    assert np.allclose(field.tensors[field.mask], phantom_field().tensors[field.mask], atol=1e-9)
    open_and_wait(qtbot, fit_panel.open_tensors, str(tmp_path / "missing.nii.gz"))
    assert "missing.nii.gz" in fit_panel.message
    open_and_wait(qtbot, fit_panel.open_tensors, str(sample_path("brain_phantom") / "dwi.nii.gz"))
    assert fit_panel.message
    assert len(proxy.layers) == 2
