"""Every writer of the package with its reader, and versions of something to write that take tens of milliseconds."""

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio import dose, light, speckle
from napari_gpubio.core import layer_files
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import volumes
from napari_gpubio.core.quantity import GUIDE, HALVES, QUANTITY, STANDARD_ERROR, Quantity
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.diffusion.io import gradients
from napari_gpubio.dose import samples
from napari_gpubio.dose.io import dvh_files
from napari_gpubio.light.benchmarks import benchmark
from napari_gpubio.light.io import results
from napari_gpubio.speckle.live import TimeCourse
from napari_gpubio.tractograms.io.tractograms import read_tractogram, write_tractogram
from napari_gpubio.tractograms.model import Tractogram

Parts = dict[str, str]  # what was read, by name: a fingerprint of each part


@dataclass(frozen=True, slots=True)
class Writer:
    """One writer.

    Parameters
    ----------
    file
        A name that it writes to.
    make
        Returns what to write, other for another version.
    write
        Takes the path and what `make` returned.
    read
        Returns fingerprints of all that the package reads again, and raises what its readers raise.
    """

    file: str
    make: Callable[[int], Any]
    write: Callable[[Path, Any], object]
    read: Callable[[Path], Parts]


def fingerprint(*values: Any) -> str:
    """A short text that differs for other arrays, texts or numbers."""
    digest = hashlib.sha256()
    for value in values:
        array = np.asarray(value)
        digest.update(array.tobytes() if array.dtype.kind != "O" else repr(value).encode())
    return digest.hexdigest()[:12]


# -- light ------------------------------------------------------------------------------------------------------------
def _light_result(version: int) -> Any:
    case = benchmark("cube60")
    settings = light.LightSettings(photons=5000, seed=version, halves=True)
    return light.simulate(case.domain, case.source, settings, device="cpu")


def _read_light(path: Path) -> Parts:
    found = results.load_result(path)
    state = found.state.to_arrays() if found.state is not None else {}
    return {
        "fluence": fingerprint(found.fluence),
        "error": fingerprint(found.fluence_error),
        "halves": fingerprint(found.half_fluences),
        "settings": fingerprint(found.settings.seed),
        "state": fingerprint(*state.values()),
    }


# -- layers -----------------------------------------------------------------------------------------------------------
def _layer(version: int) -> tuple[Any, dict[str, Any]]:
    """A layer with standard error, halves, guide and a quantity, as napari gives it to a writer."""
    random = np.random.default_rng(version)
    shape = (40, 40, 40)
    arrays = [random.random(shape, np.float32) for _ in range(5)]
    held = {
        "affine": np.eye(4), "shape": shape, QUANTITY: Quantity("fluence", "1/mm²", source=f"version {version}"),
        "parameters": {"version": version}, STANDARD_ERROR: arrays[0], HALVES: np.stack(arrays[1:3]), GUIDE: arrays[3],
    }  # fmt: skip
    return arrays[4].T, {"metadata": {KEY: held}, "contrast_limits": (0.0, 1.0), "colormap": "gray"}


def _write_layer(path: Path, layer: Any) -> None:
    layer_files.write_image(str(path), *layer)


def _read_described(path: Path) -> Parts:
    array, _ = read_volume(path)
    return {"volume": fingerprint(array), **_held_parts(layer_files.read_described(path, array.shape))}


def _read_npz_layer(path: Path) -> Parts:
    ((data, keywords, _),) = layer_files.read_layers(str(path))
    return {"volume": fingerprint(np.ascontiguousarray(data)), **_held_parts({"metadata": keywords["metadata"][KEY]})}


def _held_parts(keywords: dict[str, Any]) -> Parts:
    held = keywords.get("metadata", {})
    found = {name: held[name] for name in (QUANTITY, "parameters", STANDARD_ERROR, HALVES, GUIDE) if name in held}
    return {name: fingerprint(repr(v) if name in (QUANTITY, "parameters") else v) for name, v in found.items()}


# -- fibers -----------------------------------------------------------------------------------------------------------
def _fibers(version: int, *, numbers: bool = True) -> Any:
    random = np.random.default_rng(version)
    count, points = 2000, 50
    per_fiber = {"number": random.random(count, np.float32)} if numbers else {}
    return Tractogram(
        points=random.uniform(0.0, 50.0, (count * points, 3)).astype(np.float32),
        offsets=np.arange(count + 1) * points, per_point={}, per_fiber=per_fiber,
        affine=np.eye(4), shape=(60, 60, 60), parameters={}, complete=True,
    )  # fmt: skip


def _read_fibers(path: Path) -> Parts:
    found = read_tractogram(path)
    return {"points": fingerprint(found.points), "numbers": fingerprint(*found.per_fiber.values())}


