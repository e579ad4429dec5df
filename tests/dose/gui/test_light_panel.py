"""Light in the panel: what a layer says of its values, decades, volumes without light, bands."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.dose import Dose, dvh
from tests.dose.gui.panel_samples import AFFINE, SETTINGS, SHAPE, label_values, organs
from tests.dose.samples import ROTATION, affine_of

OBLIQUE = affine_of((2.0, 2.0, 3.0), (-9, -9, -15), ROTATION)


def light_values(seed=0):
    """Fluence over eight decades, with voxels that no photon reached."""
    rng = np.random.default_rng(seed)
    values = (10.0 ** (-8 * rng.random(SHAPE))).astype(np.float32)
    values[rng.random(SHAPE) < 0.2] = 0.0
    return values


def light(unit="1/mm²", affine=AFFINE):
    return Dose(values=light_values(), affine=affine, unit=unit, quantity="fluence")


class LightUser:
    """A user with layers of light."""

    def __init__(self, user, viewer):
        self.user, self.viewer = user, viewer

    def add(self, affine=AFFINE, *, scale="log10", unit="1/mm²", name="fluence", own=True, **errors):
        values = light_values()
        if scale == "log10":
            with np.errstate(divide="ignore"):
                values = np.where(values > 0, np.log10(values), np.nan).astype(np.float32)
        known = quantity_metadata(Quantity("fluence", unit, scale), **errors) if own else {}
        data, keywords, _ = volume_layer(values, affine, name, contrast_limits=(-8, 0), metadata=known)
        return self.viewer.add_image(data, **keywords)

    def settled(self):
        self.user.run()
        return self.user.panel


@pytest.fixture
def light_user(user, viewer):
    return LightUser(user, viewer)


@pytest.mark.parametrize("scale", ["log10", "linear"])
@pytest.mark.parametrize("affine", [AFFINE, OBLIQUE], ids=["LAS", "oblique"])
def test_a_fluence_is_counted_as_what_it_means(user, light_user, scale, affine):
    light_user.add(affine, scale=scale)
    user.add_organs(organs(affine=affine))
    panel = light_user.settled()
    assert panel.message == ""
    expected = dvh(light(affine=affine), organs(affine=affine), SETTINGS, device="cpu")
    for name in ("lung", "heart"):
        found = user.curve(name)
        np.testing.assert_allclose(found.mean, expected[name].mean, rtol=1e-5)
        values = light_values()[label_values() == (1 if name == "lung" else 2)]
        assert found.mean == pytest.approx(values.mean(dtype=np.float64), rel=1e-3)
        assert found.zero_percent == pytest.approx(100 * np.mean(values == 0))
        assert found.dose_at_percent(50) == pytest.approx(np.median(values), rel=0.1)
    assert panel.axes_box.log.isChecked()
    assert panel.inputs_box.unit.text() == "1/mm²"
    assert not panel.inputs_box.scale.isEnabled()
    assert "fluence (1/mm²)" in panel.inputs_box.sizes.text()


def test_a_unit_of_the_same_kind_converts_and_others_are_refused(user, light_user):
    light_user.add()
    user.add_organs()
    panel = light_user.settled()
    mean = user.curve("lung").mean
    user.type_unit("1/cm2")
    user.settle()
    assert user.curve("lung").mean == pytest.approx(100 * mean)
    for typed, words in (("Gy", "cannot be given in Gy"), ("foo", "not a known unit"), ("-3", "not a known unit")):
        user.type_unit(typed)
        user.settle()
        assert words in panel.message


def test_logarithms_of_others_are_declared_by_the_user(user, light_user):
    light_user.add(own=False)
    user.add_organs()
    box = user.panel.inputs_box
    assert box.scale.isEnabled()
    user.type_unit("1/mm2")
    box.scale.setCurrentIndex(1)
    box.scale.activated.emit(1)
    panel = light_user.settled()
    assert panel.message == ""
    values = light_values()[label_values() == 1]
    assert user.curve("lung").mean == pytest.approx(values.mean(dtype=np.float64), rel=1e-3)


def test_a_map_of_errors_is_no_dose_and_a_choice_is_kept(user, viewer, light_user):
    chosen = light_user.add(own=False, name="mine")
    data, keywords, _ = volume_layer(
        np.ones(SHAPE, np.float32),
        AFFINE,
        "error",
        metadata=quantity_metadata(Quantity("relative standard error", "%")),
    )
    viewer.add_image(data, **keywords)
    box = user.panel.inputs_box.dose_box
    assert [box.itemText(n) for n in range(box.count())] == ["mine"]
    box.activated.emit(0)  # the user's own choice
    light_user.add(name="newer")
    assert box.layer == chosen


def test_two_plans_in_units_of_one_kind_share_an_axis(user, light_user):
    first = light_user.add()
    second = light_user.add(name="again", unit="1/cm²")
    user.add_organs()
    user.panel.inputs_box.dose_box.choose(first)
    user.panel.inputs_box.second_box.choose(second)
    light_user.settled()
    assert user.curve("lung", second=True).mean == pytest.approx(0.01 * user.curve("lung").mean)


def test_an_oblique_fluence_is_highlighted_voxel_by_voxel(user, light_user):
    light_user.add(OBLIQUE)
    user.add_organs(organs(affine=OBLIQUE))
    panel = light_user.settled()
    user.draw_isodose()
    panel.link.move_dose_line(1e-4)
    user.settle()
    expected = np.where(label_values() > 0, light_values(), np.nan)
    np.testing.assert_allclose(panel.highlight.layer.data.source, expected, rtol=1e-5)
