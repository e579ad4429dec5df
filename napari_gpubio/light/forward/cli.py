"""The command-line verb ``napari-gpubio forward``: from a probe file and a segmented head to sensitivities."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt

from napari_gpubio.core.command_line import (
    STOPPED,
    add_settings,
    check_outputs,
    draw_progress,
    is_same_file,
    read_settings,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.foreign import existing_numbers
from napari_gpubio.core.keeping import Keeper, left_by
from napari_gpubio.core.numbers import number_text
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import lies_on_grid, read_volume
from napari_gpubio.light.forward.io import check_format, read_unfinished, write_model, write_npz
from napari_gpubio.light.forward.model import Head, Probe, TabulatedTissue, head_names, head_tissues, read_probe
from napari_gpubio.light.forward.place import FARTHEST_MM, Placement, place, register
from napari_gpubio.light.forward.result import ForwardModel
from napari_gpubio.light.forward.run import forward_model_steps
from napari_gpubio.light.forward.settings import ForwardSettings
from napari_gpubio.light.forward.work import State
from napari_gpubio.light.io.table import read_table
from napari_gpubio.light.tissue import HEAD_TABLES

Array = npt.NDArray[Any]
_EXAMPLE = """example:
  napari-gpubio forward probe.snirf head.nii.gz --head-table "Cassano 2019" --wavelengths 760 850 \\
      --landmark Nz 0 86 -42 --landmark LPA -76 -12 -40 --landmark RPA 76 -12 -40 \\
      --labels "gray matter" --longest-mm 45 --out model.nc

  napari-gpubio forward sub-01_optodes.tsv head.nii.gz --media 760 head760.csv --media 850 head850.csv --out model.npz

