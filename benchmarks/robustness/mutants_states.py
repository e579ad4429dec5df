"""Readers of what runs have left, and of tables, texts and files of directions that lie beside a scan."""

import dataclasses
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.label_tables import names_of_labels, read_label_names
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion.fods.response import Response, read_response, write_response
from napari_gpubio.diffusion.io.fixels import read_fixels
from napari_gpubio.diffusion.io.fods import read_fods
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.optics.io.bids_nirs import read_optodes_tsv
from napari_gpubio.optics.io.nirs import read_nirs
from napari_gpubio.probes.forward import forward_model_steps
from napari_gpubio.probes.forward.io import read_unfinished, write_npz
from napari_gpubio.tractograms.connectome import Connectome
from robustness.mutants_changes import change_bytes, change_json, change_text
from robustness.mutants_formats import change_hdf5, change_zip, inside_gzip, packed_again
from robustness.mutants_reader import Reader, in_fork
from tests.core.test_label_tables import TABLES
from tests.diffusion.fods import fixel_samples
from tests.mcx.samples import case, without, written
from tests.mcx.test_bjdata import bnii
from tests.optics.test_bids_nirs import CHANNELS
from tests.optics.test_bids_nirs import write as write_optodes
from tests.probes.forward.samples import FEW, block, probe

AFFINE = np.diag([-2.0, 2.0, 2.5, 1.0])
RESPONSE = Response(coefficients=np.array([[900.0, 0, 0], [400, -150, 30], [250, -120, 40]]), bvals=(0, 1000, 2000))
INP = """\
1000 # photons
12345
3 3 1 1
0 0 1 0
0 5e-9 5e-9
labels.bin
1 6 1 6
1 6 1 6
1 6 1 6
2
1 0.01 0.005 1.37
2 0.9 0.02 1.4
1 2
5 5 1 2
"""


def _connectome(path: Path) -> None:
    rng = np.random.default_rng(2)
    Connectome(
        labels=np.arange(1, 9), names=tuple("abcdefgh"), voxels=np.full(8, 30),
        pairs=np.sort(rng.integers(-1, 8, (50, 2)).astype(np.int32), axis=1), fibers=np.arange(50),
        numbers={"length_mm": rng.uniform(20, 90, 50), "fa": rng.uniform(0, 1, 50)}, parameters={"radius_mm": 2.0},
    ).save(path)  # fmt: skip
    packed_again(path)


def _used_connectome(path: Path) -> Any:
    """One that was taken has matrices, too."""
    found = Connectome.load(path)
    return found.matrix(), found.matrix("length_mm"), found.fibers_at(int(found.labels[0]))


def _unfinished(path: Path) -> None:
    """A run that was stopped at the second wavelength."""
    stop = threading.Event()
    steps = forward_model_steps(block(), probe(), FEW, device="cpu", stop=stop)
    model = drive(steps, lambda step: stop.set() if "850" in step.message else None)
    write_npz(path, dataclasses.replace(model, parameters={**model.parameters, "seconds": 1.0}))
    packed_again(path)


def _table(name: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(TABLES[name], encoding="utf-8")


def _beside_volume(path: Path) -> Any:
    return names_of_labels(path.with_name("a.nii.gz"), {17, 53})


def _optodes(path: Path) -> None:
    write_optodes(path.parent, channels=CHANNELS)


def _beside_optodes(path: Path) -> Any:
    return read_optodes_tsv(path.parent / "sub-01_task-x_optodes.tsv")


def _matlab(path: Path) -> None:
    from scipy.io import savemat

    probe = {"SrcPos": np.eye(3) * 20, "DetPos": np.eye(3) * 30, "Lambda": [690.0, 830.0], "SpatialUnit": "mm"}
    savemat(path, {"SD": probe, "ml": np.array([[1, 1, 1, 1], [1, 2, 1, 2.0]]), "t": np.zeros(9)}, appendmat=False)
    data = path.read_bytes()
    path.write_bytes(data[:20].ljust(116) + data[116:])  # without the time


def _binary_volume(path: Path) -> None:
    path.write_bytes(bnii("<", "axes"))
    written(path.parent, without(case(Domain={"Dim": [4, 5, 6], "VolumeFile": path.name}), "Shapes"))


def _lines(path: Path) -> None:
    path.write_text(INP)
    (path.parent / "labels.bin").write_bytes(bytes([1, 2]) * 108)


def _harmonics(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("pam")
        group["affine"], group["shm_coeff"] = AFFINE, np.random.default_rng(3).normal(size=(3, 4, 5, 15))


def _sample(make: Callable[[Path, Any], Path]) -> Callable[[Path], object]:
    return lambda path: make(path.parent, AFFINE).rename(path)


_TABLES = {
    f"label table {Path(name).suffix}, {kind}": Reader(
        f"a{Path(name).suffix}", _table(name), read, change_json if name.endswith(".json") else change_text,
        refused=refused, names=kind == "given",
    )
    for kind, read, refused in (("given", read_label_names, ("InvalidInput",)), ("beside", _beside_volume, ()))
    for name in ("bids.tsv", "FreeSurfer.txt", "bare.csv", "AAL.xml", "nested.json")
}  # fmt: skip
STATES: dict[str, Reader] = {
    "connectome .npz": Reader("a.npz", _connectome, _used_connectome, change_zip),
    "forward model to go on with .npz": Reader("a.npz", _unfinished, read_unfinished, change_zip),
    **_TABLES,
    "response": Reader("wm.txt", lambda p: write_response(p, RESPONSE), read_response, change_text),
    "response, bytes": Reader("wm.txt", lambda p: write_response(p, RESPONSE), read_response, change_bytes),
    "DSI Studio .fib.gz": Reader(
        "a.fib.gz", _sample(fixel_samples.dsi_studio), read_fixels, inside_gzip(change_bytes)),
    "DSI Studio .fib": Reader("a.fib", _sample(fixel_samples.dsi_studio_plain), read_fixels, change_bytes),
    "DSI Studio .fz": Reader("a.fz", _sample(fixel_samples.dsi_studio_masked), read_fixels, inside_gzip(change_bytes)),
    "peaks .pam5": Reader("a.pam5", _sample(fixel_samples.pam5), in_fork(read_fixels), change_hdf5),
    "harmonics .pam5": Reader(
        "a.pam5", _harmonics, in_fork(functools.partial(read_fods, basis="mrtrix")), change_hdf5),
    "optodes .tsv": Reader("sub-01_task-x_optodes.tsv", _optodes, read_optodes_tsv, change_text, leads="sub-01"),
    "channels .tsv": Reader("sub-01_task-x_channels.tsv", _optodes, _beside_optodes, change_text, leads="sub-01"),
    "coordinates .json": Reader("sub-01_coordsystem.json", _optodes, _beside_optodes, change_json, leads="sub-01"),
    "optodes .nirs": Reader("a.nirs", _matlab, read_nirs, change_bytes),
    "MCX volume .bnii": Reader(
        "labels.bnii", _binary_volume, lambda p: read_mcx(p.parent / "case.json"), change_bytes, leads="case.json"),
    "MCX input .inp": Reader("a.inp", _lines, read_mcx, change_text, names=False),
}  # fmt: skip
