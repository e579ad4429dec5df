"""Every row of the table of what readers do is true, and the docs have that table."""

from pathlib import Path

import pytest

from tests.conformance import table, volumes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
KINDS = (volumes.ROWS,)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for rows in KINDS for row in rows])
def test_a_row_of_the_table_is_true(row, tmp_path):
    row.check(tmp_path)


def test_the_docs_have_the_table():
    assert PAGE.read_text(encoding="utf-8") == table(KINDS), "run: python -m tests.conformance"


def test_no_row_is_there_twice():
    names = [row.name for rows in KINDS for row in rows]
    assert len(names) == len(set(names))
