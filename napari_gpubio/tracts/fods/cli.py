"""The command-line verbs ``napari-gpubio response``, ``fod`` and ``peaks``: from a scan to fiber orientations."""

import argparse
import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.command_line import (
    STOPPED,
    add_settings,
    check_endings,
    check_outputs,
    draw_progress,
    read_settings,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.report import measured, tell, warn, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, write_volume
from napari_gpubio.tracts.arguments import (
    add_basis,
    add_scan_options,
    checked_tensors,
    read_fod_field,
    read_scan,
    tell_check,
)
from napari_gpubio.tracts.fods.axis_check import check_fods
from napari_gpubio.tracts.fods.estimate import estimate_response_steps
from napari_gpubio.tracts.fods.model import FixelField, FodField
from napari_gpubio.tracts.fods.normalize import LEAST_VOXELS, normalize_tissues
from napari_gpubio.tracts.fods.response import TISSUES, Response, read_response, write_response
from napari_gpubio.tracts.fods.run import deconvolve_steps, find_peaks_steps, usual_lmax
from napari_gpubio.tracts.fods.settings import CsdSettings, PeakSettings, ResponseSettings, TissueSettings
from napari_gpubio.tracts.fods.tissues import estimate_tissue_responses_steps
from napari_gpubio.tracts.io.dwi import find_gradient_files, read_mask
from napari_gpubio.tracts.io.fixel_folders import write_fixels
from napari_gpubio.tracts.io.fixels import write_peaks
from napari_gpubio.tracts.io.fods import check_fod_output, write_fods
from napari_gpubio.tracts.io.mif_writer import MIF_WRITE_SUFFIXES
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.tensors.run import checked_mask

Mask = npt.NDArray[np.bool_]
_IMAGES = (*NIFTI_SUFFIXES, *MIF_WRITE_SUFFIXES)
_RESPONSE_EXAMPLES = """examples:
  napari-gpubio response dwi.nii.gz --out wm.txt
  napari-gpubio response dwi.nii.gz --method tissues --out wm.txt gm.txt csf.txt
"""
_FOD_EXAMPLES = """examples:
  napari-gpubio fod dwi.nii.gz --out fod.nii.gz --peaks peaks.nii.gz
  napari-gpubio fod dwi.nii.gz --response wm.txt gm.txt csf.txt --normalize --out fod.mif --tissues densities
"""


def add_verbs(verbs: Any) -> None:
    """Add the verbs to the command line."""
    _add_response(verbs)
    _add_fod(verbs)
    _add_peaks(verbs)


def _verb(verbs: Any, name: str, what: str, description: str, epilog: str) -> Any:
    return verbs.add_parser(
        name,
        help=what,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
    )


def _add_scan(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("input", type=Path, help="diffusion scan (NIfTI with bval and bvec beside it, .mif)")
    add_scan_options(verb)
    verb.add_argument("--mask", type=Path, help="brain mask on the same grid; by default made from the b0 volumes")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")


def _scan(options: argparse.Namespace) -> tuple[DiffusionScan, Mask]:
    scan = read_scan(options)
    mask = None if options.mask is None else read_mask(options.mask, scan.shape, scan.affine)
    return scan, checked_mask(scan, mask)


def _inputs(options: argparse.Namespace) -> dict[str, Path | None]:
    bval, bvec = find_gradient_files(options.input)
    return {"the scan": options.input, "its bval file": bval, "its bvec file": bvec, "--mask": options.mask}


def _check_folder(name: str, path: Path | None) -> None:
    """Before a run of minutes: fixels are not written into what is there."""
    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInput(f"{name} is {path}, where something is already; choose a new folder")


# -- response ---------------------------------------------------------------------------------------------------------


def _add_response(verbs: Any) -> None:
    text = (
        "Estimate from a diffusion scan the signal of a single fiber, or of each tissue, as text files in MRtrix's\n"
        "format: white matter, gray matter and CSF (with one shell: white matter and CSF)."
    )
    verb = _verb(verbs, "response", "estimate the signal of a fiber or of tissues", text, _RESPONSE_EXAMPLES)
    _add_scan(verb)
    verb.add_argument(
        "--method",
        default="fa",
        choices=("fa", "tournier", "tissues"),
        help="a single fiber's from voxels of high FA (fa) or of one dominant peak (tournier), or those of tissues "
        "(default: fa)",
    )
    verb.add_argument("--shell", type=int, default=0, help="b-value of a single fiber's response; 0 = the largest")
    verb.add_argument("--out", type=Path, nargs="+", required=True, metavar="FILE", help="one file for each response")
    add_settings(verb, ResponseSettings(), "response", without=("method",))
    add_settings(verb, TissueSettings(), "tissues", without=("lmax",))
    verb.set_defaults(run=run_response)


def run_response(options: argparse.Namespace) -> int:
    """Estimate and write the responses."""
    count, several = len(options.out), options.method == "tissues"
    if several and options.shell:
        raise InvalidInput(f"--shell is {options.shell}; the responses of tissues are of all shells, so leave it out")
    if count not in ((2, len(TISSUES)) if several else (1,)):
        needed = "2 (white matter, CSF) or 3 (white matter, gray matter, CSF)" if several else "1"
        raise InvalidInput(f"--out has {count} files; the method {options.method} needs {needed}")
    outputs = {f"file {n} of --out": path for n, path in enumerate(options.out, 1)}
    check_outputs(outputs, _inputs(options), force=options.force)
    settings = read_settings(options, TissueSettings() if several else ResponseSettings())
    scan, mask = _scan(options)
    field = checked_tensors(scan, mask, options.device)
    tell(scan.notes)
    with stop_at_interrupt() as stop:
        if isinstance(settings, TissueSettings):
            steps = estimate_tissue_responses_steps(
                scan, mask, settings, tissues=count, field=field, device=options.device, stop=stop
            )
            found = drive(steps, draw_progress)
        else:
            one = estimate_response_steps(
                scan, mask, settings, shell=options.shell, field=field, device=options.device, stop=stop
            )
            found = (drive(one, draw_progress),)
        stopped = stop.is_set()
    tell([note for one in found for note in one.notes])
    if stopped:
        tell(["nothing was written, since a response whose search was stopped is of other voxels"])
        return STOPPED
    for path, response in zip(options.out, found, strict=True):
        write_response(path, response)
        wrote(path, f"{path}: {_response_text(response)}")
    measured(responses=[
        {"voxels": len(one.parameters["voxels"]), "bvals_s_per_mm2": one.bvals, "coefficients": one.coefficients}
        for one in found
    ])  # fmt: skip
    return 0


def _response_text(response: Response) -> str:
    rows = (" ".join(f"{value:.4g}" for value in row) for row in response.coefficients)
    coefficients = "; ".join(f"b {bval}: {row}" for bval, row in zip(response.bvals, rows, strict=True))
    return f"{len(response.parameters['voxels'])} voxels; {coefficients}"


# -- fod --------------------------------------------------------------------------------------------------------------


def _add_fod(verbs: Any) -> None:
    text = (
        "Estimate fiber orientation distributions (FODs) from a diffusion scan by constrained spherical\n"
        "deconvolution, of one tissue or of several. Their directions are checked against the scan's tensors."
    )
    verb = _verb(verbs, "fod", "estimate fiber orientation distributions of a scan", text, _FOD_EXAMPLES)
    _add_scan(verb)
    verb.add_argument(
        "--response",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="response of a single fiber; or those of white matter and CSF, or of white matter, gray matter and "
        "CSF, in this order (default: that of a single fiber, estimated from the scan)",
    )
    verb.add_argument("--out", type=Path, required=True, help="FODs: .nii.gz, .nii, .mif or .mif.gz")
    verb.add_argument(
        "--tissues",
        type=Path,
        help="folder for the densities of all tissues, NIfTI, on MRtrix's scale: 0.282 in a voxel full of one",
    )
    verb.add_argument(
        "--normalize", action="store_true", help="normalize intensities, as mtnormalise does; needs several tissues"
    )
    verb.add_argument("--peaks", type=Path, help="image of the FODs' peaks")
    verb.add_argument("--fixels", type=Path, help="new folder for the peaks as MRtrix's fixels")
    add_settings(verb, CsdSettings(), "deconvolution")
    add_settings(verb, PeakSettings(), "peaks")
    verb.set_defaults(run=run_fod, lmax=None)  # None: the usual order, or the largest that fits the scan


def run_fod(options: argparse.Namespace) -> int:
    """Deconvolve the scan, and write what the options name."""
    _check_fod(options)
    settings, peaks = read_settings(options, CsdSettings()), read_settings(options, PeakSettings())
    responses = None if options.response is None else [read_response(path) for path in options.response]
    scan, mask = _scan(options)
    if options.lmax is None:
        lmax, notes = usual_lmax(scan, settings.shell)
        settings = dataclasses.replace(settings, lmax=lmax)
        tell(notes)
    if options.normalize and (count := np.count_nonzero(mask)) < LEAST_VOXELS:
        raise InvalidInput(f"the mask has {count} voxels, and --normalize needs {LEAST_VOXELS}; leave it out")
    with stop_at_interrupt() as stop:
        steps = deconvolve_steps(scan, responses, mask, settings, device=options.device, stop=stop)
        fods = drive(steps, draw_progress)
        if not fods.complete:
            done = f"{np.count_nonzero(fods.mask):,} of {np.count_nonzero(mask):,} voxels"
            tell([f"stopped early: only {done} have FODs"])
        elif options.normalize:
            fods = normalize_tissues(fods)
        tell(fods.notes)
        if not fods.mask.any() and not fods.complete:
            return STOPPED
        if not fods.mask.any():
            raise InvalidInput("no voxel of the mask has an FOD, so nothing was written; check the mask and the scan")
        write_fods(options.out, fods)
        wrote(options.out, f"{int(fods.mask.sum()):,} FODs of order {fods.lmax} in {options.out}")
        measured(fods=int(fods.mask.sum()), lmax=fods.lmax)
        _write_tissues(options.tissues, fods)
        if stop.is_set():
            tell(["peaks were not searched"])
        elif options.peaks is not None or options.fixels is not None:
            _write_directions(options, _peaks(fods, peaks, options.device, stop))
        stopped = stop.is_set()
    if fods.complete:
        _check_directions(options, scan, fods)
    return STOPPED if stopped else 0


def _check_fod(options: argparse.Namespace) -> None:
    """Check everything that can be checked before the run."""
    given = 1 if options.response is None else len(options.response)
    if given > len(TISSUES):
        raise InvalidInput(f"--response has {given} files; give one, or those of {', '.join(TISSUES)}")
    for name, wanted in (("--tissues", options.tissues is not None), ("--normalize", options.normalize)):
        if wanted and given == 1:
            raise InvalidInput(f"{name} needs several tissues; give --response WM GM CSF, or WM CSF")
    check_endings({"--peaks": options.peaks}, _IMAGES)
    beside = check_fod_output(options.out)
    _check_folder("--fixels", options.fixels)
    responses = {f"response {n}": path for n, path in enumerate(options.response or (), 1)}
    outputs = {"--out": options.out, "the JSON file of --out": beside, "--peaks": options.peaks}
    folders = {"--fixels": (options.fixels, ()), "--tissues": (options.tissues, [f"{name}.nii.gz" for name in TISSUES])}
    check_outputs(outputs, _inputs(options) | responses, force=options.force, folders=folders)


def _write_tissues(folder: Path | None, fods: FodField) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the folder {folder} cannot be made: {error.strerror}; choose another") from error
    for name, density in {"wm": fods.coefficients[..., 0], **fods.tissues}.items():
        path = folder / f"{name}.nii.gz"
        write_volume(path, np.ascontiguousarray(density), fods.affine, f"density of {name}")
        wrote(path)


def _peaks(fods: FodField, settings: PeakSettings, device: str, stop: threading.Event) -> FixelField:
    return drive(find_peaks_steps(fods, settings, device=device, stop=stop), draw_progress)


def _write_directions(options: argparse.Namespace, fixels: FixelField) -> None:
    if not len(fixels.directions):
        why = "no peak is high enough" if fixels.complete else "the search was stopped"
        warn(f"no peaks were written, since {why}")
        return
    if options.peaks is not None:
        write_peaks(options.peaks, fixels)
    if options.fixels is not None:
        write_fixels(options.fixels, fixels)
    for path in (options.peaks, options.fixels):
        if path is not None:
            wrote(path, f"{len(fixels.directions):,} peaks in {path}")
    measured(peaks=len(fixels.directions))


def _check_directions(options: argparse.Namespace, scan: DiffusionScan, fods: FodField) -> None:
    """Compare the FODs with tensors of the same scan, and these with its gradient table; tell what is wrong."""
    field = checked_tensors(scan, fods.mask, options.device)
    if field is None:
        tell(["the directions were not checked, since the scan has no b0 volume for tensors"])
        return
    check = check_fods(fods, field)
    tell_check(check)
    if check.ok and check.sure:
        note(
            f"the FODs agree with the tensors (median angle {check.median_angle_deg:.1f} degrees), which have the same "
            "gradient table"
        )


# -- peaks ------------------------------------------------------------------------------------------------------------


def _add_peaks(verbs: Any) -> None:
    text = "Find the peaks of fiber orientation distributions (FODs) of this program, MRtrix or DIPY."
    example = "example:\n  napari-gpubio peaks fod.mif --out peaks.nii.gz --fixels fixels\n"
    verb = _verb(verbs, "peaks", "find the peaks of fiber orientation distributions", text, example)
    verb.add_argument("input", type=Path, help="FODs: NIfTI, .mif or .pam5")
    verb.add_argument("--mask", type=Path, help="where peaks are searched; by default all FODs")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_basis(verb)
    verb.add_argument("--out", type=Path, dest="peaks", help="image of peaks, world axes, as MRtrix has them")
    verb.add_argument("--fixels", type=Path, help="new folder of fixels, as MRtrix has them")
    add_settings(verb, PeakSettings(), "peaks")
    verb.set_defaults(run=run_peaks)


def run_peaks(options: argparse.Namespace) -> int:
    """Find the peaks, and write them."""
    if options.peaks is None and options.fixels is None:
        raise InvalidInput("there is nothing to write; give --out for an image of peaks or --fixels for a folder")
    check_endings({"--out": options.peaks}, _IMAGES)
    _check_folder("--fixels", options.fixels)
    inputs = {"the FODs": options.input, "--mask": options.mask}
    folders = {"--fixels": (options.fixels, ())}
    check_outputs({"--out": options.peaks}, inputs, force=options.force, folders=folders)
    settings = read_settings(options, PeakSettings())
    fods = read_fod_field(options, options.input)
    with stop_at_interrupt() as stop:
        fixels = _peaks(fods, settings, options.device, stop)
        stopped = stop.is_set()
    _write_directions(options, fixels)
    return STOPPED if stopped else 0
