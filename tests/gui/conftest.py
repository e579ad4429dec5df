import pytest


@pytest.fixture
def viewer(make_napari_viewer):
    """A window that is shown, so that pictures of it are not black."""
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(900, 700)
    return viewer
