"""The verbs of detected photons that are traced again: Jacobians and trajectories."""

import dataclasses
import glob
import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.layer_files import described_files
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.report import WARNING
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.detectors import detector_names
from napari_gpubio.probes.io.jacobians import save_jacobians, write_jacobian
from napari_gpubio.probes.io.trajectories import save_trajectories
from napari_gpubio.probes.jacobians.model import COEFFICIENTS, Jacobian, Jacobians
from napari_gpubio.probes.jacobians.replay import check_request, replay_steps
from napari_gpubio.probes.trajectories import trajectories_steps
from napari_gpubio.probes.trajectory_model import Trajectories


@dataclass(frozen=True, kw_only=True)
class Replay(Operation, verb="jacobians", makes={"jacobians": Jacobians}):
    """Tell how what detectors measure changes with the coefficients of each voxel, by tracing photons again.

    A file .npz holds all of it, NIfTI a volume for each detector; of several parts each has its own file, with its name
    added.
    """

    examples = ("jacobians head.npz --of mua musp --frequency-mhz 100 --out jacobians.npz",)

    run: Ref[LightResult] = given("Run", "A simulation with detected photons.")
    of: tuple[str, ...] = part("Of", f"Some of {', '.join(COEFFICIENTS)}.", default=("mua",))
    mean_time: bool = param(False, "Mean time", "Also of the mean time of flight.")
    gates_ns: tuple[float, ...] = part("Time gates", "Also in these gates, by their edges.", unit="ns", default=())
    frequency_mhz: float | None = param(
        None, "Frequency", "Also of the amplitude and phase of modulated light.", unit="MHz", above=0.0
    )

    def check(self) -> None:
        """Raise InvalidInput if something else is asked for than there is."""
        check_request(self.of, self.gates_ns or None, self.frequency_mhz)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Jacobians | None]:
        """Trace the photons again; nothing comes of a replay that is stopped before its first detector is done."""
        detected, detectors = data.run.detected, data.run.detectors
        reached = sorted(set(detected.detector.tolist()))
        names = [name for number, name in enumerate(detector_names(detectors)) if number not in reached]
        found = yield from replay_steps(
            data.run, of=self.of, mean_time=self.mean_time, gates_ns=self.gates_ns or None,
            frequency_mhz=self.frequency_mhz, detectors=reached or None, **run,
        )  # fmt: skip
        missed = (f"{WARNING}no photon has reached {', '.join(names)}, so there is no Jacobian of it",) if names else ()
        return dataclasses.replace(found, notes=(*found.notes, *missed)) if found.channels else None

    def summary(self, made: Jacobians) -> Summary:
        """For each channel and part, the sum over each label with its error."""
        rows = [
            {"part": one.name, "unit": one.unit, "channels": [channel.name for channel in made.channels],
             "labels": made.labels, "label_sums": one.label_sums, "label_errors": one.label_errors}
            for one in made.parts
        ]  # fmt: skip
        return Summary(tuple(_lines(made)), {"jacobians": rows})


def _lines(jacobians: Jacobians) -> Iterator[str]:
    for index, channel in enumerate(jacobians.channels):
        apart = channel.separation_mm  # NaN of a face, or of several sources
        yield channel.name if math.isnan(apart) else f"{channel.name}, {apart:.1f} mm"
        for one in jacobians.parts:
            sums = zip(jacobians.labels, one.label_sums[index], one.label_errors[index], strict=True)
            listed = ", ".join(f"{label}: {value:.4g} ± {error:.2g}" for label, value, error in sums)
            yield f"  {one.name} by label, {one.unit}: {listed}"


@dataclass(frozen=True, kw_only=True)
class Trace(Operation, verb="trajectories", makes={"trajectories": Trajectories}):
    """Trace the first detected photons of a run again, and keep the points of their ways."""

    examples = ("trajectories head.npz --out paths.npz",)

    run: Ref[LightResult] = given("Run", "A simulation with detected photons.")
    most: int = param(1000, "Photons", "At most so many.", minimum=1)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Trajectories]:
        """Trace them."""
        return trajectories_steps(data.run, most_photons=self.most, **run)


def _parts_of(path: Path) -> dict[str, Path]:
    """Files that are there of Jacobians with several parts, and what lies beside each."""
    if path.suffix.lower() == ".npz":
        return {}
    ending = _ending(path)
    stem = glob.escape(path.name.removesuffix(ending))
    files = [path, *(one for name in COEFFICIENTS for one in path.parent.glob(f"{stem}_*_{name}{ending}"))]
    found = {f"{what} of {one.name}": file for one in files for what, file in described_files(one).items()}
    return {what: file for what, file in found.items() if file != path}


def _write(jacobians: Jacobians, path: Path, _: Mapping[str, Any]) -> None:
    if path.suffix.lower() == ".npz":
        save_jacobians(path, jacobians)
        return
    for one, part_ in jacobian_files(path, jacobians):
        write_jacobian(one, jacobians, part_)


def jacobian_files(path: Path, jacobians: Jacobians) -> Iterator[tuple[Path, Jacobian]]:
    """Paths of NIfTI files for the parts of Jacobians: the path itself for a single one, else with its name added."""
    ending = _ending(path)
    for one in jacobians.parts:
        gate = "" if one.gate_ns is None else f"_{one.gate_ns[0]:g}-{one.gate_ns[1]:g}ns"
        added = f"_{one.measure}{gate}_{one.coefficient}" if len(jacobians.parts) > 1 else ""
        yield path.with_name(f"{path.name.removesuffix(ending)}{added}{ending}"), one


def _ending(path: Path) -> str:
    return path.name[-len(".nii.gz") :] if path.name.lower().endswith(".nii.gz") else path.suffix


register_kind(
    Jacobians,
    counts=lambda one: tuple((part_.name, part_.values, part_.label_sums) for part_ in one.parts),
    endings=(".npz", *NIFTI_SUFFIXES),
    write=_write,
    beside=_parts_of,
)
register_kind(
    Trajectories,
    counts=lambda one: (one.photon, one.starts, one.position_mm, one.weight, one.time_ns, one.kind),
    endings=(".npz",),
    write=lambda found, path, _: save_trajectories(path, found),
)
