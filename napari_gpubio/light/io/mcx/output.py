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
from napari_gpubio.light.detectors import AnyDetector, Detector
from napari_gpubio.light.io.mcx.jdata import encode_array
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightCase

# Letters of OutputType, by which MCX knows what is in a voxel, and ours of them.
OUTPUTS = {"x": "fluence rate", "f": "fluence", "e": "absorbed energy"}
_FORMATS = {"jnii": ".jnii", "nii": ".nii", "mc2": ".mc2"}
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
        ``jnii``, ``nii``, ``mc2``, or another of MCX's.
    saves_volume, saves_photons
        Whether the volume and the list of detected photons are to be written.
    """

    output_type: str = "x"
    output_format: str = "jnii"
    saves_volume: bool = True
    saves_photons: bool = True

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


def write_mcx_output(folder: str | Path, case: McxCase, result: LightResult) -> tuple[Path, ...]:
    """Write what MCX would: ``ID.jnii``, ``ID.nii`` or ``ID.mc2``, and ``ID_detp.jdat`` if there are detectors.

    Numbers are per photon that entered the tissue, as those of MCX with its normalization: in each time gate, fluence
    rate in 1/(mm^2 s) per joule, fluence in 1/mm^2, or the part of the energy that each voxel absorbs. Paths of
    detected photons are in voxel edges, positions in voxels from the corner of the first. Detectors are numbered from
    1, whole faces are -1, all alike, as in MCX. ``mc2`` has the numbers alone, float32, the first axis fastest.

    Parameters
    ----------
    folder
        Where they are written; older files of these names are replaced.
    case
        What was read.
    result
        Its simulation.

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
    written = []
    if case.saves_volume:
        entered = max(result.energy.entered, 1e-12)
        _write_volume(path, _volume(case.output_type, result) / np.float32(entered), case, result)
        written.append(path)
    if result.detectors and case.saves_photons:
        detected = path.with_name(f"{_file_name(case.name)}_detp.jdat")
        _write_json(detected, {"MCXData": _detected(result)})
        written.append(detected)
    return tuple(written)


def _write_volume(path: Path, values: npt.NDArray[np.float32], case: McxCase, result: LightResult) -> None:
    if case.output_format == "nii":
        write_volume(path, values, result.domain.affine)
    elif case.output_format == "mc2":
        with atomic_write(path) as part:
            part.write_bytes(np.asarray(values, "<f4").tobytes(order="F"))
    else:
        _write_json(path, _jnifti(values, case, result))


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
    header = {
        "NIIFormat": "jnifti",
        "Dim": list(values.shape),
        "DataType": "single",
        "Unit": {"L": "mm", "T": "s"},
        "VoxelSize": [edge_mm] * 3 + [width_ns * _SECONDS],
        "TimeOffset": result.settings.time_gates_ns[0] * _SECONDS,
        "Description": f"{OUTPUTS[case.output_type]}, {_UNITS[case.output_type]}",
    }
    return {"NIFTIHeader": header, "NIFTIData": encode_array(values)}


def _detected(result: LightResult) -> dict[str, Any]:
    found, edge_mm = result.detected, float(result.domain.voxel_sizes_mm[0])
    to_voxels = np.linalg.inv(result.domain.affine)
    places = found.position_mm @ to_voxels[:3, :3].T + to_voxels[:3, 3] + 0.5
    axes = result.domain.affine[:3, :3] / edge_mm
    media = [result.domain.medium(label) for label in found.labels]
    absorbed = found.path_mm.astype(np.float64) @ np.array([medium.mua_per_mm for medium in media])
    lists = {
        "detid": _mcx_numbers(result.detectors)[found.detector],
        "nscat": found.scatterings.astype(np.int32),
        "ppath": (found.path_mm / edge_mm).astype(np.float32),
        "p": places.astype(np.float32),
        "v": (found.direction @ axes).astype(np.float32),
        # MCX has the weight at launch, and its tools multiply it by what the paths and mua leave of it
        "w0": (found.weight * np.exp(absorbed)).astype(np.float32),
    }
    info = {
        "Version": 1,
        "Software": f"napari-gpubio {__version__}",
        "MediaNum": len(media),
        "Media": [{"mua": m.mua_per_mm, "mus": m.mus_per_mm, "g": m.g, "n": m.n} for m in media],
        "LengthUnit": edge_mm,
        "TotalPhoton": result.launched,
        "DetectedPhoton": len(found) + found.dropped,
        "SavedPhoton": len(found),
    }
    return {"Info": info, "PhotonData": {name: encode_array(rows) for name, rows in lists.items() if rows.size}}


def _mcx_numbers(detectors: Sequence[AnyDetector]) -> npt.NDArray[np.int32]:
    """MCX's numbers of detectors: from 1 those that have a place, -1 for a whole face."""
    placed = np.array([isinstance(detector, Detector) for detector in detectors])
    return np.where(placed, np.cumsum(placed), -1).astype(np.int32)


def _write_json(path: Path, root: dict[str, Any]) -> None:
    with atomic_write(path) as part:
        part.write_text(json.dumps(root) + "\n", encoding="utf-8")
