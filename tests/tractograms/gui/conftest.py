"""Fixtures of the tests of the dock widgets of tractograms."""

from tests.fibers.gui.conftest import empty, fit_panel, held, held_fit, one, proxy, two, unanswered, user

__all__ = ["empty", "fit_panel", "held", "held_fit", "one", "proxy", "two", "unanswered", "user"]
