"""Light in the panel: what a layer says of its values, decades, volumes without light, bands."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.napari_io import stored_array, volume_layer
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.dose import Dose, dvh
from napari_gpubio.dose.io import read_curves_csv
from tests.dock_widgets import save_scripts_as, script_of, shown_by_script
from tests.dose.gui.panel_samples import (
    AFFINE,
    SETTINGS,
    SHAPE,
    drawn_bands,
    drawn_points,
    highlighted,
    label_values,
    organs,
)
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
    assert panel.controller.axes.dose_title == "Fluence (1/mm²)"
    assert "Mean[1/mm²]\tmean fluence" in [action.text() for action in panel.table.menu.menu().actions()]
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
    listed = [box.itemText(n) for n in range(box.count())]
    assert listed == ["mine", "error (relative standard error, not a dose)"]
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
    layer = panel.highlight.layer
    expected = np.where((label_values() > 0) & (light_values() > 0), light_values(), np.nan)
    np.testing.assert_allclose(10.0**layer.data.source, expected, rtol=1e-5)


def test_few_and_no_photons_are_highlighted_as_they_are(user, light_user):
    """At doses far below the largest, and not where there is none."""
    light_user.add()
    user.add_organs()
    panel = light_user.settled()
    user.draw_isodose()
    assert 1e-8 < panel.link.dose < 1e-2  # in the middle of a logarithmic axis
    values = np.where(label_values() > 0, light_values(), 0.0)
    for dose in (1e-7, 1e-4):
        panel.link.move_dose_line(dose)
        user.settle()
        drawn = stored_array(panel.highlight.layer)
        low, high = panel.highlight.layer.contrast_limits
        middle = 10 ** ((low + high) / 2)
        np.testing.assert_array_equal(np.nan_to_num(10.0**drawn) >= middle, values >= middle)
        assert middle == pytest.approx(dose, rel=0.01)
        assert np.count_nonzero(highlighted(panel.highlight.layer)) == np.count_nonzero(values >= dose)
    panel.tools.interval.setChecked(True)
    panel.link.move_interval(1e-7, 1e-5)
    user.settle()
    inside = np.count_nonzero((values >= 1e-7) & (values <= 1e-5))
    assert np.count_nonzero(highlighted(panel.highlight.layer)) == pytest.approx(inside, rel=0.02)


# -- volumes without light, digits, bands -----------------------------------------------------------------------------


def test_volume_without_light_is_reported_in_legend_and_table(user, light_user):
    light_user.add()
    user.add_organs()
    panel = light_user.settled()
    share = user.curve("lung").zero_percent
    assert f"{share:.3g} % zero" in panel.legend.label.text().replace("&nbsp;", " ")
    assert panel.table.titles[-1] == "Zero[%]"
    assert float(user.cells(0)[-1]) == pytest.approx(share, rel=1e-3)
    x, y = drawn_points(panel.plot)[0]
    assert x[0] > -9  # a logarithmic axis does not begin at 0
    assert y[0] == pytest.approx(100 - share)


def test_doses_without_light_are_less_than_the_lowest_one(user, light_user, tmp_path):
    light_user.add()
    user.add_organs()
    user.panel.table.columns.enter("D95%[1/mm2], D50%[1/mm2]")
    panel = light_user.settled()
    lowest = f"{user.curve('lung').least_positive:.3g}"
    table = panel.table.table
    assert user.cells(0)[1] == f"< {lowest}".replace("e-0", "e-")
    assert f"{lowest} 1/mm2" in table.item(0, 1).toolTip()
    QTest.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    titles, first, *_ = QApplication.clipboard().text().splitlines()
    assert titles.split("\t") == ["Structure", "D95% [1/mm2]", "D50% [1/mm2]"]
    assert first.split("\t") == user.cells(0)
    panel.export.write_metrics(tmp_path / "table.csv")
    assert f",<{user.curve('lung').least_positive!r}," in (tmp_path / "table.csv").read_text()
    panel.constraints.text.setPlainText("lung: D95%[1/mm2] < 1")
    assert panel.constraints.table.item(0, 1).text() == f"< {lowest} 1/mm2"
    panel.tools.volume.setChecked(True)
    panel.link.move_volume_line(95.0)
    assert f"lung &lt; {lowest} 1/mm²" in user.readout


def test_numbers_have_the_digits_of_their_bins(user, light_user):
    light_user.add()
    user.add_organs()
    user.panel.table.columns.enter("Mean[1/mm2], D50%[1/mm2]")
    light_user.settled()
    mean, median = user.cells(0)[1:]
    assert mean == f"{user.curve('lung').mean:.4g}".replace("e-0", "e-")
    assert median == f"{user.curve('lung').dose_at_percent(50):.3g}".replace("e-0", "e-")


def test_a_band_is_drawn_from_what_the_layer_carries(user, light_user):
    values = light_values()
    plain = light_user.add(name="plain")
    halves = light_user.add(name="halves", halves=np.stack([0.9 * values, 1.1 * values]))
    errors = light_user.add(name="errors", standard_error=0.2 * values)
    user.add_organs()
    panel = light_user.settled()
    for layer, words, width in ((halves, "from two halves of the photons", 0.1), (errors, "the widest", 0.2)):
        panel.inputs_box.dose_box.choose(layer)
        user.settle()
        (low, at), (high, _) = drawn_bands(panel.plot)[0]
        middle = np.searchsorted(-at, -40.0)
        center = np.log10(user.curve("lung").dose_at_percent(at[middle]))
        assert center - low[middle] == pytest.approx(width / np.log(10), rel=0.3)
        assert high[-1] > low[-1]
        assert words in panel.legend.label.text()
        assert "± " in panel.table.table.item(0, 2).toolTip()
    panel.inputs_box.dose_box.choose(plain)
    user.settle()
    assert drawn_bands(panel.plot) == [None, None]
    assert "shaded" not in panel.legend.label.text()


def test_a_band_follows_the_brush(user, light_user):
    values = light_values()
    light_user.add(halves=np.stack([0.9 * values, 1.1 * values]))
    labels = user.add_organs()
    panel = light_user.settled()
    labels.n_edit_dimensions, labels.brush_size = 3, 4
    labels.paint((6, 8, 4), 2)
    user.settle()
    curve = panel.controller.curves[1]
    painted = light_values()[np.asarray(panel.controller.live.live_dvhs[0].labels()) == 2]
    assert curve.dvh.mean == pytest.approx(painted.mean(dtype=np.float64), rel=1e-3)
    assert curve.band.high.mean == pytest.approx(1.1 * curve.dvh.mean, rel=1e-3)
    panel.axes_box.kind.setCurrentIndex(1)  # differential: no band
    user.settle()
    assert drawn_bands(panel.plot) == [None, None]


# -- Copy as Python ---------------------------------------------------------------------------------------------------


def written(path):
    """Doses and volumes by structure of a file of curves."""
    return {one.name: (one.doses, one.volumes_cc) for one in read_curves_csv(path)}


@pytest.mark.daily
@pytest.mark.parametrize("affine", [AFFINE, OBLIQUE], ids=["LAS", "oblique"])
@pytest.mark.parametrize("errors", ["halves", "standard_error"])
def test_the_script_has_the_bits_of_curves_and_bands(user, light_user, tmp_path, monkeypatch, affine, errors):
    values = light_values()
    more = {"halves": np.stack([0.9 * values, 1.1 * values]), "standard_error": 0.2 * values}
    light_user.add(affine, **{errors: more[errors]})
    user.add_organs(organs(affine=affine))
    panel = light_user.settled()
    user.type_unit("1/cm2")
    user.scale_doses(3.0)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    found = written(tmp_path / "dose-volume curves.csv") | written(tmp_path / "dose-volume bands.csv")
    for curve in panel.controller.curves:
        name = curve.dvh.name
        for one, own in ((curve.dvh, name), (curve.band.low, f"{name}, low"), (curve.band.high, f"{name}, high")):
            doses, volumes = found[own]
            np.testing.assert_array_equal(doses, one.doses)
            np.testing.assert_array_equal(volumes, one.volumes_cc)