def _gradients(version: int) -> tuple[Any, Any]:
    vectors = np.random.default_rng(version).standard_normal((3000, 3))
    return 1000.0 + version + np.arange(3000), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _write_gradients(path: Path, table: Any) -> None:
    gradients.write_fsl_gradients(path, path.with_suffix(".bvec"), *table, np.eye(4))


def _read_gradients(path: Path) -> Parts:
    b, vectors, *_ = gradients.read_fsl_gradients(path, path.with_suffix(".bvec"), 3000, np.eye(4))
    return {"b-values": fingerprint(b), "vectors": fingerprint(vectors)}


# -- dose -------------------------------------------------------------------------------------------------------------
def _histograms(version: int) -> Any:
    doses = np.sort(np.random.default_rng(version).random(6000)) * 60.0
    volumes = np.linspace(100.0 + version, 0.0, 6000)
    one = partial(dose.Dvh, unit="Gy", doses=doses, volumes_cc=volumes, mean=float(doses.mean()))
    return dose.DvhResult(dvhs=(one(name="PTV"), one(name="heart")), parameters={"version": version}, complete=True)


def _read_curves(read: Callable[[Path], Any], path: Path) -> Parts:
    found = tuple(read(path))
    return {f"{one.name} {i}": fingerprint(one.doses, one.volumes_cc) for i, one in enumerate(found)}


@cache
def _rtdose() -> Path:
    """An RTDOSE file to take the patient and the grid from, made once."""
    folder = Path(tempfile.mkdtemp(prefix="robustness-rtdose-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    from dose import dicom_phantoms  # of the benchmarks

    return dicom_phantoms.write_pair(folder, "source", samples.treatment_structures()[0], samples.treatment_dose())[1]


def _write_sequence(path: Path, result: Any) -> None:
    dvh_files.write_dvh_sequence(path, result, {"PTV": 1, "heart": 2}, _rtdose())


# -- speckle ----------------------------------------------------------------------------------------------------------
def _maps(version: int) -> Any:
    frame = np.random.default_rng(version).integers(100, 4000, (1000, 1000)).astype(np.uint16)
    return speckle.contrast(frame, speckle.ContrastSettings(), device="cpu")


def _read_maps(path: Path) -> Parts:
    import tifffile

    with tifffile.TiffFile(path) as file:
        return {"contrast": fingerprint(file.asarray()), "description": fingerprint(file.pages[0].tags[270].value)}


def _course(version: int) -> TimeCourse:
    course = TimeCourse()
    for i, value in enumerate(np.random.default_rng(version).random(4000)):
        course.append(float(i), {"artery": float(value), "vein": float(value) / 2})
    return course


def _read_text(path: Path) -> Parts:
    return {"text": fingerprint(path.read_text(encoding="utf-8"))}


# -- denoise ----------------------------------------------------------------------------------------------------------
def _image(version: int) -> volumes.Volume:
    import nibabel as nib

    values = np.random.default_rng(version).random((60, 60, 60), np.float32)
    header = nib.Nifti1Header()
    header.set_data_shape(values.shape)
    header["descrip"] = f"version {version}".encode()
    return volumes.Volume(array=values, affine=np.eye(4), header=header)


def _read_image(path: Path) -> Parts:
    found = volumes.open_volume(path)
    return {"image": fingerprint(found.array), "header": fingerprint(bytes(found.header["descrip"]))}


_tractogram = partial(Writer, make=_fibers, write=write_tractogram, read=_read_fibers)
_bare = partial(Writer, make=partial(_fibers, numbers=False), write=write_tractogram, read=_read_fibers)
WRITERS: dict[str, Writer] = {
    "light result": Writer("result.npz", _light_result, results.save_result, _read_light),
    "NIfTI with JSON, error, halves, guide": Writer("fluence.nii.gz", _layer, _write_layer, _read_described),
    "layer npz": Writer("layer.npz", _layer, _write_layer, _read_npz_layer),
    "trx": _tractogram("fibers.trx"),
    "trk": _tractogram("fibers.trk"),
    "tck": _bare("fibers.tck"),
    "vtk": _tractogram("fibers.vtk"),
    "gradient table": Writer("scan.bval", _gradients, _write_gradients, _read_gradients),
    "denoised image": Writer("clean.nii.gz", _image, lambda path, image: volumes.save_volume(image, path), _read_image),
    "DVH curves CSV": Writer(
        "curves.csv", _histograms, dvh_files.write_curves_csv, partial(_read_curves, dvh_files.read_curves_csv)
    ),
    "DVH JSON": Writer("dvh.json", _histograms, dvh_files.write_json, partial(_read_curves, dvh_files.read_json)),
    "DICOM histograms": Writer(
        "dvh.dcm", _histograms, _write_sequence, partial(_read_curves, dvh_files.read_dvh_sequence)
    ),
    "speckle TIFF": Writer("maps.tif", _maps, speckle.io.write_maps, _read_maps),
    "time course CSV": Writer("course.csv", _course, lambda path, course: course.write_csv(path), _read_text),
}
