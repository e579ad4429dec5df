"""What reference cases of dock widgets share: a window that is shown, waiting in it, and findings in milliseconds."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from qtpy.QtCore import QEventLoop, QTimer

from napari_gpubio.core.cases import Finding
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


def wait_until(done: Callable[[], bool], what: str) -> None:
    """Let the window live until something is done; an error that names it if that takes too long."""
    loop, timer, begun = QEventLoop(), QTimer(), time.monotonic()
    timer.timeout.connect(lambda: loop.quit() if done() or time.monotonic() - begun > PATIENCE_S else None)
    timer.start(_LOOK_MS)
    loop.exec()
    if not done():
        raise GpuBioError(f"no {what} came for {PATIENCE_S:g} s; try again when the machine is less busy")


def let_draw() -> None:
    """Let the window draw what has changed, and rest."""
    loop = QEventLoop()
    QTimer.singleShot(_DRAWING_MS, loop.quit)
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
