"""What MCX writes at the end of a run: the volume as JNIfTI or NIfTI, detected photons, and trajectories.

MCX replays detected photons in a second run, from seeds that the first has saved. Here the first run is enough, since
photons are known by their numbers; what is written is per weight of the photons that all detectors have received
together, as MCX does unless one detector is chosen on its command line.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, write_text
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightCase
from napari_gpubio.light.statistics import detected_sources
from napari_gpubio.mcx.io.jdata import encode_array
from napari_gpubio.optics.detectors import AnyDetector, Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.probes.jacobians.model import Jacobian, Jacobians
from napari_gpubio.probes.trajectory_model import KINDS, Trajectories

# Letters of OutputType, by which MCX knows what is in a voxel, and ours of them.
OUTPUTS = {"x": "fluence rate", "f": "fluence", "e": "absorbed energy"}
# Those that take a replay of detected photons.
REPLAYS = {
    "j": "path of the detected light in a voxel, -d ln intensity / d mua",
    "p": "scattering events of the detected light in a voxel times the voxel's edge",
    "r": "d ln amplitude / d mua, then d phase lag / d mua",
}
MAX_TRAJECTORIES = 2000  # photons whose trajectories are written
_FORMATS = {"jnii": ".jnii", "nii": ".nii", "mc2": ".mc2"}
_UNITS = {"x": "1/(mm2 s) per J", "f": "1/mm2", "e": "part of the launched energy"}
_UNITS |= {"j": "mm", "p": "mm", "r": "mm, rad mm"}
_LONGEST_NAME = 200  # bytes, so that it and an ending fit any file system
_SECONDS_PER_NS = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class McxCase(LightCase, ShortRepr):
    """A `LightCase` of an MCX input file, with what the file wants to be written.

    Parameters
    ----------
    output_type
        What is in a voxel: a letter of `OUTPUTS`, or another of MCX's.
    output_format
        ``jnii``, ``nii``, ``mc2``, or another of MCX's.
    frequency_mhz
        Modulation frequency of the source, or None.
    trajectories
        Whether trajectories of photons are wanted, too.
    separately
        Whether each of several sources is to have a result of its own.
    saves_volume, saves_photons
        Whether the volume and the list of detected photons are to be written.
    inputs
        The file itself, and others that it names.
    detector_numbers
        MCX's number of each detector, from 1, or -1 of a whole face; empty: counted from 1.
    """

    output_type: str = "x"
    output_format: str = "jnii"
    frequency_mhz: float | None = None
    trajectories: bool = False
    separately: bool = False
    saves_volume: bool = True
    saves_photons: bool = True
    inputs: tuple[Path, ...] = ()
    detector_numbers: tuple[int, ...] = ()

    @property
    def results(self) -> int:
        """Number of results: one for each pattern, or for each of separate sources."""
        return len(self.patterns) if self.patterns is not None else len(self.sources) if self.separately else 1

    @property
    def is_one_run(self) -> bool:
        """Whether it is a run with one result, which can be gone on with and traced again."""
        return self.patterns is None and not self.separately

    @property
    def replays(self) -> bool:
        """Whether detected photons are to be traced again for its volume."""
        return self.output_type in REPLAYS

    @property
    def file_name(self) -> str:
        """What begins the names of its files: nothing that leads to other folders."""
        return Path(self.name.replace("\\", "/")).name or "mcx"

    def check_output(self) -> None:
        """Check that what the file wants written can be made here.

        Raises
        ------
        InvalidInput
            If the type or the format of the output is unknown, lacks detectors or a frequency, or cannot hold several
            sources or patterns; or if the session's ID cannot be the name of a file.
        """
        if not self.file_name.isprintable() or len(self.file_name.encode("utf-8", "replace")) > _LONGEST_NAME:
            raise InvalidInput(
                f"Session.ID is {self.name[:40]!r}, which cannot be the name of a file; give a short word"
            )
        if self.replays and not self.detectors:
            raise InvalidInput(
                f"Session.OutputType is {self.output_type!r}, which is of detected photons, and there are no "
                "detectors; give Optode.Detector"
            )
        if (self.replays or self.trajectories) and not self.is_one_run:
            raise InvalidInput(
                "photons of one source, or of all together, can be traced again, not those of separate sources or of "
                "patterns; take another OutputType and no DebugFlag M or T, or all sources together or one"
            )
        if self.output_type == "r" and not self.frequency_mhz:
            raise InvalidInput("Session.OutputType is 'r'; give a modulation frequency in Hz: Optode.Source.Frequency")
        if self.output_type not in OUTPUTS | REPLAYS:
            made = ", ".join(f"{letter} ({what})" for letter, what in (OUTPUTS | REPLAYS).items())
            raise InvalidInput(f"Session.OutputType is {self.output_type!r}, which is not made here; choose {made}")
        if self.output_format not in _FORMATS:
            raise InvalidInput(
                f"Session.OutputFormat is {self.output_format!r}, which is not written here; choose "
                f"{' or '.join(_FORMATS)}"
            )
        if self.output_format == "nii" and not self.is_one_run:
            raise InvalidInput(
                "Session.OutputFormat is 'nii', which holds no volumes of several sources or patterns; choose jnii"
            )


class McxReplayed(NamedTuple):
    """What came of photons that were traced again: Jacobians in the time gates of the run, and trajectories."""

    jacobians: Jacobians | None = None
    trajectories: Trajectories | None = None


NOTHING = McxReplayed()


def write_mcx_output(
    folder: str | Path, case: McxCase, result: LightResult | Sequence[LightResult], *, replayed: McxReplayed = NOTHING
) -> tuple[Path, ...]:
    """Write what MCX would: ``ID.jnii``, ``ID.nii`` or ``ID.mc2``, and ``ID_detp.jdat`` if there are detectors.

    Where trajectories are wanted, ``ID_traj.jdat``, too.

    Numbers are per photon that entered the tissue, as those of MCX with its normalization: in each time gate, fluence
    rate in 1/(mm^2 s) per joule, fluence in 1/mm^2, or the part of the energy that each voxel absorbs. Paths of
    detected photons are in voxel edges, positions in voxels from the corner of the first. Detectors are numbered from
    1, whole faces are -1, all alike, as in MCX; ``Media`` begins with the outside, and ``ppath`` has a column for each
    of the other media. Where absorption differs voxel by voxel, paths and weights at launch are not written.
    ``mc2`` has the numbers alone, float32, the first axis fastest.

    Parameters
    ----------
    folder
        Where they are written; older files of these names are replaced.
    case
        What was read.
    result
        Its simulation, or those of each source or pattern. Volumes of sources are then along a sixth axis, each
        over the mean of the weights launched, as MCX has them; those of patterns along a first one, without a list of
        photons.
    replayed
        What the case wants of photons that are traced again.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    InvalidInput
        If the case wants something else written, or a file cannot be written.
    """
    case.check_output()
    endings = {"volume": _FORMATS[case.output_format], "photons": "_detp.jdat", "trajectories": "_traj.jdat"}
    paths = {what: Path(folder) / f"{case.file_name}{ending}" for what, ending in endings.items()}
    results = [result] if isinstance(result, LightResult) else list(result)
    written = []
    if case.saves_volume:
        values = _volumes(case, results) if not case.replays else _replayed_volume(case, results[0], replayed)
        _write_volume(paths["volume"], values, case, results[0])
        written.append(paths["volume"])
    if results[0].detectors and case.saves_photons and case.patterns is None:
        written.append(paths["photons"])
        _write_json(written[-1], {"MCXData": _detected(results, case.detector_numbers)})
    if replayed.trajectories is not None:
        written.append(paths["trajectories"])
        _write_json(written[-1], {"MCXData": {"Trajectory": _vertices(replayed.trajectories)}})
    return tuple(written)


def _write_volume(path: Path, values: npt.NDArray[np.float32], case: McxCase, result: LightResult) -> None:
    if case.output_format == "nii":
        write_volume(path, values, result.domain.affine)
    elif case.output_format == "mc2":
        with atomic_write(path) as part:
            part.write_bytes(np.asarray(values, "<f4").tobytes(order="F"))
    else:
        _write_json(path, _jnifti(values, case, result))


def _volumes(case: McxCase, results: Sequence[LightResult]) -> npt.NDArray[np.float32]:
    """Numbers of each voxel and time gate, shape (X, Y, Z, T); or (K, X, Y, Z, T) of patterns, (X, Y, Z, T, 1, S)."""
    if case.patterns is not None:
        return np.stack([_entered(case, result) for result in results])
    if len(results) == 1:
        return _entered(case, results[0])
    weights = np.array([source.weight for source in case.sources])
    shares = (weights / weights.mean()).astype(np.float32)
    volumes = [_entered(case, one) * share for one, share in zip(results, shares, strict=True)]
    return np.stack(volumes, axis=-1)[..., None, :]


def _entered(case: McxCase, result: LightResult) -> npt.NDArray[np.float32]:
    """Numbers of each voxel and time gate, shape (X, Y, Z, T), per photon that entered the tissue."""
    return _volume(case.output_type, result) / np.float32(max(result.energy.entered, 1e-12))


def _volume(output_type: str, result: LightResult) -> npt.NDArray[np.float32]:
    """Numbers of each voxel and time gate, shape (X, Y, Z, T)."""
    if output_type == "x":
        return result.fluence_rate
    if output_type == "f":
        return np.asarray(result.gates, np.float32)
    absorption = result.domain.absorption()[..., None] * np.float32(result.domain.voxel_volume_mm3)
    return np.asarray(result.gates * absorption, np.float32)


def _replayed_volume(case: McxCase, result: LightResult, replayed: McxReplayed) -> npt.NDArray[np.float32]:
    """What a replay gives for the light of all detectors together, in each time gate, shape (X, Y, Z, T)."""
    if (jacobians := replayed.jacobians) is None:
        raise InvalidInput(f"Session.OutputType is {case.output_type!r}; give the replay of the detected photons")
    if case.output_type == "r":
        return _modulated(jacobians)
    whole = jacobians.of("mua").measured.sum()
    volumes = []
    for gate in range(case.settings.gate_count):
        path = -_together(jacobians.of("mua", gate=gate), whole)
        if case.output_type == "p":
            gained = _together(jacobians.of("mus", gate=gate), whole)
            edge_mm = float(result.domain.voxel_sizes_mm[0])
            path = result.domain.property_volume("mus_per_mm") * (gained + path) * edge_mm
        volumes.append(path)
    return np.stack(volumes, axis=-1).astype(np.float32)


def _together(part: Jacobian, whole: float) -> npt.NDArray[np.float64]:
    """Derivatives of all channels, weighted with what each has received in the gate over all that was received."""
    share = np.where(part.measured > 0, part.measured, 0.0) / whole
    return np.asarray(np.tensordot(share, np.nan_to_num(part.values).astype(np.float64), axes=1))


def _modulated(jacobians: Jacobians) -> npt.NDArray[np.float32]:
    """Derivatives of ln amplitude and of the phase lag of all channels together, shape (X, Y, Z, 2)."""
    amplitude, phase = jacobians.of("mua", "ln_amplitude"), jacobians.of("mua", "phase")
    signal = amplitude.measured * np.exp(1j * phase.measured)
    both = np.tensordot(signal / signal.sum(), amplitude.values + 1j * phase.values, axes=1)
    return np.stack([both.real, -both.imag], axis=-1).astype(np.float32)


def _vertices(found: Trajectories) -> dict[str, Any]:
    """Vertices as MCX has them: where photons start, scatter, change their direction at a face, and end."""
    kept = found.kind != KINDS.index("crossed")
    to_voxels = np.linalg.inv(found.domain.affine)
    places = found.position_mm[kept] @ to_voxels[:3, :3].T + to_voxels[:3, 3] + 0.5
    photons = np.repeat(found.photon, np.diff(found.starts))[kept]
    lists = {"photonid": photons.astype(np.uint32), "p": places.astype(np.float32), "w0": found.weight[kept]}
    return {name: encode_array(rows) for name, rows in lists.items() if rows.size}


def _jnifti(values: npt.NDArray[np.float32], case: McxCase, result: LightResult) -> dict[str, Any]:
    edge_mm, width_ns = float(result.domain.voxel_sizes_mm[0]), float(np.diff(result.settings.time_gates_ns)[0])
    # of R the fourth axis is amplitude and phase, not time
    steps = [edge_mm] * 3 + [1.0 if case.output_type == "r" else width_ns * _SECONDS_PER_NS]
    if values.ndim > len(steps):
        steps = [1.0, *steps] if case.patterns is not None else [*steps, 1.0, 1.0]
    header = {
        "NIIFormat": "jnifti",
        "Dim": list(values.shape),
        "DataType": "single",
        "Unit": {"L": "mm", "T": "s"},
        "VoxelSize": steps,
        "TimeOffset": result.settings.time_gates_ns[0] * _SECONDS_PER_NS,
        "Description": f"{(OUTPUTS | REPLAYS)[case.output_type]}, {_UNITS[case.output_type]}",
    }
    return {"NIFTIHeader": header, "NIFTIData": encode_array(values)}


def _detected(results: Sequence[LightResult], detector_numbers: Sequence[int]) -> dict[str, Any]:
    parts = [_listed(result, detector_numbers) for result in results]
    several = len(results) > 1 or len(results[0].sources) > 1
    numbers = [number if len(results) > 1 else detected_sources(result) for number, result in enumerate(results)]
    if several:  # the number of the source, from 1, in the upper 16 bits
        for part, number in zip(parts, numbers, strict=True):
            upper = (np.asarray(number, np.int32) + 1) << 16
            detid = part["detid"][:, 0]
            part["detid"] = np.where(detid > 0, detid | upper, detid)[:, None]
    result, rows = results[0], {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    edge_mm = float(result.domain.voxel_sizes_mm[0])
    media = [Medium(label=1, mua_per_mm=0.0, mus_per_mm=0.0, g=1.0, n=result.domain.outside_n), *result.domain.media]
    info = {
        "Version": 1,
        "Software": f"napari-gpubio {__version__}",
        "MediaNum": len(media) - 1,  # columns of ppath
        "Media": [{"mua": m.mua_per_mm, "mus": m.mus_per_mm, "g": m.g, "n": m.n} for m in media],
        "LengthUnit": edge_mm,
        "TotalPhoton": sum(one.launched for one in results),
        "DetectedPhoton": sum(len(one.detected) + one.detected.dropped for one in results),
        "SavedPhoton": len(rows["detid"]),
    }
    return {"Info": info, "PhotonData": {name: encode_array(values) for name, values in rows.items() if values.size}}


def _listed(result: LightResult, detector_numbers: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
    """What MCX notes of each detected photon, a row each."""
    found, edge_mm = result.detected, float(result.domain.voxel_sizes_mm[0])
    to_voxels = np.linalg.inv(result.domain.affine)
    places = found.position_mm @ to_voxels[:3, :3].T + to_voxels[:3, 3] + 0.5
    axes = result.domain.affine[:3, :3] / edge_mm
    numbers = np.array(detector_numbers, np.int32) if detector_numbers else _mcx_numbers(result.detectors)
    listed: dict[str, npt.NDArray[Any]] = {"detid": numbers[found.detector][:, None]}
    placed = {"p": places.astype(np.float32), "v": (found.direction @ axes).astype(np.float32)}
    if result.domain.mua_per_mm is not None:  # paths in media do not tell what was absorbed on them
        return listed | placed
    path_mm = _paths_in_all_media(result)
    mua = np.array([medium.mua_per_mm for medium in result.domain.media])
    # MCX has the weight at launch, and its tools multiply it by what the paths and mua leave of it
    launched = found.weight * np.exp(path_mm.astype(np.float64) @ mua)
    paths = {"ppath": (path_mm / edge_mm).astype(np.float32)}
    return listed | paths | placed | {"w0": launched.astype(np.float32)[:, None]}


def _paths_in_all_media(result: LightResult) -> npt.NDArray[np.float32]:
    """Path in each medium of the domain, mm, shape (N, M); also in those that no voxel has."""
    columns = {label: column for column, label in enumerate(result.detected.labels)}
    path_mm = np.zeros((len(result.detected), len(result.domain.media)), np.float32)
    for number, medium in enumerate(result.domain.media):
        if medium.label in columns:
            path_mm[:, number] = result.detected.path_mm[:, columns[medium.label]]
    return path_mm


def _mcx_numbers(detectors: Sequence[AnyDetector]) -> npt.NDArray[np.int32]:
    """MCX's numbers of detectors: from 1 those that have a place, -1 for a whole face."""
    placed = np.array([isinstance(detector, Detector) for detector in detectors])
    return np.where(placed, np.cumsum(placed), -1).astype(np.int32)


def _write_json(path: Path, root: dict[str, Any]) -> None:
    write_text(path, json.dumps(root) + "\n")
