"""The readers of the package, each with a small valid file of its kind and the changes that make mutants of it."""

import dataclasses
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tifffile
from PIL import Image

from napari_gpubio import dose, layered
from napari_gpubio.core import layer_files, volumes
from napari_gpubio.core.operations.volumes import open_volume
from napari_gpubio.diffusion import io as diffusion_io
from napari_gpubio.diffusion import napari_io as dwi_napari
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.dose import io as dose_io
from napari_gpubio.dose import metrics
from napari_gpubio.dose import reader as dose_reader
from napari_gpubio.dose.io import nifti as dose_nifti
from napari_gpubio.layered import io as layered_io
from napari_gpubio.layered.presets import preset
from napari_gpubio.light import io as light_io
from napari_gpubio.light import napari_io as light_napari
from napari_gpubio.mcx import io as mcx_io
from napari_gpubio.mcx.io.jdata import encode_array
from napari_gpubio.optics import io as optics_io
from napari_gpubio.speckle import io as speckle_io
from napari_gpubio.speckle.live import folder as speckle_folder
from napari_gpubio.speckle.mesi.model import parse_exposures
from napari_gpubio.tractograms import io as tractograms_io
from napari_gpubio.tractograms.io.vtk import write_vtk
from napari_gpubio.tractograms.model import Tractogram
from robustness.mutants_changes import change_bytes, change_json, change_text
from robustness.mutants_formats import change_dicom, change_hdf5, change_tiff, change_zip, inside_gzip, packed_again
from robustness.mutants_reader import Reader, in_fork
from robustness.mutants_states import STATES
from tests.dose import dicom_files
from tests.light.result_samples import MEDIA, sample_result
from tests.mcx import samples as mcx_files
from tests.tractograms.odd_tractograms import write_tiny_track, write_vtp

SHAPE = (16, 16, 8)
AFFINE = np.array([[-2.0, 0, 0, 20], [0, 2, 0, -30], [0, 0, 2.5, 5], [0, 0, 0, 1]])


def _volume(kind: str = "f4") -> np.ndarray:
    i, j, k = np.indices(SHAPE)
    return (100 + 10 * i + j - 3 * k).astype(kind)


def _labels() -> np.ndarray:
    return (_volume("u1") % 3).astype(np.uint8)


def _signals(path: Path) -> None:
    """A diffusion scan of one b = 0 volume and six directions, with FSL's tables beside it."""
    directions = np.array([[1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1]]) / np.sqrt(2)
    bvals, bvecs = np.array([0.0, *[1000.0] * 6]), np.vstack([np.zeros(3), directions])
    decay = np.exp(-bvals * 1e-3)
    volume = (_volume()[..., None] * decay).astype(np.float32)
    image = path.parent / "a.nii"
    _write_nifti(image, volume)
    diffusion_io.write_fsl_gradients(path.parent / "a.bval", path.parent / "a.bvec", bvals, bvecs, AFFINE)


def _write_nifti(path: Path, array: np.ndarray) -> None:
    import nibabel

    path.write_bytes(nibabel.Nifti1Image(array, AFFINE).to_bytes())


def _of_nibabel(kind: str) -> Callable[[Path], object]:
    import nibabel

    return lambda path: nibabel.save(getattr(nibabel, kind)(_volume("i2"), AFFINE), path)


def _packed_volume(path: Path) -> None:
    _write_nifti(path.with_suffix(""), _volume("i2"))
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes(), mtime=0))


def _described(path: Path) -> None:
    layer = light_napari.fluence_layer(_result(), "fluence")
    layer_files.write_image(str(path.with_suffix(".nii")), layer[0], {**layer[1], "colormap": "turbo"})


def _layer(path: Path) -> None:
    layer = light_napari.fluence_layer(_result(), "fluence")
    layer_files.write_image(str(path), layer[0], {**layer[1], "colormap": "turbo"})
    packed_again(path)


def _tensors(path: Path) -> None:
    tensors = np.zeros((*SHAPE, 6), np.float32)
    tensors[..., :3] = 1.5e-3, 4e-4, 3e-4
    tensors[..., 3:] = 1e-4, 5e-5, 2e-5
    diffusion_io.write_tensors(path, TensorField(tensors=tensors, mask=np.ones(SHAPE, bool), affine=AFFINE))


