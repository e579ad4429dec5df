"""Scale, prescription and axes: read off the same histograms, which are not counted anew."""

import numpy as np
import pytest

from tests.dose.gui.panel_samples import drawn_points
from tests.sentences import says


def test_prescription_and_scale_count_nothing(user, filled_panel, monkeypatch):
    panel = filled_panel
    monkeypatch.setattr(panel, "make_steps", lambda *_: pytest.fail("it was counted again"))
    panel.table.columns.enter("V95%[%], D50%[%]")
    assert user.cells(0)[1:] == ["–", "–"]
    assert "is in % of the prescription; give it" in panel.table.problem.text()
    user.prescribe(25.0)
    lung = user.curve("lung")
    assert user.cells(0)[1:] == [f"{lung.percent_at(23.75):.4g}", f"{4 * lung.dose_at_percent(50):.4g}"]
    assert panel.plot.prescription.isVisible()
    assert panel.plot.prescription.value() == 25.0
    user.scale_doses(2.5)
    after = user.curve("lung")
    np.testing.assert_allclose(after.doses, 2.5 * lung.doses)
    np.testing.assert_array_equal(after.volumes_cc, lung.volumes_cc)
    assert after.mean == pytest.approx(2.5 * lung.mean)
    panel.scale_box.scale.slider.setValue(0)  # the slider's lower end
    user.settle()
    assert user.curve("lung").mean == pytest.approx(0.1 * lung.mean)


def test_one_of_several_prescriptions_is_chosen(user, viewer, panel):
    both = ((60.0, "prescribed to 'PTV'"), (50.0, "prescribed to 'nodes'"))
    user.add_dose(name="plan", metadata={"prescription": 60.0, "prescriptions": both})
    box, labels = panel.scale_box.prescribed, panel.scale_box.prescription.box
    assert (labels.value(), box.isVisibleTo(panel)) == (60.0, True)
    assert says(box.itemText(1), "50 Gy", "'nodes'")
    box.setCurrentIndex(1)
    box.activated.emit(1)
    assert panel.scale_box.reference == 50.0
    panel.inputs_box.dose_box.choose(user.add_dose(name="other"))
    assert (box.count(), box.isVisibleTo(panel)) == (0, False)


def test_light_is_scaled_by_power_and_time(user, viewer, panel):
    user.add_dose(metadata={"energy_j": 2.0, "prescription": 30.0})
    assert panel.scale_box.is_light
    assert (panel.scale_box.energy.value(), panel.scale_box.reference) == (2.0, 30.0)
    assert panel.axes_box.log.isChecked()
    user.add_case()
    panel.inputs_box.dose_box.choose(viewer.layers["dose"])
    panel.scale_box.mode.setCurrentText("power × time")
    panel.scale_box.power.box.setValue(500.0)
    panel.scale_box.time.box.setValue(12.0)
    panel.scale_box.energy.setValue(2.0)
    user.run()
    assert panel.controller.factor == pytest.approx(3.0)  # 0.5 W x 12 s / 2 J
    assert user.curve("lung").mean == pytest.approx(3 * float(panel.controller.results[0]["lung"].mean))


def drawn(panel, number=0):
    return drawn_points(panel.plot)[number]


def test_axes_are_relative_or_absolute_each(user, filled_panel):
    lung = user.curve("lung")
    filled_panel.axes_box.dose.setCurrentIndex(1)
    user.settle()
    assert "Enter a prescription" in filled_panel.notes.text()
    assert "Gy" in filled_panel.plot.getAxis("bottom").labelText
    filled_panel.scale_box.prescription.box.setValue(20.0)
    for unit, volume, factor_x, factor_y in (
        ("Gy", "%", 1.0, 100 / lung.volume_cc),
        ("Gy", "cc", 1.0, 1.0),
        ("%", "cc", 5.0, 1.0),
        ("%", "%", 5.0, 100 / lung.volume_cc),
    ):
        filled_panel.axes_box.dose.setCurrentText(unit)
        filled_panel.axes_box.volume.setCurrentText(volume)
        user.settle()
        x, y = drawn(filled_panel)
        doses, volumes = factor_x * lung.doses, factor_y * lung.volumes_cc
        at = [int(np.abs(doses - place).argmin()) for place in x[1:]]  # some of all points are drawn
        np.testing.assert_allclose(x[1:], doses[at])
        np.testing.assert_allclose(y[1:], volumes[at])
        assert (at[0], at[-1]) == (0, len(doses) - 1)
        assert volume in filled_panel.plot.getAxis("left").labelText
        assert unit in filled_panel.plot.getAxis("bottom").labelText


def test_a_differential_histogram_sums_to_the_volume(user, filled_panel):
    filled_panel.tools.volume.setChecked(True)
    filled_panel.axes_box.kind.setCurrentText("differential")
    filled_panel.axes_box.volume.setCurrentText("cc")
    for log in (False, True):
        filled_panel.axes_box.log.setChecked(log)
        user.settle()
        edges = drawn(filled_panel, 1)[0]
        np.testing.assert_allclose(drawn(filled_panel, 0)[0], edges)
        for number, name in enumerate(("lung", "heart")):
            x, y = drawn(filled_panel, number)
            assert len(x) == len(y) + 1
            assert y.sum() == pytest.approx(user.curve(name).volume_cc)
    assert not filled_panel.plot.volume_line.isVisible()  # which has no meaning there
    assert not filled_panel.tools.volume.isEnabled()


def test_the_line_keeps_its_dose_on_a_logarithmic_axis(user, filled_panel):
    user.draw_isodose()
    filled_panel.link.move_dose_line(10.0)
    assert filled_panel.plot.dose_line.value() == pytest.approx(10.0)
    filled_panel.axes_box.log.setChecked(True)
    user.settle()
    assert filled_panel.plot.dose_line.value() == pytest.approx(1.0)
    x, y = drawn(filled_panel)
    np.testing.assert_allclose(np.interp(1.0, x, y), user.curve("lung").percent_at(10.0), rtol=1e-3)
