"""Arguments of the verb ``light`` that say what is simulated: tissue, source, detectors, wavelengths."""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import add_settings, given_options, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.report import tell
from napari_gpubio.core.tensor_components import PLACES
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.light.anisotropy.calibration import FiberCalibration, with_fibers
from napari_gpubio.light.detectors import FACES, AnyDetector, Detector, FaceDetector
from napari_gpubio.light.io.foreign import check_labels_file
from napari_gpubio.light.io.table import read_table
from napari_gpubio.light.io.volumes import read_diffusion_tensors, read_domain, read_irradiance
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.scattering_tensors import FREE, PRODUCT
from napari_gpubio.light.settings import FACE_RULES, LightSettings
from napari_gpubio.light.sources import (
    Directed,
    Pattern,
    PatternArea,
    Pencil,
    Source,
    SourceChoice,
    Turned,
    emitting_volume,
    finite_vector,
)
from napari_gpubio.light.spectrum import spectrum_media
from napari_gpubio.light.surface import inward_normal
from napari_gpubio.light.tissue import media_at_wavelengths

_POINT = ("X", "Y", "Z")
_MOST_WAVELENGTHS = 10_000


def add_case(verb: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is simulated."""
    _add_tissue(verb)
    _add_source(verb)
    add_settings(verb, LightSettings(), "simulation")
    verb.add_argument("--time-gates-ns", type=float, nargs="+", metavar="EDGE", help="edges of time gates, ns")
    verb.add_argument(
        "--faces",
        nargs=6,
        metavar="RULE",
        help=f"for the faces {', '.join(FACES)}: one of {', '.join(FACE_RULES)} each",
    )


def given_case(options: argparse.Namespace) -> list[str]:
    """Options of `add_case` that are given with another value than the usual one, but for the number of photons."""
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    add_case(parser)
    return [name for name in given_options(options, vars(parser.parse_args([]))) if name != "--photons"]


def _add_tissue(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--properties", type=Path, help="table of optical properties, .csv or .json: label, mua_per_mm, …"
    )
    verb.add_argument("--outside-n", type=float, default=1.0, help="refractive index outside (default: 1)")
    verb.add_argument("--mua", type=Path, metavar="FILE", help="volume of absorption coefficients instead, 1/mm")
    verb.add_argument("--mus", type=Path, metavar="FILE", help="volume of scattering coefficients instead, 1/mm")
    verb.add_argument("--g", type=Path, metavar="FILE", help="volume of the anisotropy g instead")
    verb.add_argument("--n", type=Path, metavar="FILE", help="volume of the refractive index instead")
    _add_fibers(verb)
    verb.add_argument(
        "--air-in-cavities", action="store_true", help="let light cross voxels of label 0 that tissue encloses, as air"
    )


def _add_fibers(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("scattering along and across fibers")
    group.add_argument(
        "--tensor", type=Path, metavar="FILE", help="diffusion tensors (NIfTI): scattering follows the fibers"
    )
    group.add_argument(
        "--tensor-order", choices=tuple(PLACES),
        help="of their components: mrtrix (xx yy zz xy xz yz), fsl (xx xy xz yy yz zz), dipy (xx xy yy xz yz zz), "
        "full (3 x 3); needed with --tensor",
    )  # fmt: skip
    group.add_argument(
        "--tensor-axes", choices=("world", "voxel", "fsl"),
        help="axes that they refer to (default: world for mrtrix and full, FSL's for fsl and dipy)",
    )  # fmt: skip
    group.add_argument(
        "--fiber-labels",
        type=int,
        nargs="+",
        metavar="LABEL",
        help="labels with fibers (default: all)",
    )
    group.add_argument(
        "--scattering-model", choices=(PRODUCT, FREE), default=PRODUCT,
        help="product (default; reciprocal), or free: as in other programs, not reciprocal",
    )  # fmt: skip
    add_settings(verb, FiberCalibration(), "how much fibers scatter")


def _add_source(verb: argparse.ArgumentParser) -> None:
    add_settings(verb, SourceChoice(), "kind of the source, and what that has")
    group = verb.add_argument_group("source and detectors")
    group.add_argument("--position", type=float, nargs=3, metavar=_POINT, help="of the source, world mm")
    group.add_argument(
        "--direction", type=float, nargs=3, metavar=_POINT, help="of emission (default: normally into the tissue)"
    )
    group.add_argument("--width-axis", type=float, nargs=3, metavar=_POINT, help="direction of a rectangle's width")
    group.add_argument("--pattern", type=Path, metavar="IMAGE", help="its gray values are the irradiance of a pattern")
    group.add_argument(
        "--emission", type=Path, metavar="VOLUME", help="what the voxels of a NIfTI volume emit, instead of --source"
    )
    verb.add_argument(
        "--wavelengths", metavar="FIRST:LAST:STEP", help="detected light at these wavelengths, nm, from one run: with "
        "--tissue instead of --properties, --detector, and --spectrum for the table",
    )  # fmt: skip
    verb.add_argument(
        "--tissue", nargs=2, action="append", default=[], metavar=("LABEL", "PRESET"),
        help="optical properties of a label at --wavelengths, such as: 1 'skin (Cassano 2019)'",
    )  # fmt: skip
    group.add_argument(
        "--detector", type=float, nargs=4, action="append", default=[], metavar=(*_POINT, "RADIUS"), help="sphere, mm"
    )
    group.add_argument(
        "--detector-face", action="append", default=[], choices=FACES, metavar="FACE",
        help=f"whole face of the grid, one of {', '.join(FACES)} (written --detector-face=-k)",
    )  # fmt: skip


def media_by_wavelength(options: argparse.Namespace) -> dict[float, tuple[Medium, ...]]:
    """Media of the presets at the wavelengths, or none."""
    if options.wavelengths is None:
        if options.tissue or options.spectrum is not None:
            raise InvalidInput("--tissue and --spectrum belong to --wavelengths FIRST:LAST:STEP; give these, too")
        return {}
    if options.spectrum is None or not options.tissue:
        raise InvalidInput("--wavelengths needs --tissue LABEL PRESET for each label, and --spectrum FILE.csv")
    if options.mua is not None:
        raise InvalidInput("--mua gives absorption voxel by voxel, and --wavelengths by label; leave one of them out")
    if options.properties is not None:
        raise InvalidInput("both --properties and --wavelengths are given; --tissue has the properties of the labels")
    if options.resume is None and not has_detectors(options):
        raise InvalidInput(
            "there is no --detector, and only detected light is known at other wavelengths; give --detector"
        )
    presets: dict[int, str] = {}
    for label, name in options.tissue:
        if not label.isdecimal():
            raise InvalidInput(f"--tissue has {label!r}; give the number of a label, then its preset")
        if int(label) in presets:
            raise InvalidInput(f"--tissue gives label {label} twice; leave one of them out")
        presets[int(label)] = name
    return media_at_wavelengths(presets, _range_of(options.wavelengths))


def check_partners(options: argparse.Namespace) -> None:
    """Refuse options that say nothing without another one."""
    usual = FiberCalibration()
    of_tensors = {field.name: getattr(usual, field.name) for field in dataclasses.fields(usual) if param_info(field)}
    of_tensors |= {"tensor_order": None, "tensor_axes": None, "fiber_labels": None, "scattering_model": PRODUCT}
    of_jacobian = {"jacobian_of": ["mua"], "jacobian_mean_time": False}
    of_jacobian |= {"jacobian_gates_ns": None, "jacobian_frequency_mhz": None}
    for partner, names in (("tensor", of_tensors), ("jacobian", of_jacobian), ("out", {"each_gate": False})):
        if getattr(options, partner) is None and (given := given_options(options, names)):
            raise InvalidInput(f"{given[0]} says more of --{partner}, which is not given; add it, or leave both out")


def _range_of(text: str) -> Sequence[float]:
    """Wavelengths from the first to the last, both included, in steps."""
    try:
        first, last, step = (float(part) for part in text.split(":"))
        count = math.floor((last - first) / step + 1e-9) + 1
    except (ValueError, ZeroDivisionError, OverflowError):
        count = 0
    if not 1 <= count <= _MOST_WAVELENGTHS:
        raise InvalidInput(f"--wavelengths is {text!r}; give FIRST:LAST:STEP in nm, such as 650:950:6")
    return [first + index * step for index in range(count)]


def domain_of(options: argparse.Namespace, by_wavelength: Mapping[float, tuple[Medium, ...]]) -> Domain:
    """The labels and what they consist of, at the wavelengths if there are some."""
    if options.labels is not None:
        check_labels_file(options.labels)
    if options.labels is None or (options.properties is None and not by_wavelength):
        raise InvalidInput("give a label volume and --properties TABLE, or --resume RESULT")
    media = spectrum_media(by_wavelength) if by_wavelength else read_table(options.properties)
    domain = read_domain(
        options.labels, media, outside_n=options.outside_n, mua_path=options.mua, mus_path=options.mus,
        g_path=options.g, n_path=options.n,
    )  # fmt: skip
    domain = domain.with_air_in_cavities() if options.air_in_cavities else domain
    return domain if options.tensor is None else _with_fibers(options, domain)


def _with_fibers(options: argparse.Namespace, domain: Domain) -> Domain:
    """The domain with scattering that follows the fibers of a tensor image."""
    if options.tensor_order is None:
        raise InvalidInput(
            f"the order of the components of {options.tensor.name} is not given; add --tensor-order, one of "
            f"{', '.join(PLACES)}"
        )
    tensors, affine = read_diffusion_tensors(options.tensor, options.tensor_order, axes=options.tensor_axes)
    calibration = read_settings(options, FiberCalibration())
    fibrous = with_fibers(
        domain, tensors, affine, labels=options.fiber_labels, calibration=calibration, model=options.scattering_model
    )
    tell(fibrous.notes[-1:])
    return fibrous


def source_of(options: argparse.Namespace, domain: Domain) -> Source:
    """The source; without a direction it points into the tissue."""
    source = read_settings(options, SourceChoice()).source
    if options.emission is not None:
        given = given_options(options, dict.fromkeys(("position", "direction", "width_axis", "pattern")))
        if given or source != Pencil():
            raise InvalidInput(f"--emission says where light starts; leave {[*given, '--source'][0]} out")
        return emitting_volume(*read_volume(options.emission))
    if options.position is None:
        raise InvalidInput("the source has no place; give --position X Y Z, world mm")
    more: dict[str, Any] = {"position_mm": finite_vector("--position", options.position)}
    if options.direction is not None:
        more["direction"] = options.direction
    elif isinstance(source, Directed):
        more["direction"] = tuple(inward_normal(domain.labels, domain.affine, options.position))
    more |= {} if options.width_axis is None else {"width_axis": options.width_axis}
    if "width_axis" in more and not isinstance(source, Turned):
        raise InvalidInput(f"a source of kind {source.kind} takes no --width-axis; leave it out, or choose another")
    if (options.pattern is not None) != isinstance(source, PatternArea):
        raise InvalidInput("--pattern and --source pattern belong together; give both, or leave both out")
    if isinstance(source, PatternArea):
        return source.changed_to(Pattern, pattern=read_irradiance(options.pattern), **more)
    return dataclasses.replace(source, **more)


def settings_of(options: argparse.Namespace) -> LightSettings:
    """The settings of the run."""
    named = ((name, getattr(options, name)) for name in ("time_gates_ns", "faces"))
    given: dict[str, Any] = {name: tuple(value) for name, value in named if value}
    if options.photons is None:
        options.photons = LightSettings().photons
    return read_settings(options, LightSettings(**given))


def has_detectors(options: argparse.Namespace) -> bool:
    """Whether there are detectors."""
    return bool(options.detector or options.detector_face)


def detectors_of(options: argparse.Namespace) -> tuple[AnyDetector, ...]:
    """The detectors: spheres, then whole faces."""
    placed = (
        Detector(position_mm=(x, y, z), radius_mm=radius, name=f"D{number}")
        for number, (x, y, z, radius) in enumerate(options.detector, 1)
    )
    return (*placed, *(FaceDetector(face=face, name=f"face {face}") for face in options.detector_face))
