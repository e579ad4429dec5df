"""What is run today, where not all of it is: ``docs/build.py --turn`` runs a sixth of the pages and scripts a day."""

import os
import zlib

TURN = "NAPARI_GPUBIO_SITE_TURN"  # the number of a day
DAYS = 6


def takes_turns() -> bool:
    """Whether not all is run."""
    return bool(os.environ.get(TURN))


def is_its_turn(name: str) -> bool:
    """Whether a page or a script is run."""
    return not takes_turns() or (zlib.crc32(name.encode()) + int(os.environ[TURN])) % DAYS == 0
