"""Diffusion scans as values of operations: how they are opened and written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, describe
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Reading, file
from napari_gpubio.core.operations.volumes import Volume, array_on_grid
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, stem_of, write_volume
from napari_gpubio.diffusion.io.dwi import find_gradient_files, read_dwi
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.diffusion.io.kinds import only_scan
from napari_gpubio.diffusion.model import B0_LIMIT, DiffusionScan


@dataclass(frozen=True, kw_only=True)
class OpenScan(Reading, verb="open-scan", makes={"scan": DiffusionScan}):
    """Open a diffusion scan with its gradient table, which is as much an input as the voxels."""

    file: File = part("File", "NIfTI image, or an MRtrix image that carries its table.")
    bval: File | None = part(
        "b-values", "FSL's file, or MRtrix's table; found beside the scan by default.", default=None
    )
    bvec: File | None = part("Directions", "FSL's file; found beside the scan by default.", default=None)
    volumes: tuple[int, ...] = part(
        "Volumes", "Those to read, counted from 0, as in 0-5,8; all by default.", default=()
    )
    b0_limit: float = param(
        B0_LIMIT,
        "b0 limit",
        "Volumes up to this b-value are not weighted.",
        unit="s/mm²",
        minimum=0.0,
        maximum=1e5,
        advanced=True,
    )

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenScan":
        """Return the operation that opens a scan as it is now, with the table that is given or lies beside it."""
        if "bval" not in options and "bvec" not in options:
            found = dict(zip(("bval", "bvec"), find_gradient_files(path), strict=True))
            options |= {name: file(one) for name, one in found.items() if one is not None}
        return super().at(path, **options)

    @classmethod
    def found_in(cls, path: Path) -> Path:
        """The file, or the only scan of a folder."""
        return only_scan(path)

    def read(self, data: Any) -> DiffusionScan:
        """Read it; a table that lies beside the scan is read as such, with its notes."""
        table = {"bval": data.bval, "bvec": data.bvec}
        if (data.bval, data.bvec) == find_gradient_files(data.file):
            table = {}
        return read_dwi(data.file, **table, volumes=self.volumes or None, b0_limit=self.b0_limit)


def write_scan(scan: DiffusionScan, path: Path, record: Mapping[str, Any]) -> None:
    """Write a scan as NIfTI, its table in FSL's layout and its record beside it."""
    write_volume(path, scan.data, scan.affine, "written by napari-gpubio")
    bval, bvec = tables_of(path).values()
    write_fsl_gradients(bval, bvec, scan.bvals, scan.directions, scan.affine)
    describe(path, {RECORD: record})


def tables_of(path: Path) -> dict[str, Path]:
    """Return the files of the table that is written beside a scan."""
    return {f"the {kind} file": path.with_name(f"{stem_of(path)}.{kind}") for kind in ("bval", "bvec")}


register_kind(
    DiffusionScan,
    counts=lambda scan: (scan.data, scan.bvals, scan.directions, scan.affine),
    endings=NIFTI_SUFFIXES,
    write=write_scan,
    beside=tables_of,
    opens=OpenScan,
    shows="napari_gpubio.diffusion.napari_io:layers_of_scan",
)


def mask_of_scan(mask: Volume, scan: DiffusionScan) -> Any:
    """Return where a mask on the grid of a scan is not 0, shape (X, Y, Z); InvalidInput if that is nowhere."""
    image = Volume(array=scan.data, affine=scan.affine, name="the scan" if scan.path is None else scan.path.name)
    inside = array_on_grid(mask, image).reshape(scan.shape) != 0
    if not inside.any():
        raise InvalidInput(f"{mask.name} has no voxel that is not 0; give a mask of what is to be used")
    return inside
