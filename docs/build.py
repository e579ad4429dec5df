"""Build the site: python docs/build.py [--accept] [--links] [--turn] [sphinx options]; it comes to docs/_build/html.

Pages and pictures are run, so a display is needed: where there is none, one is opened by xvfb-run. Warnings are errors.
--accept notes pictures of the gallery as they are now; --links looks up the addresses outside, too (needs a network).
--turn runs a sixth of the pages and scripts, another one each day; the others are built without their results.
Packages: pip install -e ".[all]" --group docs
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent
OUT = DOCS / "_build" / "html"
SCREEN = ["xvfb-run", "-a", "-s", "-screen 0 1600x1000x24"]
NO_DISPLAY = (
    "pictures of the window need a display, and there is none, nor xvfb-run to open one; "
    "Debian, Ubuntu: sudo apt-get install -y xvfb xauth libgl1 libegl1"
)


def main() -> int:
    """Run Sphinx and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="note the pictures of the gallery as they are now")
    parser.add_argument("--links", action="store_true", help="look up the addresses outside, too")
    parser.add_argument("--turn", action="store_true", help="run only those pages and scripts whose day it is, a sixth")
    options, rest = parser.parse_known_args()
    if options.turn:
        os.environ.setdefault("NAPARI_GPUBIO_SITE_TURN", str(datetime.date.today().toordinal()))
    if importlib.util.find_spec("sphinx") is None:
        print('docs/build.py: Sphinx is not installed; pip install -e ".[all]" --group docs', file=sys.stderr)
        return 2
    screen = [] if has_display() else SCREEN
    if screen and shutil.which(screen[0]) is None:
        print(f"docs/build.py: {NO_DISPLAY}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", str(os.cpu_count() or 1)]
    status = subprocess.run([*screen, *sphinx, *rest, str(DOCS), str(OUT)], env=environment(options.accept)).returncode
    if status == 0 and options.links:
        linkcheck = [*sphinx, "-b", "linkcheck", str(DOCS), str(OUT.with_name("links"))]
        status = subprocess.run([*screen, *linkcheck], env=environment(accept=False)).returncode
    pages = sum(1 for _ in OUT.rglob("*.html"))
    print(f"docs/build.py: {pages} pages in {time.monotonic() - begun:.0f} s: {OUT / 'index.html'}")
    return status


def has_display() -> bool:
    """Whether a window could be shown."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def environment(accept: bool) -> dict[str, str]:
    """Return the variables of a build: pages that are run import this tree and the extensions, and draw in software."""
    paths = [str(DOCS.parent), str(DOCS / "extensions"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),  # commands of pages
        "LIBGL_ALWAYS_SOFTWARE": "1",
        "NAPARI_CONFIG": str(DOCS / "_build" / "napari.yaml"),
        "NAPARI_APPLICATION_IPY_INTERACTIVE": "0",  # Qt's loop in a kernel misses cells that come while a window works
        "NAPARI_GPUBIO_NO_WARMUP": "1",  # a panel that waits for another process looks as one that has nothing to do
        "NAPARI_GPUBIO_DEVICE": os.environ.get("NAPARI_GPUBIO_DEVICE", "cpu"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **({"NAPARI_GPUBIO_ACCEPT_PICTURES": "1"} if accept else {}),
    }


if __name__ == "__main__":
    sys.exit(main())