What is done is kept every 8 s beside --out (.npz; of model.nc in model_unfinished.npz), and Ctrl-C adds pairs whose
optodes are done. The same command goes on with it, also after a kill."""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "forward",
        help="sensitivities of an fNIRS or DOT probe on a segmented head",
        description="Simulate every optode of a probe at every wavelength; write the Jacobian of all pairs.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLE,
    )
    verb.add_argument("probe", type=Path, help="probe: .snirf, .nirs, or *_optodes.tsv of BIDS-NIRS")
    verb.add_argument("labels_file", metavar="labels", type=Path, help="label volume (NIfTI), 0 is outside")
    tissues = verb.add_argument_group("tissues: one of")
    tissues.add_argument(
        "--head-table", choices=tuple(HEAD_TABLES), help="labels 1 to 5 are scalp, skull, CSF, gray and white matter"
    )
    tissues.add_argument(
        "--tissue", action="append", default=[], metavar="LABEL=PRESET", help="preset of a label, again for each label"
    )
    tissues.add_argument(
        "--media", nargs=2, action="append", default=[], metavar=("NM", "TABLE"),
        help="table of optical properties at a wavelength (.csv, .json), again for each wavelength",
    )  # fmt: skip
    where = verb.add_argument_group("registration, unless the probe is in the head's world")
    where.add_argument(
        "--landmark", nargs=4, action="append", default=[], metavar=("NAME", "X", "Y", "Z"),
        help="a landmark of the probe's file in the head's world, mm; three at least",
    )  # fmt: skip
    where.add_argument("--scale", action="store_true", help="also fit one scale to the landmarks")
    where.add_argument("--affine", type=Path, help="text file with 4 x 4 numbers from the probe's mm to the world")
    where.add_argument("--project", action="store_true", help="move optodes that are far off onto the scalp")
    where.add_argument(
        "--farthest-mm", type=float, default=FARTHEST_MM, help=f"from the scalp otherwise (default: {FARTHEST_MM:g})"
    )
    verb.add_argument("--wavelengths", type=float, nargs="+", metavar="NM", help="instead of those of the probe")
    verb.add_argument("--labels", nargs="+", metavar="LABEL", help="labels whose voxels are kept, by number or name")
    verb.add_argument("--mask", type=Path, help="volume; only its voxels other than 0 are kept")
    verb.add_argument("--atlas", type=Path, help="volume of parcels on the same grid, for .nc")
    add_settings(verb, ForwardSettings(), "simulation")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.add_argument("--out", type=Path, required=True, help="model: .nc (cedalion, xarray) or .npz (NumPy, SciPy)")
    verb.add_argument(
        "--resume", type=Path, metavar="FILE.npz", help="unfinished model to go on with (default: that of --out)"
    )
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    check_format(options.out)
    kept = _unfinished(options.out)
    earlier = _earlier(options, kept)
    goes_on = earlier is not None and is_same_file(kept, options.resume or kept)
    _check_outputs(options, kept, goes_on=goes_on)
    given = read_settings(options, ForwardSettings(wavelengths_nm=tuple(options.wavelengths or ())))
    probe, head = _probe(options), _head(options)
    placement = _placement(options, probe, head, given)
    mask, atlas = _on_head(head, options.mask, "mask"), _on_head(head, options.atlas, "atlas")
    keep = Keeper(kept, write_npz, draw_progress, goes_on=goes_on)
    with stop_at_interrupt() as stop:
        steps = forward_model_steps(
            head, placement, given, labels=options.labels, mask=mask, device=options.device, resume=earlier, stop=stop
        )
        model = drive(steps, keep)
    tell(model.notes)
    out = options.out if model.complete else kept
    if out != options.out:
        tell(["an unfinished model is written as .npz, which says which pairs are done"])
    write_model(out, model, **({"parcels": atlas} if atlas is not None and out.suffix.lower() == ".nc" else {}))
    if kept != out and (keep.has_saved or goes_on):
        kept.unlink(missing_ok=True)
    print("\n".join(_table_lines(model)))
    measured(channels=model.channels, separations_mm=model.separations_mm)
    measured(labels=model.labels, label_names=model.label_names)
    mean_paths = [(part.wavelength_nm, part.label_paths_mm, part.label_errors_mm) for part in model.parts]
    names = "wavelength_nm", "mean_path_mm", "mean_path_error_mm"  # of each channel in each label
    measured(wavelengths=[dict(zip(names, part, strict=True)) for part in mean_paths])
    wrote(out)
    return 0 if model.complete else STOPPED


def _unfinished(path: Path) -> Path:
    """The file of a model that was stopped: .npz, which says what is missing, under a name of its own beside .nc."""
    return path if path.suffix.lower() == ".npz" else path.with_name(f"{path.stem}_unfinished.npz")


def _earlier(options: argparse.Namespace, kept: Path) -> State | None:
    """What to go on with: that of ``--resume``, or what a run that did not end has left beside ``--out``."""
    if options.resume is None:
        return left_by(kept, read_unfinished)
    if (found := read_unfinished(existing_file(options.resume))) is None:
        raise InvalidInput(f"{options.resume.name} is no unfinished model; leave --resume out to begin anew")
    return found


def _check_outputs(options: argparse.Namespace, kept: Path, *, goes_on: bool) -> None:
    """Find out before the run whether its files can be written."""
    inputs: dict[str, Path | None] = {name: getattr(options, name) for name in ("probe", "affine", "mask", "atlas")}
    inputs |= {"labels": options.labels_file}
    inputs["--resume"] = None if goes_on else options.resume
    unfinished = {} if kept == options.out else {"the .npz of a stopped run": kept}
    outputs = {"--out": options.out, **unfinished}
    check_outputs(outputs, inputs, force=options.force, continued=kept if goes_on else None)


def _on_head(head: Head, path: Path | None, what: str) -> Array | None:
    """A volume that must have the head's grid, or None without a path."""
    if path is None:
        return None
    values, affine = read_volume(path)
    if not lies_on_grid(path, values.shape, affine, head.labels.shape, head.affine):
        raise InvalidInput(f"the {what} {path.name} has another grid than the labels; resample it to theirs")
    return values


