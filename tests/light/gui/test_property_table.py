"""The widget with the table of optical properties: labels, media, presets, and its end."""

import dataclasses

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.gui import property_table
from napari_gpubio.light.gui.optical_model import NO_LABELS
from napari_gpubio.light.tissue import HEAD_TABLES, head_media, preset, preset_recipe
from tests.light.gui.property_samples import COLORS, MUA, MUS, NAME, answer, button, choose, medium


def test_without_labels_it_says_what_to_do(empty_table):
    texts = [w.text().replace("\u2011", "-") for w in empty_table.findChildren(property_table.QLabel) if w.isVisible()]
    assert texts == [NO_LABELS[0].upper() + NO_LABELS[1:]]
    assert not empty_table.view.isVisible()
    with pytest.raises(InvalidInput, match="choose a Labels layer"):
        empty_table.media()
    empty_table.set_labels([1], COLORS)
    assert empty_table.view.isVisible()
    assert "label 1 has no optical properties" in empty_table.message.text
    empty_table.set_labels([], {})
    assert not empty_table.view.isVisible()


def numbers(media):
    return [(m.label, m.name, m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in media]


@pytest.mark.parametrize("sample", HEAD_TABLES)
def test_the_sample_of_a_head_fills_the_table_and_follows_the_wavelength(empty_table, sample):
    first, other = {"Strangman 2003": (830, 690), "Cassano 2019": (670, 810), "Fang 2009": (630, 630)}[sample]
    empty_table.set_labels(range(1, 6), {})
    empty_table.set_media(head_media(first, sample))
    assert empty_table.media() == head_media(first, sample)
    assert empty_table.wavelength_nm == first
    empty_table.set_wavelength(other)
    assert numbers(empty_table.media()) == numbers(head_media(other, sample))
    empty_table.set_wavelength(555)
    assert "is not for 555 nm" in empty_table.message.text
    assert numbers(empty_table.media()) == numbers(head_media(other, sample))  # nothing better is known


def test_selecting_a_row_tells_its_label_once(table):
    table.view.go_to(2, MUA)
    table.view.go_to(2, MUS)
    table.view.go_to(0, MUS)
    assert table.selected == [3, 1]
    assert table.selected_label == 1
    table.select_label(2)
    assert table.selected_label == 2
    table.select_label(77)
    assert table.selected_label == 2
    assert table.selected == [3, 1]


def test_another_layer_keeps_the_row_that_was_selected_and_tells_nothing(table):
    table.view.go_to(2)
    table.selected.clear()
    table.set_labels([2, 3, 4], COLORS)
    assert table.selected_label == 3
    table.set_labels([8, 9], COLORS)
    assert table.selected_label == 8
    assert not table.selected
    table.set_labels([1, 2], COLORS)
    assert [row.name for row in table.model.rows] == ["scalp", "skull"]


def test_the_line_below_tells_the_source_of_the_current_row(table):
    table.view.go_to(1, NAME)
    assert table.message.detail == "label 2 (skull): a book"
    table.view.go_to(2, NAME)
    assert table.message.detail == ""


def test_a_preset_fills_the_selected_rows(table, monkeypatch):
    recipe = preset_recipe("skull (Strangman 2003)")
    asked = answer(monkeypatch, recipe, wavelength_nm=760.0)
    choose(table, (1, MUA), (2, NAME))
    table.set_unit("1/cm")
    preset_button = button(table, "Preset")
    assert preset_button.text() == "Preset for 2 labels…"
    preset_button.click()
    assert asked.asked == ([2, 3], 690.0, "1/cm")
    assert asked.deleted
    expected = preset("skull (Strangman 2003)", 760.0)
    assert table.media() == (
        medium(1, "scalp"),
        dataclasses.replace(expected, label=2),
        dataclasses.replace(expected, label=3),
    )
    assert table.wavelength_nm == 760.0
    table.set_wavelength(690)
    assert [m.mua_per_mm for m in table.media()[1:]] == [preset("skull (Strangman 2003)", 690.0).mua_per_mm] * 2


def test_a_cancelled_preset_changes_nothing(table, monkeypatch):
    answer(monkeypatch, None)
    before = table.model.rows
    table.view.go_to(2, NAME)
    button(table, "Preset").click()
    assert table.model.rows == before
    table.view.selectionModel().clear()
    assert not button(table, "Preset").isEnabled()
    table.choose_preset()
    assert table.model.rows == before
