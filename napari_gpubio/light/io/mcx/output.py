"""What MCX writes at the end of a run: the volume as JNIfTI or NIfTI, and the list of detected photons."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.io.mcx.jdata import encode_array
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightCase

# Letters of OutputType, by which MCX knows what is in a voxel, and ours of them.
OUTPUTS = {"x": "fluence rate", "f": "fluence", "e": "absorbed energy"}
_FORMATS = {"jnii": ".jnii", "nii": ".nii"}
_UNITS = {"x": "1/(mm2 s) per J", "f": "1/mm2", "e": "part of the launched energy"}
_SECONDS = 1e-9  # of a ns


@dataclass(frozen=True, eq=False, kw_only=True)
class McxCase(LightCase):
    """A `LightCase` of an MCX input file, with what the file wants to be written.

    Parameters
    ----------
    output_type
        What is in a voxel: a letter of `OUTPUTS`, or another of MCX's.
    output_format
        ``jnii``, ``nii``, or another of MCX's.
    separately
        Whether each of several sources is to have a result of its own.
    """

    output_type: str = "x"
    output_format: str = "jnii"
    separately: bool = False

    def check_output(self) -> None:
        """Raise InvalidInput if the file wants something written that is not made here."""
        if self.output_type not in OUTPUTS:
            made = ", ".join(f"{letter} ({what})" for letter, what in OUTPUTS.items())
            raise InvalidInput(f"Session.OutputType is {self.output_type!r}, which is not made here; choose {made}")
        if self.output_format not in _FORMATS:
            raise InvalidInput(
                f"Session.OutputFormat is {self.output_format!r}, which is not written here; choose "
                f"{' or '.join(_FORMATS)}"
            )
        if self.output_format == "nii" and (self.separately or self.patterns is not None):
            raise InvalidInput(
                "Session.OutputFormat is 'nii', which holds no volumes of several sources or patterns; choose jnii"
            )


def write_mcx_output(
    folder: str | Path, case: McxCase, result: LightResult | Sequence[LightResult]
) -> tuple[Path, ...]:
    """Write the files that MCX would: ``ID.jnii`` or ``ID.nii``, and ``ID_detp.jdat`` if there are detectors.

    Numbers are per launched photon, as those of MCX with its normalization: in each time gate, fluence rate in
    1/(mm^2 s) per joule, fluence in 1/mm^2, or the part of the energy that each voxel absorbs. Paths of detected
    photons are in voxel edges, positions in voxels from the corner of the first.

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
    path = Path(folder) / f"{_file_name(case.name)}{_FORMATS[case.output_format]}"
    results = [result] if isinstance(result, LightResult) else list(result)
    values = _volumes(case, results)
    if case.output_format == "nii":
        write_volume(path, values, results[0].domain.affine)
    else:
        _write_json(path, _jnifti(values, case, results[0]))
    if not results[0].detectors or case.patterns is not None:
        return (path,)
    detected = path.with_name(f"{_file_name(case.name)}_detp.jdat")
    _write_json(detected, {"MCXData": _detected(results)})
    return path, detected


def _volumes(case: McxCase, results: Sequence[LightResult]) -> npt.NDArray[np.float32]:
    """Numbers of each voxel and time gate, shape (X, Y, Z, T); or (K, X, Y, Z, T) of patterns, (X, Y, Z, T, 1, S)."""
    if case.patterns is not None:
        return np.stack([_volume(case.output_type, result) for result in results])
    if len(results) == 1:
        return _volume(case.output_type, results[0])
    weights = np.array([source.weight for source in case.sources])
    shares = (weights / weights.mean()).astype(np.float32)
    volumes = [_volume(case.output_type, one) * share for one, share in zip(results, shares, strict=True)]
    return np.stack(volumes, axis=-1)[..., None, :]


def _file_name(session: str) -> str:
    """The session's ID without what leads to other folders."""
    return Path(session.replace("\\", "/")).name or "mcx"


def _volume(output_type: str, result: LightResult) -> npt.NDArray[np.float32]:
    """Numbers of each voxel and time gate, shape (X, Y, Z, T)."""
    if output_type == "x":
        return result.fluence_rate
    if output_type == "f":
        return np.asarray(result.gates, np.float32)
    absorption = result.domain.absorption()[..., None] * np.float32(result.domain.voxel_volume_mm3)
    return np.asarray(result.gates * absorption, np.float32)


def _jnifti(values: npt.NDArray[np.float32], case: McxCase, result: LightResult) -> dict[str, Any]:
    edge_mm, width_ns = float(result.domain.voxel_sizes_mm[0]), float(np.diff(result.settings.time_gates_ns)[0])
    steps = [edge_mm] * 3 + [width_ns * _SECONDS]
    if values.ndim > len(steps):
        steps = [1.0, *steps] if case.patterns is not None else [*steps, 1.0, 1.0]
    header = {
        "NIIFormat": "jnifti",
        "Dim": list(values.shape),
        "DataType": "single",
        "Unit": {"L": "mm", "T": "s"},
        "VoxelSize": steps,
        "TimeOffset": result.settings.time_gates_ns[0] * _SECONDS,
        "Description": f"{OUTPUTS[case.output_type]}, {_UNITS[case.output_type]}",
    }
    return {"NIFTIHeader": header, "NIFTIData": encode_array(values)}


def _detected(results: Sequence[LightResult]) -> dict[str, Any]:
    parts = [_listed(result) for result in results]
    several = len(results) > 1 or len(results[0].sources) > 1
    numbers = [number if len(results) > 1 else result.detected_sources() for number, result in enumerate(results)]
    if several:  # the number of the source, from 1, in the upper 16 bits
        for part, number in zip(parts, numbers, strict=True):
            part["detid"] = part["detid"] | ((np.asarray(number, np.int32) + 1) << 16)
    result, rows = results[0], {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    found, edge_mm = result.detected, float(result.domain.voxel_sizes_mm[0])
    media = [
        {"mua": m.mua_per_mm, "mus": m.mus_per_mm, "g": m.g, "n": m.n}
        for m in (result.domain.medium(label) for label in found.labels)
    ]
    info = {
        "Version": 1,
        "Software": f"napari-gpubio {__version__}",
        "MediaNum": len(media),
        "Media": media,
        "LengthUnit": edge_mm,
        "TotalPhoton": sum(one.launched for one in results),
        "DetectedPhoton": sum(len(one.detected) + one.detected.dropped for one in results),
        "SavedPhoton": len(rows["detid"]),
    }
    return {"Info": info, "PhotonData": {name: encode_array(values) for name, values in rows.items() if values.size}}


def _listed(result: LightResult) -> dict[str, npt.NDArray[Any]]:
    """What MCX notes of each detected photon."""
    found, edge_mm = result.detected, float(result.domain.voxel_sizes_mm[0])
    to_voxels = np.linalg.inv(result.domain.affine)
    places = found.position_mm @ to_voxels[:3, :3].T + to_voxels[:3, 3] + 0.5
    axes = result.domain.affine[:3, :3] / edge_mm
    return {
        "detid": (found.detector + 1).astype(np.int32),  # from 1, as in MCX
        "nscat": found.scatterings.astype(np.int32),
        "ppath": (found.path_mm / edge_mm).astype(np.float32),
        "p": places.astype(np.float32),
        "v": (found.direction @ axes).astype(np.float32),
        "w0": found.weight.astype(np.float32),
    }


def _write_json(path: Path, root: dict[str, Any]) -> None:
    with atomic_write(path) as part:
        part.write_text(json.dumps(root) + "\n", encoding="utf-8")
