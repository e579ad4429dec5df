"""Pictures and films of napari's window, for the gallery and for pages that are run.

A script of the gallery opens `napari.Viewer` as a user's does; `scraper` takes its picture at the end of a block, and
`reset` closes it after the script. Pages that are run call `window`, `wait_for`, and `picture`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZE = 1280, 800
MAX_SECONDS = 120.0
OF_WINDOW = ".window"  # ends the name of a file beside a picture of a window
films: list[Path] = []  # made by the script that is run


# --------------------------------------------------------------------------------------------------------- for scripts
@contextlib.contextmanager
def window(*panels: str, size: tuple[int, int] = SIZE) -> Iterator[Any]:
    """Open napari with some dock widgets of the plugin, the last one in front; yield the viewer, and close it."""
    import napari

    from napari_gpubio.gui.scans import follow_scans

    viewer = napari.Viewer(title="napari-gpubio")
    follow_scans(viewer)  # which a window of a person does when it has the focus
    viewer.window._qt_window.setGeometry(0, 0, *size)
    try:
        for name in panels:
            panel(viewer, name)
        yield viewer
    finally:
        close_all()


def panel(viewer: Any, name: str) -> Any:
    """Bring the dock widget of a name to the front, or open it; returns it."""
    from napari_gpubio.gui.switcher import open_panel

    return open_panel(viewer, name)


def wait_for(is_done: Callable[[], Any], seconds: float = MAX_SECONDS) -> None:
    """Let the window work until something is so; an error says what never was."""
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {getattr(is_done, '__name__', is_done)}")
        QApplication.processEvents()
        time.sleep(0.01)


def settle(viewer: Any, seconds: float = 0.6) -> None:
    """Let all panels of a window finish what they do, and the window draw."""
    from napari_gpubio.gui.front import front_of

    quiet_since = time.monotonic()

    def is_quiet() -> bool:
        nonlocal quiet_since
        if any(one.is_busy for one in front_of(viewer).panels):
            quiet_since = time.monotonic()
        return time.monotonic() - quiet_since > seconds

    wait_for(is_quiet)


def picture(viewer: Any, *, canvas_only: bool = False) -> Image.Image:
    """Return the picture of a window, as a person sees it."""
    settle(viewer)
    return Image.fromarray(viewer.window.screenshot(canvas_only=canvas_only, flash=False)[..., :3])


def film(name: str, frames: Iterable[Any], rate: int = 12) -> None:
    """Write frames, arrays (Y, X, 3), as a film that the page shows below the script's pictures."""
    import av

    path = Path(tempfile.mkdtemp()) / f"{name}.mp4"
    with av.open(path, "w") as file:
        stream = None
        for frame in map(np.asarray, frames):
            even = np.ascontiguousarray(frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2, :3])
            if stream is None:
                stream = file.add_stream("h264", rate=rate, options={"crf": "26"})
                stream.height, stream.width, stream.pix_fmt = *even.shape[:2], "yuv420p"
            file.mux(stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")))
        if stream is not None:
            file.mux(stream.encode())
    films.append(path)


# ------------------------------------------------------------------------------------------------------ for the gallery
def scraper(_block: Any, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    """Take the pictures of all open windows, and the films, after a block of a script."""
    from sphinx_gallery.scrapers import figure_rst

    places = variables["image_path_iterator"]
    taken = []
    for viewer in open_viewers():
        taken.append(next(places))
        picture(viewer).save(taken[-1])
        Path(taken[-1]).with_suffix(OF_WINDOW).touch()
    text = figure_rst(taken, conf["src_dir"]) if taken else ""
    for path in films:
        source = f"../../_static/films/{path.name}"
        text += f"\n.. raw:: html\n\n    <video controls muted loop width='100%' src='{source}'></video>\n"
        kept = Path(conf["src_dir"]) / "_static" / "films" / path.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, kept)
    films.clear()
    return text


def reset(_conf: dict[str, Any], _name: str) -> None:
    """Close all windows before and after a script."""
    close_all()


def open_viewers() -> list[Any]:
    """Return the viewers whose windows are open."""
    import sys

    if "napari" not in sys.modules:
        return []
    import napari

    return [*getattr(napari.Viewer, "_instances", ())]


def close_all() -> None:
    """Close all windows."""
    viewers = open_viewers()
    if not viewers:
        return
    from qtpy.QtWidgets import QApplication

    for viewer in viewers:
        with contextlib.suppress(RuntimeError):  # closed by its script
            viewer.close()
    QApplication.processEvents()
