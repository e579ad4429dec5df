"""Labels from NIfTI, a source's pattern from an image, and fluence to NIfTI with a JSON file beside it."""

import io
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import in_c_order
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MAX_WHOLE, existing_bytes
from napari_gpubio.core.label_volumes import as_labels
from napari_gpubio.core.layer_files import companions, write_described_steps
from napari_gpubio.core.quantity import GUIDE, HALVES, QUANTITY, STANDARD_ERROR, Quantity
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.tensor_components import FRAMES, PLACES, axes_of, flat_components, rotate_tensors
from napari_gpubio.core.volumes import check_expansion, lies_on_grid, read_array, read_volume
from napari_gpubio.light.io.results import describe
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import MAX_ERROR, PER_PHOTON, UNITS, FluenceUnit
from napari_gpubio.optics.io.foreign import check_labels_file
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.pictures import fluence_word

Array = npt.NDArray[Any]
HIDDEN = f"voxels with a relative standard error above {MAX_ERROR:.0%}"


@reads_file
def read_domain(
    path: str | Path,
    media: Iterable[Medium],
    *,
    outside_n: float = 1.0,
    mua_path: str | Path | None = None,
    mus_path: str | Path | None = None,
    g_path: str | Path | None = None,
    n_path: str | Path | None = None,
    affine: npt.ArrayLike | None = None,
) -> Domain:
    """Read a label volume and give it optical properties.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file of integers, 0 to 65535; 0 is outside, for NaN and negative numbers see
        `napari_gpubio.core.label_volumes.as_labels`.
    media
        Properties of each label; see `napari_gpubio.optics.io.read_table`.
    outside_n
        Refractive index of what surrounds the labels.
    mua_path, mus_path, g_path, n_path
        Volumes of absorption and scattering coefficients, 1/mm, anisotropy and refractive index, on the same grid,
        instead of the media's.
    affine
        Voxel to world, mm, instead of the file's: NIfTI has single precision.

    Raises
    ------
    InvalidInput
        If a file is missing, damaged or no such volume, a label has no properties, or the volume is sheared.
    """
    path = Path(path)
    check_labels_file(path)
    labels, stored = read_volume(path)
    labels = in_c_order(labels)
    whole, about = as_labels(labels)
    if whole is not None and about:
        note(about)
        labels = whole
    paths = {"mua_per_mm": mua_path, "mus_per_mm": mus_path, "g": g_path, "n": n_path}
    volumes: dict[str, Any] = {name: _on_grid(file, labels.shape, stored, path.name) for name, file in paths.items()}
    return Domain(
        labels=labels, affine=stored if affine is None else np.asarray(affine, np.float64), media=tuple(media),
        outside_n=outside_n, **volumes, path=path,
    )  # fmt: skip


def _on_grid(path: str | Path | None, shape: tuple[int, ...], affine: Array, labels_name: str) -> Array | None:
    if path is None:
        return None
    values, own_affine = read_volume(path)
    if not lies_on_grid(path, values.shape, own_affine, shape, affine):
        raise InvalidInput(f"{Path(path).name} is on a different grid from the labels of {labels_name}; resample it")
    return in_c_order(values)


