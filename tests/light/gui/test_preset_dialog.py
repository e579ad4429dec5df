"""The dialog that fills rows of the optical property table."""

import dataclasses
import math
import weakref

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QComboBox, QDialog, QLineEdit, QPushButton, QTreeWidget

from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.optics.gui.optical_rows import PropertyRow
from napari_gpubio.optics.gui.preset_dialog import (
    CHOOSE,
    PresetDialog,
    PresetPlot,
    decade_ticks,
    medium_text,
    sample_wavelengths,
    spectra,
)
from napari_gpubio.optics.gui.preset_tissues import CompositionForm, source_text
from napari_gpubio.optics.tissue import (
    Chromophores,
    Composition,
    PowerLaw,
    power_law,
    preset,
    preset_names,
    preset_recipe,
)
from tests.dock_widgets import ended
from tests.sentences import says

SCALP, BRAIN, MUSCLE = "scalp (Strangman 2003)", "brain (Strangman 2003)", "mouse muscle"


@pytest.fixture
def open_dialog(qtbot):
    def make(*rows, wavelength_nm=690.0, unit="1/mm"):
        dialog = PresetDialog(rows or [PropertyRow(label=2)], wavelength_nm, unit)
        qtbot.addWidget(dialog)
        return dialog

    return make


def use(dialog):
    return next(b for b in dialog.findChildren(QPushButton) if b.text().startswith("Use for"))


def set_wavelength(dialog, nm):
    dialog.findChild(NumberBox).setValue(nm)


def listed(dialog):
    tree = dialog.findChild(QTreeWidget)
    items = [tree.topLevelItem(index) for index in range(tree.topLevelItemCount())]
    return [[item.text(c) for c in range(item.columnCount())] for item in items if not item.isHidden()]


# ------------------------------------------------------------------------------------------------------------ tissues


def test_every_preset_is_listed_with_its_numbers_those_known_at_the_wavelength_first(open_dialog):
    rows = listed(open_dialog(wavelength_nm=690.0))
    assert len(rows) == len(preset_names())
    known = preset_names(690.0)
    assert [bool(row[2]) for row in rows] == [True] * len(known) + [False] * (len(rows) - len(known))
    scalp = preset(SCALP, 690.0)
    expected = ["scalp", "Strangman 2003", f"{scalp.mua_per_mm:g}", f"{scalp.musp_per_mm:.4g}", "0.92", "1.37"]
    assert rows[0][:6] == expected
    assert "690, 830" in rows[0][6]
    per_cm = listed(open_dialog(unit="1/cm"))[0]
    assert float(per_cm[2]) == pytest.approx(10 * float(rows[0][2]))


def test_a_tissue_is_chosen_where_it_is_known(open_dialog):
    dialog = open_dialog()
    assert dialog.recipe is None
    assert dialog.text == CHOOSE
    assert not use(dialog).isEnabled()
    dialog.tissues.choose(SCALP)
    assert dialog.recipe is preset_recipe(SCALP)
    assert dialog.text == medium_text(preset(SCALP, 690.0), "1/mm")
    assert preset(SCALP, 690.0).source in dialog.text
    set_wavelength(dialog, 550)
    assert dialog.wavelength_nm == 550.0
    assert dialog.recipe is None
    assert not use(dialog).isEnabled()
    assert "550 nm" in dialog.text
    set_wavelength(dialog, 760)
    assert dialog.recipe is preset_recipe(SCALP)  # still chosen
    assert "interpolated between 690 and 830 nm" in dialog.text
    use(dialog).click()
    assert dialog.result() == QDialog.DialogCode.Accepted


