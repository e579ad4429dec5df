"""Fixtures of the tests of what all dock widgets share."""

import pytest


@pytest.fixture
def window_is_shown():
    """Pictures are taken of the window."""
    return True


@pytest.fixture
def viewer(kept_window):
    """A window that is shown."""
    kept_window.window.resize(900, 700)
    return kept_window
