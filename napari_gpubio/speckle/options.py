"""Options of the command line that several verbs of speckle have."""

import argparse
from pathlib import Path

from napari_gpubio.core.command_line import add_settings, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.io import open_frames
from napari_gpubio.speckle.settings import NoiseModel, measure_dark
from napari_gpubio.speckle.stored import Frames

_NOISE = NoiseModel()


def add_frames(verb: argparse.ArgumentParser) -> None:
    """Add the file of frames, and which of its channels and planes they are."""
    kinds = "TIFF stack, folder of single TIFF frames, video (.avi, .mp4, .mov, .mkv), or raw file .00000 of UT Austin"
    verb.add_argument("frames_in", type=Path, metavar="frames", help=kinds)
    verb.add_argument("--channel", type=int, help="which channel or color of the file, from 0")
    verb.add_argument("--plane", type=int, help="which plane along z of the file, from 0")


def frames_of(options: argparse.Namespace) -> Frames:
    """Open the frames that the options of `add_frames` name."""
    return open_frames(options.frames_in, channel=options.channel, plane=options.plane)


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
    measured = measure_dark(open_frames(options.dark), gain=options.gain)
    if options.dark_adu or options.read_noise_adu:
        raise InvalidInput("--dark measures level and noise; leave --dark-adu and --read-noise-adu out")
    return measured