def test_searching_and_a_double_click(open_dialog):
    dialog = open_dialog()
    search, tree = dialog.tissues.findChild(QLineEdit), dialog.findChild(QTreeWidget)
    dialog.tissues.choose(SCALP)
    QTest.keyClicks(search, "MATTER cassano")
    assert [row[:2] for row in listed(dialog)] == [["gray matter", "Cassano 2019"], ["white matter", "Cassano 2019"]]
    assert dialog.recipe is None  # what is not seen is not chosen
    search.clear()
    assert len(listed(dialog)) == len(preset_names())
    assert dialog.recipe is preset_recipe(SCALP)
    set_wavelength(dialog, 700)
    search.setText("no such tissue")
    assert listed(dialog) == []
    search.clear()
    tree.itemDoubleClicked.emit(tree.currentItem(), 0)
    assert dialog.result() == QDialog.DialogCode.Accepted


def test_it_says_which_rows_it_fills_and_opens_at_what_fills_them(open_dialog):
    dialog = open_dialog(PropertyRow(label=2, name="skull"))
    assert dialog.windowTitle() == "Optical properties of label 2 (skull)"
    assert use(dialog).text() == "Use for label 2"
    assert dialog.recipe.tissue == "skull"  # the name says it
    several = open_dialog(PropertyRow(label=1), PropertyRow(label=7))
    assert (several.windowTitle(), use(several).text()) == ("Optical properties of 2 labels", "Use for 2 labels")
    assert open_dialog(PropertyRow(label=1, name="unheard of")).recipe is None
    filled = PropertyRow(label=1, name="skull").filled(preset_recipe(BRAIN), 690.0)
    assert open_dialog(filled).recipe is preset_recipe(BRAIN)
    own = dataclasses.replace(preset_recipe(MUSCLE), name="", g=0.8)
    assert open_dialog(PropertyRow(label=1).filled(own, 690.0)).recipe == own


# ------------------------------------------------------------------------------------------------------- chromophores


@pytest.fixture
def form(qtbot):
    form = CompositionForm()
    qtbot.addWidget(form)
    return form


def combo(form, data):
    return next(b for b in form.findChildren(QComboBox) if b.findData(data) >= 0)


def choose(form, data):
    box = combo(form, data)
    box.setCurrentIndex(box.findData(data))
    box.activated.emit(box.currentIndex())


def test_a_composition_becomes_its_absorption_and_scattering(open_dialog):
    """mu_a by the sum of its parts, mu_s' by the power law, mu_s by mu_s' / (1 - g)."""
    dialog = open_dialog(wavelength_nm=800.0)
    dialog.show_tab(chromophores=True)
    parts = Chromophores(blood_fraction=0.05, oxygen_saturation=0.6, water_fraction=0.5, fat_fraction=0.2)
    made = Composition(name="", chromophores=parts, scattering=PowerLaw(a_per_mm=2.0, b=1.5), g=0.8, n=1.4)
    dialog.composition.set_value(made)
    medium = dialog.recipe.medium(800.0)
    assert medium.musp_per_mm == pytest.approx(2.0 * (800 / 500) ** -1.5, rel=1e-12)
    assert medium.mus_per_mm == pytest.approx(medium.musp_per_mm / 0.2, rel=1e-12)
    assert medium.mua_per_mm == pytest.approx(float(parts.mua_per_mm(800.0)), rel=1e-12)
    assert (medium.g, medium.n) == (0.8, 1.4)
    more_blood = dataclasses.replace(parts, blood_fraction=0.10)
    dialog.composition.set_value(dataclasses.replace(made, chromophores=more_blood))
    assert dialog.recipe.medium(800.0).mua_per_mm > 1.5 * medium.mua_per_mm
    # impossible fractions are a sentence
    absorption = dialog.composition.absorption
    for name in ("water_fraction", "fat_fraction"):
        absorption.widget(name).value = 0.8
    assert dialog.recipe is None
    assert not use(dialog).isEnabled()
    assert "fill 1.6 of the volume" in dialog.text
    absorption.widget("fat_fraction").value = 0.1
    assert use(dialog).isEnabled()


