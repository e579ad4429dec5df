"""Files of the table of optical properties."""

import dataclasses

import pytest

from napari_gpubio.light.io.table import read_table
from napari_gpubio.light.tissue import preset, preset_recipe
from tests.light.gui.property_samples import COLORS, MUA, NAME, answer, choose, medium


@pytest.mark.parametrize("name", ["table.csv", "table.json"])
def test_saving_and_loading(table, tmp_path, name):
    table.set_media([medium(3, "gray, matter", 1 / 3)])
    saved = table.media()
    table.save(tmp_path / name)
    assert table.message.text == f"saved 3 rows in {name}"
    assert read_table(tmp_path / name) == saved
    table.model.type_in({(0, MUA): "7", (2, NAME): ""})
    table.load(tmp_path / name)
    assert table.media() == saved
    table.model.type_in({(0, MUA): "7"})
    table.model.reset()
    assert table.media() == saved


@pytest.mark.parametrize("wavelength_nm", [690.0, 712.3])
def test_a_loaded_table_follows_the_wavelength_where_it_came_from_presets(table, tmp_path, monkeypatch, wavelength_nm):
    own = dataclasses.replace(preset_recipe("mouse muscle"), name="", source="")
    for row, recipe in enumerate((preset_recipe("skull (Strangman 2003)"), preset_recipe("mouse muscle"), own)):
        answer(monkeypatch, recipe, wavelength_nm)
        choose(table, (row, NAME))
        table.choose_preset()
    saved = table.media()
    table.save(tmp_path / "table.csv")
    table.model.reset()
    table.load(tmp_path / "table.csv")
    assert table.media() == saved
    table.set_wavelength(760)
    now = [row.medium() for row in table.model.rows]
    assert now[0].mua_per_mm == preset("skull (Strangman 2003)", 760).mua_per_mm
    assert now[1].mua_per_mm == preset("mouse muscle", 760).mua_per_mm
    assert now[2] == saved[2]  # a composition of one's own is not in the file


def test_numbers_alone_do_not_make_a_preset(table):
    like = dataclasses.replace(preset("skull (Strangman 2003)", 690.0), label=3, source="measured by us")
    table.set_media([like])
    table.set_wavelength(830)
    assert table.media()[2] == like


def test_a_file_for_other_labels_says_so_and_loses_nothing(table, tmp_path):
    table.set_labels([1, 9], COLORS)
    table.set_media([medium(9)])
    table.save(tmp_path / "table.csv")
    table.set_labels([1, 2], COLORS)
    table.load(tmp_path / "table.csv")
    text = "loaded 2 rows from table.csv; it has none for label 2; label 9 is not in the layer"
    assert table.message.text == text
    assert [row.name for row in table.model.rows] == ["scalp", "skull"]


@pytest.mark.parametrize("name", ["missing.csv", "table.docx", "bad.csv", "no folder/table.csv"])
def test_files_that_cannot_be_used_are_a_sentence(table, tmp_path, name):
    (tmp_path / "bad.csv").write_text("label,mua_per_mm\n1,many\n")
    before = table.model.rows
    table.load(tmp_path / name)
    assert table.message.text.startswith("The table could not be loaded: ")
    assert table.model.rows == before
    table.set_media([medium(3)])
    if name != "bad.csv" and name != "missing.csv":
        table.save(tmp_path / name)
        assert table.message.text.startswith("The table could not be saved: ")


def test_a_table_with_a_problem_is_not_saved(table, tmp_path):
    table.save(tmp_path / "table.csv")
    assert "label 3 has no optical properties" in table.message.text
    assert not list(tmp_path.iterdir())
