"""Openly licensed data of real people, fetched from their public homes when they are asked for, and kept in the cache.

Each file is checked against a checksum that its publishers, or programs that use it, state. A web address with the same
file names takes the place of the public homes if ``NAPARI_GPUBIO_SAMPLES_FROM`` is one.
"""

import importlib
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import draw_progress, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import user_cache
from napari_gpubio.core.napari_io import LayerData, with_notes
from napari_gpubio.core.operations.command_help import Formatter, commands
from napari_gpubio.core.report import Exit, measured, show_at_once, tell, wrote
from napari_gpubio.core.steps import Step, driven

MIRROR = "NAPARI_GPUBIO_SAMPLES_FROM"
_TIMEOUT_SECONDS, _WAITING_SECONDS = 30, 0.1


@dataclass(frozen=True, kw_only=True)
class RealSample:
    """Files of one person.

    Parameters
    ----------
    name, title
        As a command names it, and as people know it.
    home
        Address that the names of files are added to.
    files
        Names with checksums, ``md5:...`` or ``sha256:...``; archives (``.zip``) are unpacked.
    license
        What its publishers allow and ask for.
    layers, phantom
        Functions, as ``module:name``, that make layers of the folder, and those of the sample that is there offline.
    """

    name: str
    title: str
    home: str
    files: tuple[tuple[str, str], ...]
    license: str
    layers: str
    phantom: str

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return user_cache() / "samples" / self.name

    @property
    def notice(self) -> str:
        """What is said before and with the data."""
        return f"{self.title}, from {self.home}. {self.license}"


_ALL = (
    RealSample(
        name="stanford-hardi",
        title="Stanford HARDI (diffusion scan of 150 directions, T1, reduced FreeSurfer labels; about 92 MB)",
        home="https://stacks.stanford.edu/file/druid:yx282xq2090/",
        files=(
            ("dwi.nii.gz", "md5:0b18513b46132b4d1051ed3364f2acbc"),
            ("dwi.bvals", "md5:4e08ee9e2b1d2ec3fddb68c70ae23c36"),
            ("dwi.bvecs", "md5:4c63a586f29afc6a48a5809524a76cb4"),
            ("t1.nii.gz", "md5:a6a140da6a947d4131b2368752951b0a"),
            ("aparc-reduced.nii.gz", "md5:742de90090d06e687ce486f680f6d71a"),
            ("label_info.txt", "md5:39db9f0f5e173d7a2c2e51b07d5d711b"),
        ),
        license="Open Data Commons Public Domain Dedication and License (PDDL 1.0), purl.stanford.edu/yx282xq2090, "
        "whose record asks not to identify the person. Cite Rokem et al. 2015, doi:10.1371/journal.pone.0123272.",
        layers="napari_gpubio.diffusion.samples:stanford_layers",
        phantom="napari_gpubio.diffusion.samples:brain_sample_layers",
    ),
    RealSample(
        name="colin27",
        title="Colin27 head (scalp, skull, CSF, gray and white matter), as segmented for Cedalion",
        home="https://doc.ibs.tu-berlin.de/cedalion/datasets/v25.1.0/",
        files=(
            ("colin27_segmentation.zip", "sha256:ad02dbd9582033d3c6f712761c2a79228e4bf30c8539f23f3280b8c4c7f9ace1"),
        ),
        license="Colin27 is copyright (C) 1993-2009 Louis Collins, McConnell Brain Imaging Centre, Montreal "
        "Neurological Institute, McGill University: to be used, copied, modified and distributed for any purpose and "
        "without fee if this notice appears in all copies; provided as is. Cite Holmes et al. 1998.",
        layers="napari_gpubio.light.samples:colin_layers",
        phantom="napari_gpubio.light.samples:head_layers",
    ),
)
SAMPLES = {one.name: one for one in _ALL}


class _Stopped(Exception):
    """Ends a download from within."""