@pytest.mark.parametrize("name", [n for n in preset_names() if isinstance(preset_recipe(n), Composition)])
def test_a_tissue_of_the_literature_is_kept_to_the_last_digit_until_it_is_edited(form, name):
    choose(form, name)
    tissue = preset_recipe(name)
    assert form.value() is tissue
    assert combo(form, name).currentData() == name
    form.absorption.widget("water_fraction").value = 0.123
    edited = form.value()
    assert edited == dataclasses.replace(
        tissue,
        name="",
        chromophores=dataclasses.replace(tissue.chromophores, water_fraction=0.123),
        source=source_text(edited.chromophores, tissue.scattering),
    )
    assert combo(form, name).currentData() == ""


def test_the_scattering_of_a_tissue(form):
    choose(form, "brain (mean)")
    assert form.value().scattering == power_law("brain (mean)")
    form.scattering.widget("b").value = 1.5
    assert form.value().scattering == PowerLaw(a_per_mm=round(power_law("brain (mean)").a_per_mm, 4), b=1.5)
    assert combo(form, "brain (mean)").currentData() == ""


def test_a_composition_says_what_it_is_made_of():
    chromophores = Chromophores(blood_fraction=0.03, oxygen_saturation=0.7, water_fraction=0.75)
    own = source_text(chromophores, PowerLaw(a_per_mm=2.5, b=1.2))
    assert says(own, "µa", "blood 3 %", "saturation 70 %", "water 75 %", "µs′", "2.5", "500 nm", "-1.2", "1/mm")
    cited = source_text(Chromophores(), power_law("brain (mean)"))
    assert cited.startswith("µa of nothing; ")
    assert "Jacques" in cited


# ----------------------------------------------------------------------------------------------------------- the plot


@pytest.mark.parametrize("name", preset_names())
def test_spectra_are_those_of_the_recipe_and_leave_gaps_where_it_has_none(name):
    recipe = preset_recipe(name)
    at = sample_wavelengths(recipe)
    assert (at[0], at[-1]) == recipe.range_nm
    mua, musp = spectra(recipe, at)
    rows = getattr(recipe, "rows", ())
    for row in rows:
        index = int(np.flatnonzero(at == row.wavelength_nm)[0])
        assert mua[index] == (row.mua_per_mm or pytest.approx(math.nan, nan_ok=True))
        assert musp[index] == pytest.approx(row.mus_per_mm * (1 - row.g))
    assert rows or np.isfinite(mua).all()
    if name == "epidermis (Tuchin 1997)":  # 337 and 633 nm, with no line between
        assert np.isfinite(mua).sum() == len(rows)


def test_the_plot_is_in_the_unit_and_marks_the_wavelength(qtbot):
    plot = PresetPlot("1/cm")
    qtbot.addWidget(plot)
    plot.show_recipe(preset_recipe(MUSCLE), 700.0)
    x, y = plot.curves[0].getOriginalDataset()
    at = int(np.flatnonzero(x == 700.0)[0])
    assert y[at] == pytest.approx(10 * preset(MUSCLE, 700.0).mua_per_mm)
    assert plot.line.value() == 700.0
    (left, right), (low, high) = plot.viewRange()
    assert left < 450 < 1000 < right
    assert 10**low < np.nanmin(y) <= np.nanmax(y) < 10**high
    plot.show_recipe(None, 500.0)
    assert not np.any(plot.curves[0].getOriginalDataset()[1])
    assert decade_ticks(-2, 0)[0] == [(-2.0, "0.01"), (-1.0, "0.1"), (0.0, "1")]


# -------------------------------------------------------------------------------------------------------- afterwards


def test_a_closed_dialog_is_gone(qtbot):
    dialog = PresetDialog([PropertyRow(label=1, name="skull")], 690.0)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    dialog.show()
    gone = weakref.ref(dialog)
    dialog.close()
    dialog.deleteLater()
    del dialog
    assert ended(qtbot, gone)
