"""The verbs ``tracts``, ``light`` and ``dose`` of a BIDS dataset, by the convention of BIDS Apps.

``napari-gpubio tracts BIDS_DIR OUT participant --participant-label 01 02``. A subject that cannot be analyzed keeps no
other from it: it is named, and the exit status is 1. What is complete is not made again.
"""

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import integer
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.operations.command_help import Formatter, commands
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.reading import reading
from napari_gpubio.core.report import DEVICES, Exit, measured, show_at_once, tell, warn
from napari_gpubio.verbs import LEVELS
from napari_gpubio.workflows.bids.analyses import ANALYSES
from napari_gpubio.workflows.bids.dataset import open_dataset
from napari_gpubio.workflows.bids.derivatives import Derivatives, Stopped

_HELP = {
    "tracts": "tensors, FODs, a tractogram and a connectome of each subject of a BIDS dataset",
    "light": "forward models of probes, or fluence, of each subject of a BIDS dataset",
    "dose": "dose-volume histograms of each subject of a BIDS dataset",
}

_EXAMPLE = "study derivatives/napari-gpubio participant --participant-label 01 02"
_OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "tracts": {
        "--mppca": {"action": "store_true", "help": "take the noise out of scans first"},
        "--per-voxel": {"type": int, "default": 1, "metavar": "N", "help": "seeds in each voxel of white matter"},
        "--tractogram": {"choices": (".trx", ".tck", ".trk"), "default": ".trx", "help": "format (default: .trx)"},
    },
    "light": {
        "--head-table": {"default": "Cassano 2019", "metavar": "NAME", "help": "optical properties"},
        "--wavelengths-nm": {"type": float, "nargs": "+", "default": [], "metavar": "NM", "help": "not the probe's"},
        "--photons": {"type": integer, "default": 0, "help": "of each optode, or of the source"},
        "--project": {"action": "store_true", "help": "move optodes that are far off onto the scalp"},
        "--position-mm": {"type": float, "nargs": 3, "metavar": ("X", "Y", "Z"), "help": "source where no probe is"},
    },
    "dose": {"--metrics": {"nargs": "+", "default": [], "help": "such as D95%%[Gy]; the usual ones by default"}},
}


def add_apps(verbs: Any, names: Sequence[str]) -> None:
    """Add verbs of BIDS datasets, by their names, to the parser of verbs."""
    for name in names:
        texts = {"help": _HELP[name], "description": f"Make {_HELP[name]}.", "epilog": commands([f"{name} {_EXAMPLE}"])}
        verb = verbs.add_parser(name, **texts, formatter_class=Formatter, allow_abbrev=False)
        verb.add_argument("bids_dir", type=Path, help="folder of the dataset")
        verb.add_argument("output_dir", type=Path, help="folder for the results, a dataset of derivatives")
        verb.add_argument("analysis_level", choices=LEVELS, help="participant; there is nothing to do for a group")
        for entity in ("participant", "session"):
            flags = f"--{entity}-label", f"--{entity}_label"
            verb.add_argument(*flags, nargs="+", default=[], metavar="LABEL", help=f"{entity}s, without sub- or ses-")
        verb.add_argument("--derivatives", type=Path, nargs="+", default=[], metavar="DIR", help="more derivatives")
        verb.add_argument("--device", default="auto", help=DEVICES)
        for flag, how in _OPTIONS[name].items():
            verb.add_argument(flag, **how)
        verb.set_defaults(run=functools.partial(_run, name), record=None)


def _run(name: str, options: argparse.Namespace) -> int:
    """Analyze subjects, one after another; 0 if all of them are done."""
    if options.analysis_level == "group":
        raise InvalidInput("there is nothing to do for a group; give participant")
    choose_device(options.device)  # one that is not there is no failure of subjects
    dataset = open_dataset(options.bids_dir, options.derivatives, without=options.output_dir)
    subjects = [label.removeprefix("sub-") for label in options.participant_label] or dataset.subjects
    for unknown in {*subjects} - {*dataset.subjects}:
        dataset.files(subject=unknown)  # says which there are
    options.session_label = [label.removeprefix("ses-") for label in options.session_label]
    for text in dataset.own_problems:
        warn(text)
    out = Derivatives(options.output_dir, dataset, options)
    out.begin()
    failed = dict[str, str]()
    for number, subject in enumerate(dict.fromkeys(subjects), 1):
        show_at_once(f"sub-{subject}, {number} of {len({*subjects})}")
        try:
            if why := _analyze(name, out, subject):
                failed[subject] = why
        except Stopped as error:
            tell([f"sub-{subject}: {error}"])
            return Exit.STOPPED
        STORE.clear()
    done = len({*subjects}) - len(failed)
    for subject, why in failed.items():
        sys.stdout.write(f"sub-{subject} failed: {why}\n")
    sys.stdout.write(f"{done} of {len({*subjects})} subjects are complete in {out.folder}; {len(failed)} failed\n")
    measured(complete=done, failed=failed)
    return Exit.NOT_PASSED if failed else Exit.DONE


def _analyze(name: str, out: Derivatives, subject: str) -> str:
    """Make all results of a subject; returns why some could not be made, or nothing."""
    (needs, find, make), wanted = ANALYSES[name], out.options.session_label
    for text in out.raw.problems(subject):
        warn(f"sub-{subject}: {text}")
    reasons = list[str]()
    found = [one for one in find(out.raw, subject, out.options) if not wanted or one.session in wanted]
    for one in found:
        try:
            with reading(one.path):  # whose name notes and errors have
                make(out, one)
        except Stopped:
            raise
        except GpuBioError as error:
            reasons.append(str(error))
            tell([f"sub-{subject}: {error}"])
    return "; ".join(reasons) if found else f"it lacks {needs}"
