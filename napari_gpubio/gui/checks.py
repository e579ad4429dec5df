"""What the checks of dock widgets share (a window, waiting in it, findings in milliseconds), and the kit's warm-ups.

Qt is imported where it is used, so that streamlines can be compiled ahead without it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from napari_gpubio.core.checks import Finding, WarmUp
from napari_gpubio.core.errors import GpuBioError

PATIENCE_S = 120.0
_LOOK_MS, _DRAWING_MS = 20, 150


@contextmanager
def shown_viewer() -> Iterator[Any]:
    """A napari window of its own, closed at the end."""
    import napari

    viewer = napari.Viewer(title="napari-gpubio check")
    try:
        yield viewer
    finally:
        viewer.close()


@contextmanager
def docked(viewer: Any, panel: Any, name: str) -> Iterator[Any]:
    """A panel in a viewer's window, which frees everything at the end."""
    viewer.window.add_dock_widget(panel, name=name)
    try:
        yield panel
    finally:
        panel.teardown()


def wait_until(done: Callable[[], bool], what: str, messages: Sequence[str] = ()) -> None:
    """Run the event loop until something is done.

    Raises `GpuBioError` with the first of ``messages``, the panel's messages, if there is one, or if ``what`` takes
    too long.
    """
    begun = time.monotonic()
    while not done():
        if messages:
            raise GpuBioError(messages[0])
        if time.monotonic() - begun > PATIENCE_S:
            raise GpuBioError(f"no {what} came for {PATIENCE_S:g} s; try again when the machine is less busy")
        _let_live(_LOOK_MS)


def let_draw() -> None:
    """Let the window draw what has changed, and rest."""
    _let_live(_DRAWING_MS)


def _let_live(milliseconds: int) -> None:
    from qtpy.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def findings_of(took_ms: Sequence[float], most_ms: float, of: str) -> list[Finding]:
    """Median and 95th percentile of what was timed; each may be ``most_ms`` at most."""
    return [
        Finding(
            quantity=f"{what} of {len(took_ms)} {of} (ms)", reference=0.0, result=value, error=value, tolerance=most_ms
        )
        for what, value in (
            ("median", float(np.median(took_ms))),
            ("95th percentile", float(np.percentile(took_ms, 95))),
        )
    ]


def _pack_and_pick() -> None:
    """Pack, color, cut and pick two short lines."""
    from napari_gpubio.gui.lines import ByDirection, ByNumber, pack_lines, painted
    from napari_gpubio.gui.lines.nearest import nearest_line, ray_frame
    from napari_gpubio.gui.lines.slabs import SegmentOrder, ends_of

    points = np.arange(12, dtype=np.float32).reshape(4, 3)
    numbers: dict[str, Any] = {"length_mm": np.ones(2), "fa": np.ones(2, np.float32)}
    lines = pack_lines(points[:, ::-1], [0, 2, 4], per_fiber=numbers, paint=ByDirection())
    for name in numbers:
        painted(lines, ByNumber(name, (0.0, 1.0)))
    ends_of(SegmentOrder(lines, 2).within(0.0, 1.0), lines.vertices)
    nearest_line(lines, ray_frame(np.eye(3), np.zeros(3), (0, 0, 0), (1, 0, 0)), 1.0)


WARMUPS = (WarmUp(name="streamlines", run=_pack_and_pick, functions=29),)
