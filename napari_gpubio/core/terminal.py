"""What a verb of the command line shows while it works."""

import sys

from napari_gpubio.core.steps import Step

_WIDTH = 30


def draw_progress(step: Step) -> None:
    """Draw a progress bar on a terminal; nothing where the errors go to a file."""
    if sys.stderr.isatty():
        filled = int(_WIDTH * step.fraction)
        bar = "#" * filled + "." * (_WIDTH - filled)
        end = "\n" if step.done >= step.total else ""
        sys.stderr.write(f"\r{step.message} [{bar}] {step.done}/{step.total}{end}")
        sys.stderr.flush()