def _mif(path: Path) -> None:
    """A diffusion scan as MRtrix writes it."""
    table = "".join(f"dw_scheme: {x},{y},{z},{b}\n" for x, y, z, b in ((0, 0, 0, 0), (1, 0, 0, 1000), (0, 1, 0, 1000)))
    header = (
        "mrtrix image\ndim: 16,16,8,3\nvox: 2,2,2.5,1\nlayout: -0,+1,+2,+3\ndatatype: Float32LE\n"
        f"transform: 1,0,0,-10\ntransform: 0,1,0,-30\ntransform: 0,0,1,5\n{table}file: . 512\nEND\n"
    )
    values = np.repeat(_volume()[..., None], 3, axis=3)
    content = header.encode().ljust(512, b"\0") + values.astype("<f4").tobytes(order="F")
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _fibers() -> Tractogram:
    points = np.random.default_rng(3).uniform(0, 9, (40, 3)).astype(np.float32)
    return Tractogram(
        points=points, offsets=np.array([0, 14, 15, 40]), affine=AFFINE, shape=SHAPE,
        per_point={"fa": points[:, 0], "dir": points},
        per_fiber={"id": np.arange(3), "group/a": np.array([True, False, True])}, parameters={"step_mm": 0.5},
    )  # fmt: skip


def _write_fibers(path: Path) -> None:
    if path.suffix == ".gz":
        tractograms_io.write_tractogram(path.with_suffix(""), _fibers())
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes(), mtime=0))
    else:
        tractograms_io.write_tractogram(path, _fibers())
    if path.suffix == ".trx":
        packed_again(path)


def _result() -> Any:
    return sample_result((8, 8, 6), gates=(0.0, 1.0, 5.0), detectors=(2.0, 4.0), photons=2000)


def _save_result(path: Path) -> None:
    light_io.save_result(path, _result())
    packed_again(path)


def _layered() -> Any:
    skin = preset("seven-layer skin at 600 nm")
    settings = dataclasses.replace(skin.settings, photons=200, radial_bins=12, depth_bins=12, angle_bins=4)
    result = layered.simulate(skin.medium, settings, device="cpu")
    return dataclasses.replace(result, parameters={**result.parameters, "seconds": 1.0})


def _save_layered(path: Path) -> None:
    layered_io.save_result(path, _layered())
    packed_again(path)


def _write_mco(path: Path) -> None:
    layered_io.write_mco(path, _layered())


def _write_mci(path: Path) -> None:
    skin = preset("seven-layer skin at 600 nm")
    layered_io.write_mci(path, [layered_io.MciRun(medium=skin.medium, settings=skin.settings, output="a.mco")])


SHAPES = [
    {"Grid": {"Tag": 1, "Size": [12, 14, 16]}}, {"Sphere": {"Tag": 2, "O": [3, 3, 3], "R": 2}},
    {"Box": {"Tag": 1, "O": [1, 1, 1], "Size": [2, 2, 2]}}, {"Subgrid": {"Tag": 2, "O": [1, 2, 3], "Size": [1, 1, 1]}},
    {"Cylinder": {"Tag": 2, "C0": [0, 0, 0], "C1": [5, 5, 5], "R": 1.5}},
    {"UpperSpace": {"Tag": 1, "Coef": [1, 1, 1, 18]}}, {"XSlabs": {"Tag": 1, "Bound": [[1, 2], [4, 5]]}},
    {"ZLayers": [[1, 2, 1], [7, 8, 2]]}, {"Origin": [0, 0, 0]},
]  # fmt: skip
PATTERN = {
    "Type": "pattern", "Pos": [1, 1, 0, 1], "Dir": [0, 0, 1, 0], "Param1": [3, 0, 0, 3], "Param2": [0, 2, 0, 2],
    "SrcNum": 1, "Pattern": {"Nx": 3, "Ny": 2, "Data": [0, 1, 2, 3, 4, 5]},
}  # fmt: skip
SESSION = {"BCFlags": "ccmccr010101", "MinEnergy": 0.01, "DoSpecular": 1, "MaxDetPhoton": 10, "OutputType": "x"}


