"""Arguments of the verb of tracking: how a scan is read, where tensors come from, directions and method."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Parser, add_settings, draw_progress, read_settings, whole_numbers
from napari_gpubio.core.operations import commands
from napari_gpubio.core.reading import note
from napari_gpubio.core.report import tell, warn
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.tracts.directions import Directions, Usual
from napari_gpubio.tracts.fods.axis_check import AxisCheck
from napari_gpubio.tracts.fods.frames import FRAMES
from napari_gpubio.tracts.fods.harmonics import BASES
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.io.dwi import read_dwi, read_mask
from napari_gpubio.tracts.io.fods import read_fods
from napari_gpubio.tracts.io.kinds import is_scan
from napari_gpubio.tracts.io.tensor_images import read_tensors
from napari_gpubio.tracts.model import B0_LIMIT, DiffusionScan, TensorField
from napari_gpubio.tracts.settings import IFOD2, FixelGeodesic, Hamiltonian, Method
from napari_gpubio.tracts.tensors.gradient_check import GradientCheck, check_gradients
from napari_gpubio.tracts.tensors.run import fit_tensors
from napari_gpubio.tracts.tensors.settings import FitSettings


@dataclass(frozen=True, kw_only=True)
class Tracking(Settings):
    """Directions and method, as options."""

    directions: Directions = part("Directions", "In which directions fibers leave each seed point.", default=Usual())
    method: Method = part("Method", "How fibers are traced.", default=Hamiltonian())


@dataclass(frozen=True, kw_only=True)
class InFodsByDefault(Tracking):
    """The same, in FODs."""

    method: Method = part("Method", "How fibers are traced.", default=IFOD2())


@dataclass(frozen=True, kw_only=True)
class InFixelsByDefault(Tracking):
    """The same, in fixels."""

    method: Method = part("Method", "How fibers are traced.", default=FixelGeodesic())


def add_scan_options(verb: argparse.ArgumentParser) -> None:
    """Add the arguments that say how a diffusion scan is read."""
    group = verb.add_argument_group("diffusion scan")
    group.add_argument("--bval", type=Path, help="b-values, or MRtrix's table x, y, z, b (default: beside the scan)")
    group.add_argument("--bvec", type=Path, help="directions (default: beside the scan)")
    group.add_argument("--volumes", type=whole_numbers, help="those to read, from 0, as in 0-5,8 (default: all)")
    text = f"volumes up to this b-value are not weighted [s/mm^2] (default: {B0_LIMIT:g})"
    group.add_argument("--b0-limit", type=float, default=B0_LIMIT, help=text)


def read_scan(options: argparse.Namespace) -> DiffusionScan:
    """Read the scan that the options of `add_scan_options` name."""
    chosen = {"volumes": options.volumes, "b0_limit": options.b0_limit}
    return read_dwi(options.input, bval=options.bval, bvec=options.bvec, **chosen)


def add_field(verb: argparse.ArgumentParser, *, or_fods: bool = False) -> None:
    """Add the arguments that say where the tensors come from, and the device; or where FODs come from instead."""
    verb.add_argument(
        "input",
        type=Path,
        nargs="?" if or_fods else None,
        help="diffusion scan (NIfTI with bval and bvec beside it, .mif), or tensor image"
        + ("; not needed with --fods or --fixels, where it serves --maps and the check of the axes" if or_fods else ""),
    )
    if or_fods:
        verb.add_argument("--fods", type=Path, help="image of fiber orientation distributions to track in")
        add_basis(verb)
    verb.add_argument("--tensor-order", default="auto", help="of a tensor image: auto, mrtrix, fsl, dipy, full")
    verb.add_argument("--mask", type=Path, help="brain mask on the same grid")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_scan_options(verb)
    add_settings(verb, FitSettings(), "tensor fit")


def add_basis(verb: argparse.ArgumentParser) -> None:
    """Add the arguments that say how FODs of another program are read."""
    verb.add_argument("--basis", default="auto", choices=("auto", *BASES), help="harmonics of the FODs (default: auto)")
    verb.add_argument(
        "--frame", default="auto", choices=("auto", *FRAMES), help="axes of FODs or fixels (default: auto)"
    )


def read_fod_field(options: argparse.Namespace, path: Path) -> FodField:
    """Read FODs as the options of `add_basis` say, in the mask, and tell what is to be known of them."""
    field = read_fods(path, basis=options.basis, frame=options.frame, mask=options.mask)
    tell(field.notes)
    return field


def read_field(options: argparse.Namespace) -> TensorField:
    """Fit or read the tensors that the options of `add_field` name, and tell what is to be known of them."""
    field = _field(options)
    tell(field.notes)
    return field


def _field(options: argparse.Namespace) -> TensorField:
    is_given = options.bval is not None or options.bvec is not None
    if not is_given and not is_scan(options.input):
        return read_tensors(options.input, order=options.tensor_order, mask=options.mask)
    return fit_scan(options, read_scan(options))


def fit_scan(options: argparse.Namespace, scan: DiffusionScan) -> TensorField:
    """Fit tensors to a scan in the mask and with the settings of the options; warn of a wrong gradient table."""
    mask = None if options.mask is None else read_mask(options.mask, scan.shape, scan.affine)
    settings = read_settings(options, FitSettings())
    field = fit_tensors(scan, mask, settings, device=options.device, progress=draw_progress)
    tell_check(check_gradients(field))
    return field


def tell_check(check: GradientCheck | AxisCheck) -> None:
    """Warn of axes that are wrong, and note where it could not be decided."""
    if not check.ok:
        warn(check.message)
    elif not check.sure:
        note(f"{check.message[0].lower()}{check.message[1:].partition('. ')[0]}")


def add_tracking(verb: Parser, tracking: Tracking, **others: Tracking) -> None:
    """Add the options of directions and method: of the method, only those of the one that is chosen.

    ``others``: what is usual where an option is given.
    """

    def prepare(verb: Parser, arguments: Sequence[str]) -> None:
        given = {one.partition("=")[0] for one in arguments}
        usual = next((one for flag, one in others.items() if f"--{flag}" in given), tracking)
        chosen = commands._chosen(type(usual), arguments)
        for option in commands._options(type(usual)):
            if commands._is_chosen(option, chosen) and option.flag not in verb._option_string_actions:
                commands._add_option(verb, option, "", shows_all=True)
        verb.set_defaults(chosen=chosen, tracking=usual)

    verb.prepare = prepare


def read_tracking(options: argparse.Namespace) -> Any:
    """Return directions and method as the options say; what is not given is as `add_tracking` was told."""
    return commands._made(type(options.tracking), vars(options), options.chosen, (), options.tracking)
