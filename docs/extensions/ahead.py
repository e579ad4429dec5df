"""Runs the pages while the gallery runs its scripts, one after another as it must; Sphinx then finds the pages done.

Each page is run by Jupyter in a kernel of its own. One that fails is run again by Sphinx, which says what is wrong.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor, utils
from sphinx.application import Sphinx
from sphinx.util import logging
from turns import is_its_turn, pages_with_cells

READER = {"type": "plugin", "name": "myst_nb_md"}
logger = logging.getLogger(__name__)
BEFORE_GALLERY = 100
# What commands print comes in pieces of 100 bytes, which are to be one text, without a new line after each.
utils.executenb = functools.partial(utils.executenb, coalesce_streams=True)
_process: list[subprocess.Popen[bytes]] = []


def setup(app: Sphinx) -> dict[str, bool]:
    """Have the pages run before they are read."""
    app.connect("builder-inited", start, priority=BEFORE_GALLERY)
    app.connect("env-before-read-docs", wait)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def start(app: Sphinx) -> None:
    """Begin to run the pages in another process, which ends with this one."""
    command = [app.config.nb_execution_cache_path, str(app.config.nb_execution_timeout)]
    pages = [path for path in pages_with_cells(Path(app.srcdir)) if is_its_turn(path.stem)]
    pages.sort(key=lambda path: -path.stat().st_size)  # the longest first
    run_pages = [sys.executable, __file__, *command, *map(str, pages)]
    _process.append(subprocess.Popen(run_pages, stderr=subprocess.DEVNULL))  # each kernel warns of its open port
    atexit.register(_process[-1].terminate)


def wait(_app: Sphinx, _env: object, _names: list[str]) -> None:
    """Wait for the pages."""
    for process in _process:
        if process.wait():
            logger.warning("the pages could not be run while the gallery was: see %s", __file__)


def run(path: Path, folder: str, seconds: int, turn: threading.Lock) -> None:
    """Run a page, unless the cache has it as it is."""
    with turn:  # its tables are made by whoever is first
        cache = get_cache(folder)
        cache.add_nb_to_project(str(path), read_data=READER)
    load_executor("temp-serial", cache).run_and_cache(filter_uris=[str(path)], timeout=seconds)


if __name__ == "__main__":
    folder, seconds, *paths = sys.argv[1:]
    turn = threading.Lock()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(run, Path(path), folder, int(seconds), turn) for path in paths]:
            done.result()