def _mcx(**sections: Any) -> Callable[[Path], object]:
    root = mcx_files.case(**{"Domain": {"Dim": [12, 14, 16]}, **sections})
    return lambda path: (path.parent / "case.json").write_text(json.dumps(root), encoding="utf-8")


def _mcx_volume(path: Path) -> None:
    """An MCX input whose labels are in a file of their own."""
    name = path.name
    form = {"Domain": {"Dim": list(SHAPE), "VolumeFile": name}, "Shapes": None}
    root = {key: value for key, value in mcx_files.case(**form).items() if value is not None}
    (path.parent / "case.json").write_text(json.dumps(root), encoding="utf-8")
    if name.endswith(".nii"):
        _write_nifti(path, _labels())
    else:
        path.write_text(json.dumps({"NIFTIData": encode_array(_labels())}), encoding="utf-8")


def _beside(path: Path) -> Any:
    return mcx_io.read_mcx(path.parent / "case.json")


def _snirf(path: Path) -> None:
    from tests.optics import test_snirf

    test_snirf.write(path)


def _same_uids() -> Any:
    """Unique identifiers that are the same in every run."""
    return mock.patch.object(dicom_files, "generate_uid", return_value="1.2.826.0.1.3680043.8.498.1")


def _pixels() -> np.ndarray:
    return _volume("u2").transpose(2, 1, 0).copy()


def _save_dose(path: Path) -> None:
    with _same_uids():
        dicom_files.save_dose(path, _pixels())


def _loop(z: float, radius: float) -> np.ndarray:
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    return np.column_stack([20 + radius * np.cos(angles), radius * np.sin(angles), np.full(12, z)])


def _save_structures(path: Path) -> None:
    loops = {name: [("CLOSED_PLANAR", _loop(30 + 4 * n, r)) for n in range(4)] for name, r in (("PTV", 9), ("cord", 4))}
    with _same_uids():
        dicom_files.save_structures(path, [*loops.items(), ("iso", [("POINT", [[1.0, 2.0, 30.0]])])])


def _save_ct(path: Path) -> None:
    with _same_uids():
        dicom_files.save_ct(path.parent, _volume("i2").transpose(2, 1, 0)[:3])


def _save_plan(path: Path) -> None:
    target = {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "SITE", "TargetPrescriptionDose": "60",
              "DoseReferenceNumber": 1, "DoseReferenceDescription": "PTV"}  # fmt: skip
    with _same_uids():
        dicom_files.save_plan(path, [target], [(30, [1.2, 0.8])])


def _write_histograms(path: Path) -> None:
    doses = np.linspace(0, 60, 31)
    curves = {
        name: volume * (1 - (doses / 60) ** power) for name, volume, power in (("PTV", 90.0, 9), ("body", 4e3, 0.4))
    }
    dvhs = [
        dose.Dvh(name=name, unit="Gy", doses=doses, volumes_cc=volumes, mean=30.0, color=(255, 0, 0), notes=("a note",))
        for name, volumes in curves.items()
    ]
    if path.suffix == ".json":
        dose_io.write_json(path, dose.DvhResult(dvhs=tuple(dvhs), parameters={"bin_width": 2.0}, complete=True))
    elif path.suffix == ".csv":
        dose_io.write_curves_csv(path, dvhs)
    else:
        _save_dose(path.with_name("source.dcm"))
        dose_io.write_dvh_sequence(path, dvhs, {"body": 1, "PTV": 2}, path.with_name("source.dcm"), bin_width=2.0)


CONSTRAINTS = """\
# target
PTV: D95%[Gy] >= 57
PTV: D2%[%] <= 107
"organ: left": V20Gy[%] < 35
cord: D0.03cc[Gy] <= 46
cord: gEUD(a=4)[Gy] <= 30  # serial
"""
METRICS = "D95%[Gy], V20Gy[%], Dmean[Gy], D0.03cc[Gy], gEUD(a=4)[Gy], Dmax, D95"


def _frames(kind: str = "u2", **keywords: Any) -> Callable[[Path], object]:
    return lambda path: tifffile.imwrite(
        path, _pixels().astype(kind), photometric="minisblack", metadata=None, software=False, **keywords
    )


