"""What must hold of every result that people look at: it shows itself, and its tables are there."""

from napari_gpubio.core.pages import html_of


def check_described(value, *tables: str, pictures: int = 1) -> None:
    """Check that a notebook shows facts and so many pictures, and that these tables have rows."""
    page = html_of(value)
    assert "not shown" not in page, page[page.index("not shown") - 100 :][:300]
    assert page.count("data:image/png") >= pictures
    for name in tables:
        assert len(value.to_dataframe(name)), name
