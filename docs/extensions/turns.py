"""What is run today, where not all of it is: ``docs/build.py --turn`` runs a sixth of the pages and scripts a day."""

import os
import zlib
from pathlib import Path

TURN = "NAPARI_GPUBIO_SITE_TURN"  # the number of a day
DAYS = 6


def takes_turns() -> bool:
    """Whether not all is run."""
    return bool(os.environ.get(TURN))


def is_its_turn(name: str) -> bool:
    """Whether a page or a script is run."""
    return not takes_turns() or (zlib.crc32(name.encode()) + int(os.environ[TURN])) % DAYS == 0


def pages_with_cells(folder: Path) -> list[Path]:
    """Return the pages below a folder that have cells."""
    return [path for path in folder.rglob("*.md") if path.read_text("utf-8").startswith("---\nfile_format: mystnb")]
