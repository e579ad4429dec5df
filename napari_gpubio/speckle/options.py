"""Options of the command line that several verbs of speckle have."""

import argparse
from pathlib import Path

from napari_gpubio.core.command_line import add_settings, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.io import read_frames
from napari_gpubio.speckle.settings import NoiseModel, measure_dark

_NOISE = NoiseModel()


def add_noise(verb: argparse.ArgumentParser) -> None:
    """Add the options of a camera's noise: numbers, or a file of dark frames."""
    verb.add_argument("--dark", type=Path, metavar="FILE", help="frames taken in the dark, for level and noise")
    add_settings(verb, _NOISE, "noise of the camera")


def read_noise(options: argparse.Namespace) -> NoiseModel:
    """Return the noise that the options of `add_noise` state.

    Raises
    ------
    InvalidInput
        If a number is out of range, the file cannot be read, or both state the same.
    """
    if options.dark is None:
        return read_settings(options, _NOISE)
    measured = measure_dark(read_frames(options.dark), gain=options.gain)
    if options.dark_adu or options.read_noise_adu:
        raise InvalidInput("--dark measures level and noise; leave --dark-adu and --read-noise-adu out")
    return measured
