"""Names that would become code, columns or lines of their own."""

import csv

import pytest

from napari_gpubio.core.text import comment, delimited, one_line

NAMES = [
    "plain",
    "a\nb",
    "a\r\nb",
    "a\u2028b",
    "a\x85b",
    "tab\there",
    "a,b",
    'say "so"',
    "\x1b[31mred",
    "naïve 脳",
    "'; x",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_is_one_line(name):
    assert len(one_line(name).splitlines()) == 1
    assert one_line(name).isprintable()
    compile(comment(name), "script", "exec")
    assert len(comment(name).splitlines()) == 1


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_table_has_a_line_for_each_row_and_a_cell_for_each_name(separator):
    text = delimited([NAMES, ["0.5"] * len(NAMES)], separator)
    assert len(text.splitlines()) == 2
    names, values = csv.reader(text.splitlines(), delimiter=separator)
    assert names == [one_line(name) for name in NAMES]
    assert len(values) == len(NAMES)