class _Bar:
    """What pooch tells how far a download is, and by which it is ended."""

    total = 0

    def __init__(self, stop: threading.Event | None) -> None:
        self.done, self._stop = 0, stop

    def update(self, count: int) -> None:
        self.done += count
        if self._stop is not None and self._stop.is_set():
            raise _Stopped

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing is to be closed."""


def fetch_steps(sample: RealSample, *, stop: threading.Event | None = None) -> Generator[Step, None, Path | None]:
    """Fetch the files of a sample that are not in the cache, step by step; returns their folder, None if stopped.

    What is downloaded in part, or is not what the checksum says, is removed.

    Raises
    ------
    InvalidInput
        If there is no network, the server has no such file, or a file is another one than it should be.
    """
    for number, (name, checksum) in enumerate(sample.files):
        bar = _Bar(stop)
        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(_retrieve, sample, name, checksum, bar)
            while not going.done():
                yield Step(number, len(sample.files), f"fetching {name}, {bar.done / 1e6:.1f} MB, file")
                threading.Event().wait(_WAITING_SECONDS)
        if isinstance(error := going.exception(), _Stopped):
            return None
        if isinstance(error, ValueError):
            raise InvalidInput(
                f"{name} has another checksum than {checksum[:20]}..., so it is damaged or has been changed; it was "
                f"removed: try again, or set {MIRROR} to a copy"
            ) from error
        if error is not None:
            raise InvalidInput(
                f"{name} could not be fetched from {_home(sample)} ({type(error).__name__}: {str(error)[:200]}); check "
                f"the network, or set {MIRROR} to a copy; without a network there are phantoms"
            ) from error
    return sample.folder


fetch = driven(fetch_steps)


def _home(sample: RealSample) -> str:
    return os.environ.get(MIRROR, sample.home).rstrip("/") + "/"


def _retrieve(sample: RealSample, name: str, checksum: str, bar: _Bar) -> None:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    pooch.retrieve(
        _home(sample) + name,
        known_hash=checksum,
        fname=name,
        path=sample.folder,
        downloader=pooch.HTTPDownloader(progressbar=bar, timeout=_TIMEOUT_SECONDS),
        processor=pooch.Unzip() if name.endswith(".zip") else None,
    )


def layer_steps(sample: RealSample, *, stop: threading.Event | None = None) -> Generator[Step, None, list[LayerData]]:
    """Fetch a sample and make its layers, which carry its license; the phantom, with a note, if it cannot be had."""
    try:
        if (folder := (yield from fetch_steps(sample, stop=stop))) is None:
            return []
    except InvalidInput as error:
        return with_notes(_named(sample.phantom)(), [f"this is a phantom in place of {sample.title}: {error}"])
    yield Step(0, 1, "reading")
    return with_notes(_named(sample.layers)(folder), [sample.notice])


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


def add_verb(verbs: Any) -> None:
    """Add the verb ``sample`` to the command line's parser of verbs."""
    about = "fetch openly licensed data of a real person, or list what there is"
    verb = verbs.add_parser(
        "sample", help=about, epilog=commands(("sample", "sample colin27")), formatter_class=Formatter
    )
    verb.add_argument(
        "name",
        nargs="?",
        choices=list(SAMPLES),
        metavar="NAME",
        help=f"one of {', '.join(SAMPLES)}; without it they are listed",
    )
    verb.set_defaults(run=_run)


def _run(options: Any) -> int:
    if options.name is None:
        for one in SAMPLES.values():
            show_at_once(f"{one.name}: {one.notice}")
        measured(samples={name: one.license for name, one in SAMPLES.items()})
        return 0
    sample = SAMPLES[options.name]
    tell([sample.notice])
    with stop_at_interrupt() as stop:
        folder = fetch(sample, stop=stop, progress=draw_progress)
    if folder is None:
        return Exit.STOPPED
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        wrote(path)
    return 0
