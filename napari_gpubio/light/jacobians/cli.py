"""Detected photons traced again on the command line: the arguments of the verb ``light`` for it, and what they do."""

import argparse
import glob
import math
from collections.abc import Iterator
from pathlib import Path

from napari_gpubio.core.command_line import Writing, draw_progress, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.core.layer_files import described_files, sidecar_path
from napari_gpubio.core.report import measured, tell, warn, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.light.arguments import has_detectors
from napari_gpubio.light.detectors import detector_names
from napari_gpubio.light.io.foreign import MCX_SUFFIXES
from napari_gpubio.light.io.jacobians import save_jacobians, write_jacobian
from napari_gpubio.light.io.trajectories import save_trajectories
from napari_gpubio.light.jacobians.model import COEFFICIENTS, Jacobian, Jacobians
from napari_gpubio.light.jacobians.replay import check_request, replay_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.trajectories import trajectories_steps


def add_replay(verb: argparse.ArgumentParser) -> None:
    """Add the arguments that ask for Jacobians or trajectories."""
    group = verb.add_argument_group("detected photons, traced again")
    group.add_argument(
        "--jacobian", type=Path, metavar="FILE",
        help="how what the detectors measure changes with the coefficients of each voxel: .npz holds all of it, "
        ".nii.gz one volume for each detector, with a JSON file beside it",
    )  # fmt: skip
    group.add_argument(
        "--jacobian-of", nargs="+", choices=tuple(COEFFICIENTS), default=["mua"], metavar="COEFFICIENT",
        help=f"some of {', '.join(COEFFICIENTS)} (default: mua)",
    )  # fmt: skip
    group.add_argument("--jacobian-mean-time", action="store_true", help="also of the mean time of flight")
    group.add_argument("--jacobian-gates-ns", type=float, nargs="+", metavar="EDGE", help="also in these time gates")
    group.add_argument("--jacobian-frequency-mhz", type=float, metavar="F", help="also of amplitude and phase")
    group.add_argument("--trajectories", type=Path, metavar="FILE.npz", help="trajectories of the first 1000 of them")


def check_replay(options: argparse.Namespace) -> None:
    """Find out before the simulation whether its photons can be replayed as requested."""
    if not wants_replay(options):
        return
    is_mcx = options.labels is not None and options.labels.suffix.lower() in MCX_SUFFIXES
    if not has_detectors(options) and options.resume is None and not is_mcx:
        raise InvalidInput(
            "--jacobian and --trajectories are of detected photons; place detectors: --detector X Y Z RADIUS"
        )
    if options.jacobian is not None:
        check_request(options.jacobian_of, options.jacobian_gates_ns, options.jacobian_frequency_mhz)
        if options.jacobian.suffix.lower() != ".npz":
            sidecar_path(options.jacobian)
        check_folder(options.jacobian)


def jacobian_outputs(options: argparse.Namespace) -> dict[str, Path]:
    """Files that may be written for Jacobians, by what they are: of several parts those that are there."""
    if (path := options.jacobian) is None or path.suffix.lower() == ".npz":
        return {} if path is None else {"--jacobian": path}
    ending, more = _ending(path), ("jacobian_mean_time", "jacobian_gates_ns", "jacobian_frequency_mhz")
    stem, files = glob.escape(path.name.removesuffix(ending)), [path]
    if len(options.jacobian_of) > 1 or any(getattr(options, name) for name in more):
        files = [one for name in options.jacobian_of for one in path.parent.glob(f"{stem}_*_{name}{ending}")]
    return {f"{what} of --jacobian ({one.name})": file for one in files for what, file in described_files(one).items()}


def wants_replay(options: argparse.Namespace) -> bool:
    """Whether detected photons are to be traced again."""
    return options.jacobian is not None or options.trajectories is not None


def run_replay(options: argparse.Namespace, result: LightResult, writing: Writing) -> bool:
    """Trace detected photons again, if that is requested, and write what that gives.

    Returns
    -------
    bool
        Whether it came to its end; Ctrl-C keeps what is done.
    """
    reached = sorted(set(result.detected.detector.tolist()))
    if options.jacobian is not None and 0 < len(reached) < len(result.detectors):
        names = [name for number, name in enumerate(detector_names(result.detectors)) if number not in reached]
        warn(f"no photon has reached {', '.join(names)}, so there is no Jacobian of it")
    with stop_at_interrupt() as stop:
        if options.jacobian is not None:
            with writing.attempt():
                steps = replay_steps(
                    result, of=options.jacobian_of, mean_time=options.jacobian_mean_time,
                    gates_ns=options.jacobian_gates_ns, frequency_mhz=options.jacobian_frequency_mhz,
                    detectors=reached or None, device=options.device, stop=stop,
                )  # fmt: skip
                _show_and_write(options.jacobian, drive(steps, draw_progress))
        if options.trajectories is not None and not stop.is_set():
            with writing.attempt():
                traced = drive(trajectories_steps(result, device=options.device, stop=stop), draw_progress)
                save_trajectories(options.trajectories, traced)
                wrote(options.trajectories)
        return not stop.is_set()


def _show_and_write(path: Path, jacobians: Jacobians) -> None:
    tell(jacobians.notes)
    if not jacobians.channels:
        warn(f"the replay was stopped before its first detector; {path.name} is not written")
        return
    print("\n".join(_jacobian_lines(jacobians)))
    measured(jacobians=[
        {"part": part.name, "unit": part.unit, "channels": [one.name for one in jacobians.channels],
         "labels": jacobians.labels, "label_sums": part.label_sums, "label_errors": part.label_errors}
        for part in jacobians.parts
    ])  # fmt: skip
    _write_jacobians(path, jacobians)


def _write_jacobians(path: Path, jacobians: Jacobians) -> None:
    if path.suffix.lower() == ".npz":
        save_jacobians(path, jacobians)
        wrote(path)
        return
    for one, part in jacobian_files(path, jacobians):
        write_jacobian(one, jacobians, part)
        wrote(one)


def jacobian_files(path: Path, jacobians: Jacobians) -> Iterator[tuple[Path, Jacobian]]:
    """Paths of NIfTI files for the parts of Jacobians: the path itself for a single one, else with its name added."""
    name, ending = path.name, _ending(path)
    for part in jacobians.parts:
        gate = "" if part.gate_ns is None else f"_{part.gate_ns[0]:g}-{part.gate_ns[1]:g}ns"
        added = f"_{part.measure}{gate}_{part.coefficient}" if len(jacobians.parts) > 1 else ""
        yield path.with_name(f"{name.removesuffix(ending)}{added}{ending}"), part


def _ending(path: Path) -> str:
    return path.name[-len(".nii.gz") :] if path.name.lower().endswith(".nii.gz") else path.suffix


def _jacobian_lines(jacobians: Jacobians) -> Iterator[str]:
    """Lines of a table: for each channel and part, the sum over each label with its error."""
    for index, channel in enumerate(jacobians.channels):
        apart = channel.separation_mm  # NaN of a face, or of several sources
        yield channel.name if math.isnan(apart) else f"{channel.name}, {apart:.1f} mm"
        for part in jacobians.parts:
            sums = zip(jacobians.labels, part.label_sums[index], part.label_errors[index], strict=True)
            listed = ", ".join(f"{label}: {value:.4g} ± {error:.2g}" for label, value, error in sums)
            yield f"  {part.name} by label, {part.unit}: {listed}"