def _probe(options: argparse.Namespace) -> Probe:
    probe = read_probe(options.probe)
    if options.landmark and options.affine is not None:
        raise InvalidInput("both --landmark and --affine are given; give one of them")
    if options.affine is not None:
        return register(probe, affine=existing_numbers(options.affine))
    if not options.landmark:
        if options.scale:
            raise InvalidInput("--scale is of the landmarks; give them: --landmark NAME X Y Z, three at least")
        return probe
    try:
        places = {name: tuple(float(number) for number in place) for name, *place in options.landmark}
    except ValueError as error:
        raise InvalidInput(f"--landmark takes a name and three numbers ({error})") from error
    if len(places) < len(options.landmark):
        raise InvalidInput("--landmark gives a name twice; leave one of them out")
    return register(probe, landmarks_mm=places, scale=options.scale)


def _head(options: argparse.Namespace) -> Head:
    if sum(map(bool, (options.head_table, options.tissue, options.media))) != 1:
        raise InvalidInput("give the tissues of the labels: one of --head-table, --tissue and --media")
    labels, affine = read_volume(options.labels_file)
    volume = {"labels": labels, "affine": affine, "path": options.labels_file}
    if options.head_table:
        return Head(**volume, tissues=head_tissues(options.head_table), names=head_names())
    if options.media:
        tables = {_wavelength(nm): read_table(path) for nm, path in options.media}
        if len(tables) < len(options.media):
            raise InvalidInput("--media gives a wavelength twice; leave one of the tables out")
        return Head(**volume, tissues=TabulatedTissue.of_tables(tables))
    pairs = [text.partition("=") for text in options.tissue]
    if wrong := [label for label, sign, _ in pairs if not (sign and label.strip().isdigit())]:
        raise InvalidInput(f"--tissue {wrong[0]!r} is not LABEL=PRESET, such as 4='gray matter (Cassano 2019)'")
    tissues = {int(label): name.strip() for label, _, name in pairs}
    if len(tissues) < len(pairs):
        raise InvalidInput("--tissue gives a label twice; leave one of its presets out")
    return Head(**volume, tissues=tissues)


def _wavelength(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(f"--media {text!r} is not a wavelength in nm; give its number, then the table") from error


def _placement(options: argparse.Namespace, probe: Probe, head: Head, given: ForwardSettings) -> Placement:
    wavelengths = given.wavelengths_nm or probe.wavelengths_nm
    if not wavelengths:
        raise InvalidInput("the probe has no wavelengths; give --wavelengths")
    return place(probe, head.at(wavelengths[0]), farthest_mm=options.farthest_mm, project=options.project)


def _table_lines(model: ForwardModel) -> Iterator[str]:
    """Mean partial paths of every pair, mm, with their standard errors."""
    yield (
        f"{len(model.pairs)} pairs, {len(model.voxels):,} voxels, {model.parameters['photons']:,} photons of each of "
        f"{model.parameters['optodes']} optodes in {model.parameters['seconds']:.1f} s on {model.parameters['device']}"
    )
    names = [name or f"label {label}" for label, name in zip(model.labels, model.label_names, strict=True)]
    for part in model.parts:
        yield f"{part.wavelength_nm:g} nm: mean path, mm: {', '.join(names)}"
        for row, (channel, apart) in enumerate(zip(model.channels, model.separations_mm, strict=True)):
            if not part.reached[row]:
                why = "too close" if part.close[row] else "not reached" if part.done[row] else "not done"
                yield f"  {channel:10}{apart:6.1f} mm  {why}"
                continue
            paths = zip(part.label_paths_mm[row], part.label_errors_mm[row], strict=True)
            yield f"  {channel:10}{apart:6.1f} mm  " + ", ".join(number_text(*path) for path in paths)