def _raw_frames(path: Path) -> None:
    words = np.array([16, 16, 8, 5], "<u2").tobytes()
    path.write_bytes(words + _pixels().astype("u1").tobytes())


def _gray_image(path: Path) -> None:
    Image.fromarray(_volume("u1")[:, :, 0]).save(path)


def _domain(path: Path) -> Any:
    return light_io.read_domain(path, MEDIA)


def _volume_beside(path: Path) -> Any:
    return dwi_napari.read_layers(str(path.with_suffix(".nii")))


def _of_napari(module: Any) -> Callable[[Path], Any]:
    """A reader contribution of napari: offered by the name and what the file holds, then read."""

    def read(path: Path) -> Any:
        found = module.get_reader(str(path))
        return found and found(str(path))

    return read


def _read_text(parse: Callable[[str], Any]) -> Callable[[Path], Any]:
    return lambda path: parse(path.read_bytes().decode("utf-8", "replace"))


def _nifti(kind: str = "f4") -> Callable[[Path], object]:
    return lambda path: _write_nifti(path, _volume(kind))


_UNREADABLE = ("InvalidInput", "Unreadable")
READERS: dict[str, Reader] = {
    "image .nii": Reader("a.nii", _nifti(), open_volume, change_bytes),
    "volume .nii.gz": Reader("a.nii.gz", _packed_volume, volumes.read_volume, inside_gzip(change_bytes)),
    "layer .nii": Reader("a.nii", _described, _of_napari(dwi_napari), change_bytes),
    "layer .nii, JSON beside it": Reader("a.json", _described, _volume_beside, change_json, names=False),
    "layer .npz": Reader("a.npz", _layer, _of_napari(layer_files), change_zip),
    "scan .nii": Reader("a.nii", _signals, diffusion_io.read_dwi, change_bytes, leads="a.bv"),
    "image .mgh": Reader("a.mgh", _of_nibabel("MGHImage"), _of_napari(dwi_napari), change_bytes),
    "header .hdr": Reader("a.hdr", _of_nibabel("Nifti1Pair"), _of_napari(dwi_napari), change_bytes, leads="a.img"),
    "b-values": Reader("a.bval", _signals, lambda p: diffusion_io.read_dwi(p.with_name("a.nii")), change_text),
    "directions": Reader("a.bvec", _signals, lambda p: diffusion_io.read_dwi(p.with_name("a.nii")), change_text),
    "scan .mif": Reader("a.mif", _mif, _of_napari(dwi_napari), change_text),
    "scan .mif, bytes": Reader("a.mif", _mif, diffusion_io.read_dwi, change_bytes),
    "scan .mif.gz": Reader("a.mif.gz", _mif, diffusion_io.read_dwi, inside_gzip(change_text)),
    "tensors .nii": Reader("a.nii", _tensors, lambda p: diffusion_io.read_tensors(p, order="mrtrix"), change_bytes),
    "fibers .trk": Reader("a.trk", _write_fibers, tractograms_io.read_tractogram, change_bytes),
    "fibers .trk.gz": Reader("a.trk.gz", _write_fibers, tractograms_io.read_tractogram, inside_gzip(change_bytes)),
    "fibers .tck": Reader("a.tck", _write_fibers, tractograms_io.read_tractogram, change_text),
    "fibers .trx": Reader("a.trx", _write_fibers, tractograms_io.read_tractogram, change_zip),
    "fibers .vtk": Reader("a.vtk", _write_fibers, tractograms_io.read_tractogram, change_bytes),
    "fibers .vtk, text": Reader(
        "a.vtk", lambda p: write_vtk(p, _fibers(), binary=False), tractograms_io.read_tractogram, change_text),
    "fibers .vtp": Reader("a.vtp", lambda p: write_vtp(p, _fibers()), tractograms_io.read_tractogram, change_bytes),
    "fibers .tt.gz": Reader(
        "a.tt.gz", lambda p: write_tiny_track(p, _fibers()), tractograms_io.read_tractogram, inside_gzip(change_bytes)),
    "light result .npz": Reader("a.npz", _save_result, light_io.load_result, change_zip),
    "light result .npz, napari": Reader("a.npz", _save_result, _of_napari(light_napari), change_zip),
    "layered result .npz": Reader("a.npz", _save_layered, layered_io.load_result, change_zip),
    "MCX input": Reader("case.json", _mcx(Session=SESSION, Optode={"Source": PATTERN}, Shapes=SHAPES),
                        _of_napari(light_napari), change_json),
    "MCX input, array": Reader("case.json", lambda p: p.write_text(json.dumps(mcx_files.colin())), mcx_io.read_mcx,
                               change_json),
    "MCX volume .nii": Reader("labels.nii", _mcx_volume, _beside, change_bytes, leads="case.json"),
    "MCX volume .jnii": Reader("labels.jnii", _mcx_volume, _beside, change_json, leads="case.json"),
    "SNIRF": Reader("a.snirf", _snirf, in_fork(optics_io.read_snirf), change_hdf5),
    "MCML input .mci": Reader("a.mci", _write_mci, layered_io.read_mci, change_text),
    "MCML output .mco": Reader("a.mco", _write_mco, layered_io.read_mco, change_text),
    "properties .csv": Reader("a.csv", lambda p: optics_io.write_table(p, MEDIA), optics_io.read_table, change_text),
    "properties .json": Reader("a.json", lambda p: optics_io.write_table(p, MEDIA), optics_io.read_table, change_json),
    "domain .nii": Reader("a.nii", lambda p: _write_nifti(p, _labels() + np.uint8(1)), _domain, change_bytes),
    "source image .png": Reader("a.png", _gray_image, light_io.read_irradiance, change_bytes),
    "RTDOSE": Reader("a.dcm", _save_dose, dose_io.read_rtdose, change_dicom),
    "RTDOSE, napari": Reader("a.dcm", _save_dose, _of_napari(dose_reader), change_dicom),
    "RTSTRUCT": Reader("a.dcm", _save_structures, dose_io.read_rtstruct, change_dicom),
    "RTSTRUCT, napari": Reader("a.dcm", _save_structures, _of_napari(dose_reader), change_dicom),
    "RTPLAN": Reader("a.dcm", _save_plan, dose_io.read_rtplan, change_dicom),
    "CT slice": Reader("slice0.dcm", _save_ct, lambda p: dose_io.read_ct(p.parent), change_dicom, names=False),
    "DVH in RTDOSE": Reader("a.dcm", _write_histograms, dose_io.read_dvh_sequence, change_dicom),
    "DVH .json": Reader("a.json", _write_histograms, dose_io.read_json, change_json),
    "DVH .csv": Reader("a.csv", _write_histograms, dose_io.read_curves_csv, change_text),
    "dose .nii": Reader("a.nii", _nifti(), lambda p: dose_nifti.read_dose(p, unit="Gy"), change_bytes),
    "labels .nii": Reader("a.nii", lambda p: _write_nifti(p, _labels()), dose_nifti.read_labels, change_bytes),
    "constraints": Reader("a.txt", lambda p: p.write_text(CONSTRAINTS), metrics.read_constraints, change_text),
    "metrics": Reader("a.txt", lambda p: p.write_text(METRICS), _read_text(metrics.parse_metrics), change_text,
                      names=False),
    "exposures": Reader("a.txt", lambda p: p.write_text("0.5, 1, 2, 5; 10"), _read_text(parse_exposures), change_text,
                        names=False),
    "frames .tif": Reader("a.tif", _frames(), speckle_io.read_frames, change_tiff),
    "frames .tif, compressed": Reader("a.tif", _frames(compression="zlib"), speckle_io.read_frames, change_tiff),
    "frames .tif, large kind": Reader("a.tif", _frames(bigtiff=True), speckle_io.read_frames, change_bytes),
    "frames .00000": Reader("a.00000", _raw_frames, speckle_io.read_frames, change_bytes),
    "live .tif": Reader("a.tif", _frames(), speckle_folder.read_frames, change_tiff, refused=_UNREADABLE),
    "live .png": Reader("a.png", _gray_image, speckle_folder.read_frames, change_bytes, refused=_UNREADABLE),
    **STATES,
}  # fmt: skip
