"""Notices pictures of the gallery that no longer look as they did when somebody last looked at them.

``docs/gallery/pictures.csv`` has a small gray copy of each. Where a picture differs, the build warns (and so fails);
look at the new picture, then have it noted by ``python docs/build.py --accept``.
"""

from __future__ import annotations

import csv
import os
import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sphinx.application import Sphinx
from sphinx.util import logging
from turns import is_its_turn
from window_pictures import OF_WINDOW

logger = logging.getLogger(__name__)
WIDTH, HEIGHT = 24, 15
MAX_MEAN, MAX_CELL = 6.0, 72.0  # of 255: fonts and drivers differ by less, another result by more
MAX_MEAN_OF_WINDOW = 30.0  # a picture of a window shows how fast a machine is; of one that differs by less a note tells
OUTSIDE = {"sphx_glr_plot_window_fibers_001": "pictures/fiber_tracking.png"}  # in README, which is read without a build
ACCEPTS = "NAPARI_GPUBIO_ACCEPT_PICTURES"


def setup(app: Sphinx) -> dict[str, bool]:
    """Have pictures compared at the end of a build."""
    app.connect("build-finished", compare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def compare(app: Sphinx, problem: Exception | None) -> None:
    """Compare all pictures with what is noted, or note them if that was asked for."""
    if problem is not None or app.builder.name != "html":
        return
    noted = Path(app.srcdir) / "gallery" / "pictures.csv"
    images = Path(app.srcdir) / "generated" / "gallery" / "images"
    found = {path.stem: gray(path) for path in sorted(images.glob("*.png"))}
    if os.environ.get(ACCEPTS):
        write(noted, found)
        for name, shown_at in OUTSIDE.items():
            shutil.copy(images / f"{name}.png", Path(app.srcdir) / shown_at)
        return
    before = read(noted)
    made = {name for name in before if is_its_turn(name.removeprefix("sphx_glr_").rpartition("_")[0])}
    for name in sorted(made - {*found}):
        logger.warning("the gallery no longer has the picture %s", name)
    for name, cells in found.items():
        if name not in before:
            logger.warning("the picture %s is new: look at it, then python docs/build.py --accept", name)
            continue
        apart = np.abs(cells - before[name])
        if apart.mean() > MAX_MEAN or apart.max() > MAX_CELL:
            by = f"by {apart.mean():.0f} of 255 on average, {apart.max():.0f} at most"
            text = f"the picture {name} has changed ({by}): look at it, then python docs/build.py --accept"
            if (images / name).with_suffix(OF_WINDOW).exists() and apart.mean() < MAX_MEAN_OF_WINDOW:
                sys.stderr.write(f"note: {text}\n")
            else:
                logger.warning(text)


def gray(path: Path) -> np.ndarray:
    """Return a small gray copy of a picture (15, 24)."""
    with Image.open(path) as picture:
        return np.asarray(picture.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX), float)


def read(path: Path) -> dict[str, np.ndarray]:
    """Read what is noted."""
    if not path.exists():
        return {}
    with path.open(encoding="ascii", newline="") as file:
        return {
            name: np.frombuffer(bytes.fromhex(cells), np.uint8).reshape(HEIGHT, WIDTH).astype(float)
            for name, cells in csv.reader(file)
        }


def write(path: Path, found: dict[str, np.ndarray]) -> None:
    """Note pictures."""
    with path.open("w", encoding="ascii", newline="") as file:
        csv.writer(file).writerows(
            (name, cells.round().astype(np.uint8).tobytes().hex()) for name, cells in found.items()
        )