@reads_file
def read_diffusion_tensors(
    path: str | Path, order: str, *, axes: str | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Read diffusion tensors from NIfTI, for `napari_gpubio.optics.anisotropy.with_fibers`.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file of 6 or 9 components; see `napari_gpubio.core.tensor_components`.
    order
        Of the components: ``"mrtrix"``, ``"fsl"``, ``"dipy"`` or ``"full"``.
    axes
        That they refer to: ``"world"``, ``"voxel"`` or ``"fsl"``; by default as the programs of that order do.

    Returns
    -------
    tensors
        Shape (X, Y, Z, 6): xx, yy, zz, xy, xz, yz, world axes, in the file's unit.
    affine
        Voxel to world, mm.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or of another shape, or order or axes are not known.
    """
    if order not in PLACES:
        raise InvalidInput(f"the order of the components is {order!r}; choose one of {', '.join(PLACES)}")
    if axes not in (None, "world", "voxel", "fsl"):
        raise InvalidInput(f"axes is {axes!r}; choose 'world', 'voxel' or 'fsl'")
    name = Path(path).name
    array, affine = read_array(path)
    given = flat_components(array, name)
    if (given.shape[3] == 9) != (order == "full"):
        raise InvalidInput(
            f"{name} has {given.shape[3]} components, which the order {order!r} does not; choose another"
        )
    tensors = np.take(given, PLACES[order], axis=3).astype(np.float32)
    return rotate_tensors(tensors, axes_of(axes or FRAMES[order], affine)), affine


@reads_file
def read_irradiance(path: str | Path) -> npt.NDArray[np.float64]:
    """Read the gray values of an image file (PNG, TIFF), shape (rows, columns): the pattern of a source.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or no image.
    """
    from PIL import Image

    file = Path(path)
    data = io.BytesIO(existing_bytes(file, MAX_WHOLE))  # so that Pillow reads no more than there is
    try:
        with Image.open(data) as image:
            check_expansion(file, image.width * image.height * np.dtype(np.float64).itemsize)
            if np.ptp(np.asarray(image.convert("RGB")), axis=2).any():
                note("it is in colors; their luminance, as PIL has it, is taken as irradiance")
            if (pages := getattr(image, "n_frames", 1)) > 1:
                note(f"of its {pages} pages the first is taken")
            return np.asarray(image.convert("F"), np.float64)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"{file.name} cannot be read as an image ({error}); give a PNG or TIFF file") from error


def write_fluence_steps(
    path: str | Path,
    result: LightResult,
    *,
    unit: FluenceUnit = PER_PHOTON,
    gates: bool = False,
    hide_uncertain: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Generator[Step, None, Path]:
    """Write fluence as NIfTI (float32), all parameters as JSON beside it, and its standard error, halves and guide.

    All are there in the end or neither; older files are replaced only when the new ones are complete.

    Parameters
    ----------
    path
        Ends in ``.nii`` or ``.nii.gz``.
    result
        What a simulation gave.
    unit
        Per launched photon, or one of `napari_gpubio.light.statistics.fluence_units`.
    gates
        Each time gate as a volume of its own, shape (X, Y, Z, G), instead of all of them together.
    hide_uncertain
        NaN in voxels whose relative standard error is more than 50 %.
    about
        What else the JSON file is to say, as plain data.

    Returns
    -------
    Path
        The JSON file: for ``fluence.nii.gz`` it is ``fluence.json``.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    values = fluence_values(result, unit, gates=gates, hide_uncertain=hide_uncertain)
    word = fluence_word(unit)
    described = {
        "quantity": "fluence in each time gate" if gates else "fluence",
        "unit": unit.name,
        "meaning": UNITS[unit.name],
        "factor": unit.factor,
        **describe(result),
    }
    arrays = companions(fluence_arrays(result, PER_PHOTON, gates=gates))
    for number, (name, plain) in enumerate(arrays.items() if unit.factor != 1 else ()):
        yield Step(number, len(arrays), f"volumes in {unit.name}")
        arrays[name] = plain * np.float32(unit.factor)
    said = {
        **(about or {}),
        "kind": "image",
        QUANTITY: Quantity(word, unit.name, source=f"light, {result.launched:,} photons"),
        "unit": unit.name,
        "meaning": UNITS[unit.name],
        "factor": unit.factor,
        **({"first_axis": "time gate"} if gates else {}),
        **({"hidden": HIDDEN} if hide_uncertain else {}),
    }
    return (yield from write_described_steps(path, values, result.domain.affine, said, arrays, beside=described))


write_fluence = driven(write_fluence_steps)


def fluence_values(
    result: LightResult, unit: FluenceUnit, *, gates: bool = False, hide_uncertain: bool = False
) -> npt.NDArray[np.float32]:
    """Return the numbers that `write_fluence_steps` writes, shape (X, Y, Z) or (X, Y, Z, G)."""
    plain, errors = (result.gates, result.gates_error) if gates else (result.fluence, result.fluence_error)
    values = np.asarray(plain * np.float32(unit.factor), np.float32)
    if hide_uncertain:
        values[errors > np.float32(MAX_ERROR) * plain] = np.nan
    return values


def fluence_arrays(result: LightResult, unit: FluenceUnit, *, gates: bool = False) -> dict[str, Any]:
    """Return the standard error, the halves and the guide of a fluence in a unit, as far as they are known.

    Of all time gates together, or of each, which has no guide: shapes (X, Y, Z) and (2, X, Y, Z), or with G behind.
    """
    error = result.gates_error if gates else result.fluence_error
    halves = result.half_fluences
    if halves is not None and not gates:
        halves = halves[..., 0] if halves.shape[-1] == 1 else halves.sum(axis=-1, dtype=np.float64).astype(np.float32)
    found = {
        STANDARD_ERROR: None if np.isnan(error).all() else error,
        HALVES: halves,
        GUIDE: None if gates else result.guide,
    }
    factor = np.float32(unit.factor)
    return {name: held if factor == 1 or held is None else held * factor for name, held in found.items()}
