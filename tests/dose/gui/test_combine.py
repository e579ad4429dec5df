"""Sum and difference of two plans as layers."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations import STORE, Store, run
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.quantity import STANDARD_ERROR, quantity_of
from napari_gpubio.dose import Dose
from napari_gpubio.dose.napari_io import dose_layer, dose_of
from napari_gpubio.dose.reader import read_layers
from tests.conformance.plans import save_beam, save_planned
from tests.dose.gui.panel_samples import a_dose, check_same, dose_values, expected, organs
from tests.dose.samples import affine_of


def test_the_buttons_are_there_for_two_plans_only(user, panel):
    user.add_case()
    assert panel.inputs_box.combine.isHidden()
    user.choose_two_plans(a_dose(scale=0.5))
    assert not panel.inputs_box.combine.isHidden()


@pytest.mark.parametrize(("button", "factor"), [("sum", 1.5), ("difference", 0.5)])
def test_a_layer_of_two_plans_is_a_dose(user, panel, viewer, button, factor):
    labels = user.choose_two_plans(a_dose(scale=0.5))
    first = panel.inputs_box.dose_box.layer
    getattr(panel.inputs_box.combine, button).click()
    user.settle()
    layer = viewer.layers[-1]
    assert layer.name == ("dose + B" if button == "sum" else "dose - B")
    np.testing.assert_allclose(dose_of(layer, "Gy").values, factor * dose_values(), rtol=1e-6)
    assert panel.inputs_box.dose_box.layer == first  # what was chosen stays
    assert "choose it as the dose" in panel.status
    panel.inputs_box.dose_box.choose(layer)
    panel.inputs_box.second_box.setCurrentIndex(0)
    user.run()
    assert panel.message == ""
    made_by = record_of(layer).of
    assert made_by.verb == f"dose-{button}"
    assert panel.operation().doses[0].of == made_by, "the sum is the dose, not its copy"
    fresh = Store()
    fresh.adopt_arrays(STORE)
    np.testing.assert_array_equal(run(made_by, store=fresh, device="cpu").values, dose_of(layer, "Gy").values)
    made = Dose(values=dose_of(layer, "Gy").values, affine=a_dose().affine, unit="Gy")
    for name in user.names:
        check_same(user.curve(name), expected(made, organs(), name))
    assert labels in viewer.layers


def test_a_difference_is_called_one_and_shown_around_0(user, panel, viewer):
    user.choose_two_plans(a_dose(scale=2.0))
    panel.inputs_box.combine.difference.click()
    user.settle()
    layer = viewer.layers[-1]
    assert quantity_of(layer).name.endswith("difference")
    low, high = layer.contrast_limits
    assert low == pytest.approx(-high)
    assert low < 0


def test_what_was_interpolated_is_reported(user, panel, viewer):
    other = Dose(values=dose_values((12, 10, 8)), affine=affine_of((3.0, 3.0, 4.0), (0, -8, 6)), unit="Gy", name="B")
    user.choose_two_plans(other)
    panel.inputs_box.combine.sum.click()
    user.settle()
    layer = viewer.layers[-1]
    panel.inputs_box.dose_box.choose(layer)
    user.run()
    assert "'B' lies on another grid and was interpolated linearly" in panel.notes.text()


def test_a_unit_that_was_taken_from_the_first_plan_is_reported(user, panel, viewer):
    first, _ = user.add_case()
    data, keywords, _ = dose_layer(a_dose(), name="unknown")
    keywords["metadata"] = {KEY: {"affine": keywords["metadata"][KEY]["affine"]}}
    panel.inputs_box.dose_box.choose(first)
    panel.inputs_box.second_box.choose(viewer.add_image(data, **keywords))
    panel.inputs_box.combine.sum.click()
    user.settle()
    assert "The unit of 'unknown' is not known: it is taken to be in Gy" in carried(viewer.layers[-1], "notes")[0]


def test_a_statistical_error_that_is_lost_is_reported(user, panel, viewer):
    user.choose_two_plans(a_dose(scale=0.5))
    metadata = panel.inputs_box.second_box.layer.metadata[KEY]
    metadata[STANDARD_ERROR] = 0.01 * dose_values()
    panel.inputs_box.combine.sum.click()
    user.settle()
    assert carried(viewer.layers[-1], "notes") == [
        "'B' carries its statistical error, which sums and differences do not"
    ]


@pytest.mark.parametrize(("planned", "prescription"), [((1, 2), 50.0), ((1, 2, 3), None)])
def test_the_sum_of_beams_has_the_prescription_of_their_plan(user, panel, viewer, tmp_path, planned, prescription):
    _, uid = save_planned(tmp_path, planned)
    for number in (1, 2):
        save_beam(tmp_path, f"beam {number}", uid, number)
    beams = [viewer.add_image(data, **keywords) for data, keywords, _ in read_layers(str(tmp_path))]
    panel.inputs_box.dose_box.choose(beams[0])
    panel.inputs_box.second_box.choose(beams[1])
    panel.inputs_box.combine.sum.click()
    user.settle()
    assert carried(viewer.layers[-1], "prescription") == prescription
    is_short = "2 of the 3 beams" in carried(viewer.layers[-1], "notes")[-1]
    assert is_short is (prescription is None)


def test_doses_that_do_not_go_together_are_refused(user, panel, viewer):
    first, _ = user.add_case()
    second = user.add_dose(Dose(values=dose_values(), affine=a_dose().affine, unit="J/cm2", name="light"))
    panel.inputs_box.dose_box.choose(first)
    panel.inputs_box.second_box.choose(second)
    count = len(viewer.layers)
    panel.inputs_box.combine.sum.click()
    user.settle()
    assert "cannot be added or subtracted" in panel.message
    assert len(viewer.layers) == count
