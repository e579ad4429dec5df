"""Files of forward models: netCDF as cedalion has its sensitivities, and NumPy archives of sparse matrices.

The netCDF file holds one variable, ``Adot``, with the dimensions channel, vertex and wavelength, in mm and positive:
the change of the optical density -ln(I / I0) per change of mu_a (1/mm) of a vertex. Its coordinates are ``source`` and
``detector`` of each channel, and ``is_brain`` and ``parcel`` of each vertex. ``load_Adot`` of cedalion's module
``io.forward_model`` reads it, and so does ``xarray.load_dataarray``. A vertex is a voxel, unless voxels are gathered at
the vertices of surfaces.

netCDF-4 files are HDF5 with scales for dimensions, and are written by h5py alone: install ``napari-gpubio[snirf]``.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import array_names, opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.foreign import json_of
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.space import apply_affine
from napari_gpubio.probes.forward.model import labels_named
from napari_gpubio.probes.forward.result import ForwardModel, WavelengthModel
from napari_gpubio.probes.forward.work import State

Array = npt.NDArray[Any]
_BRAIN = ("brain", "gray", "grey", "white", "cortex", "cerebell")
_COMPRESSED_BYTES = 64 << 20  # more is written as it is
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."
_STATE = "state_"  # begins the names of arrays that a stopped run goes on with
_BY_WAVELENGTH = tuple(field.name for field in dataclasses.fields(WavelengthModel) if field.name != "wavelength_nm")
SUFFIXES = (".nc", ".npz")


class Surface(NamedTuple):
    """Vertices at which voxels are gathered: each voxel goes to the nearest vertex of its kind.

    Parameters
    ----------
    positions_mm
        World, shape (N, 3).
    is_brain
        Whether a vertex is of the brain (else of the scalp), shape (N,); voxels of the brain go to these.
    parcels
        Name of the parcel of each vertex; None: ``brain`` and ``scalp``.
    """

    positions_mm: Array
    is_brain: Array
    parcels: Sequence[str] | None = None


def check_format(path: str | Path) -> None:
    """Check before a run that a model can be written in the format that a file's name says.

    Raises
    ------
    InvalidInput
        If the ending is another than ``.nc`` or ``.npz``, or ``.nc`` needs a package that is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(f"{Path(path).name} does not end in .nc or .npz; give it one of these endings")
    if suffix == ".nc":
        _h5py()


def write_model(path: str | Path, model: ForwardModel, **options: Any) -> None:
    """Write a model as ``.nc`` (see `write_adot`, which takes the options) or ``.npz`` (see `write_npz`).

    Raises
    ------
    InvalidInput
        If the ending is another, or the file cannot be written.
    """
    check_format(path)
    if Path(path).suffix.lower() == ".nc":
        write_adot(path, model, **options)
    else:
        write_npz(path, model)


# -- netCDF -----------------------------------------------------------------------------------------------------------


def write_adot(
    path: str | Path,
    model: ForwardModel,
    *,
    brain: Iterable[int | str] | None = None,
    parcels: Array | None = None,
    parcel_names: dict[int, str] | None = None,
    surface: Surface | None = None,
) -> None:
    """Write a model as netCDF that cedalion reads.

    Parameters
    ----------
    path
        Ends in ``.nc``.
    model
        Voxels that no row has are left out.
    brain
        Labels that are the brain; by default those whose names say so.
    parcels
        An atlas on the head's grid, shape (X, Y, Z), integers, instead of the model's own; without any, a parcel is
        the name of its label.
    parcel_names
        Names of its parcels; where one has none, it is its number.
    surface
        Vertices at which the voxels are gathered, instead of voxels.

    Raises
    ------
    InvalidInput
        If h5py is not installed, the model was stopped or has no values, an atlas has another shape, or the file cannot
        be written.
    """
    h5py = _h5py()
    if not model.complete:
        raise InvalidInput(
            "the model was stopped before its end; go on with it (resume=) before it is written, or write .npz"
        )
    vertices = _vertices(model, brain, model.parcels if parcels is None else parcels, parcel_names, surface)
    if not vertices.size:
        raise InvalidInput("the model has no values, since no light reached a detector; simulate more photons")
    probe, text = model.placement.probe, h5py.string_dtype()
    with atomic_write(path) as part, h5py.File(part, "w", track_order=True) as file:
        file.attrs["software"] = str(model.parameters.get("software", ""))
        if RECORD in model.parameters:
            file.attrs[RECORD] = json.dumps(model.parameters[RECORD])
        file.attrs["description"] = "change of the optical density per change of mu_a, mm: mean path lengths"
        dimensions = {
            "channel": np.array(model.channels, object),
            "vertex": None,
            "wavelength": np.array(model.wavelengths_nm),
        }
        for name, values in dimensions.items():
            if values is None:
                scale = file.create_dataset(name, (vertices.size,), "f4")  # never written, so it takes no room
                scale.make_scale(f"{_NO_VARIABLE}{vertices.size:10d}")
            else:
                file[name] = values.astype(text) if values.dtype == object else values
                file[name].make_scale(name)
        file["wavelength"].attrs["units"] = "nm"
        sources = [probe.sources[pair.source] for pair in model.pairs]
        detectors = [probe.detectors[pair.detector] for pair in model.pairs]
        coordinates: dict[str, tuple[str, Array]] = {
            "source": ("channel", np.array(sources, object).astype(text)),
            "detector": ("channel", np.array(detectors, object).astype(text)),
            "is_brain": ("vertex", vertices.is_brain.astype(np.int8)),
            "parcel": ("vertex", np.array(vertices.parcels, object).astype(text)),
        }
        for number, axis in enumerate("xyz"):
            coordinates[axis] = "vertex", vertices.positions_mm[:, number].astype(np.float32)
        for name, (dimension, along) in coordinates.items():
            file.create_dataset(name, data=along, compression="gzip", compression_opts=1)
            file[name].dims[0].attach_scale(file[dimension])
        file["is_brain"].attrs["dtype"] = "bool"  # as xarray keeps truth values
        shape = len(model.pairs), vertices.size, len(model.parts)
        found = file.create_dataset(
            "Adot", shape, "f4", chunks=(1, vertices.size, 1), compression="gzip", compression_opts=1, shuffle=True
        )
        for number, name in enumerate(dimensions):
            found.dims[number].attach_scale(file[name])
        found.attrs["units"] = "mm"
        found.attrs["coordinates"] = " ".join(coordinates)
        for column, part_of_wavelength in enumerate(model.parts):
            matrix = model.matrix(part_of_wavelength.wavelength_nm)
            for row in range(len(model.pairs)):
                chosen = slice(matrix.indptr[row], matrix.indptr[row + 1])
                places = vertices.of_column[matrix.indices[chosen]]
                found[row, :, column] = np.bincount(places, matrix.data[chosen], vertices.size).astype(np.float32)


class _Vertices(NamedTuple):
    """Vertices of a file, and to which of them each column of a model goes."""

    size: int
    of_column: npt.NDArray[np.int64]
    positions_mm: Array
    is_brain: npt.NDArray[np.bool_]
    parcels: list[str]


def _vertices(
    model: ForwardModel,
    brain: Iterable[int | str] | None,
    parcels: Array | None,
    parcel_names: dict[int, str] | None,
    surface: Surface | None,
) -> _Vertices:
    used = np.unique(np.concatenate([part.columns for part in model.parts]))
    of_column = np.zeros(len(model.voxels), np.int64)
    of_column[used] = np.arange(len(used))
    flat = model.voxels[used]
    labels = np.asarray(model.head.labels).ravel()[flat]
    domain = model.head.at(model.wavelengths_nm[0])
    names = dict(zip(model.labels, model.label_names, strict=True))
    if brain is None:
        brain = [label for label, name in names.items() if any(word in name.casefold() for word in _BRAIN)]
    is_brain = np.isin(labels, labels_named(domain, brain))
    positions = apply_affine(domain.affine, np.stack(np.unravel_index(flat, domain.shape), -1))
    if surface is not None:
        return _on_surface(of_column, used, positions, is_brain, surface)
    if parcels is None:
        called = [names[int(label)] or f"label {label}" for label in labels]
    else:
        if np.shape(parcels) != domain.shape:
            raise InvalidInput(f"the atlas has shape {np.shape(parcels)}, the head {domain.shape}; resample the atlas")
        numbers = np.asarray(parcels).ravel()[flat].astype(np.int64)
        called = [(parcel_names or {}).get(int(number), str(number)) for number in numbers]
    return _Vertices(len(used), of_column, positions, is_brain, called)


def _on_surface(of_column: Array, used: Array, positions: Array, is_brain: Array, surface: Surface) -> _Vertices:
    """Each voxel at the nearest vertex of its kind."""
    from scipy.spatial import KDTree

    places, kinds = np.asarray(surface.positions_mm, np.float64), np.asarray(surface.is_brain, np.bool_)
    if places.ndim != 2 or places.shape[1] != 3 or kinds.shape != (len(places),):
        raise InvalidInput(
            f"the surface has positions of shape {places.shape} and is_brain of shape {kinds.shape}; they must be "
            "(N, 3) and (N,)"
        )
    for kind, what in ((True, "brain"), (False, "scalp")):
        voxels = np.flatnonzero(is_brain == kind)
        if not len(voxels):
            continue
        candidates = np.flatnonzero(kinds == kind)
        if not len(candidates):
            raise InvalidInput(f"the surface has no vertices of the {what}, and the model has voxels of it")
        _, nearest = KDTree(places[candidates]).query(positions[voxels])
        of_column[used[voxels]] = candidates[nearest]
    if surface.parcels is not None and len(surface.parcels) != len(places):
        raise InvalidInput(
            f"the surface has {len(places)} vertices and {len(surface.parcels)} parcels; give one for each"
        )
    called = ["brain" if kind else "scalp" for kind in kinds] if surface.parcels is None else list(surface.parcels)
    return _Vertices(len(places), of_column, places, kinds, called)


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InvalidInput('a .nc file needs the package h5py; run: pip install "napari-gpubio[snirf]"') from error
    return h5py


# -- NumPy ------------------------------------------------------------------------------------------------------------


def write_npz(path: str | Path, model: ForwardModel) -> None:
    """Write a model as a NumPy archive that needs nothing else to be read.

    ``channels`` are named as MNE-Python names them without the wavelength (``S1_D1``), ``wavelengths_nm`` the rest: its
    channel ``S1_D1 760`` is row ``S1_D1`` of the matrix of 760 nm, which is::

        scipy.sparse.csr_array((a["values_760"], a["columns_760"], a["row_starts_760"]), shape=a["matrix_shape"])

    Its columns are the voxels ``a["voxels"]``, flat indices in an array of the shape ``a["volume_shape"]`` with the
    affine ``a["affine"]``. ``label_paths_mm_760`` and ``label_errors_mm_760`` have a column for each of ``labels``. A
    large model is not compressed, which would take minutes and save little. One that was stopped has what it can go on
    with, too, which `read_unfinished` reads.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    arrays: dict[str, Any] = dict(_arrays(model))
    if not model.complete:
        size = model.parameters["photons"] // model.settings.groups
        arrays |= {f"{_STATE}{name}": array for name, array in model.state.to_arrays(size).items()}
    small = model.complete and sum(array.nbytes for array in arrays.values()) < _COMPRESSED_BYTES
    with atomic_write(path) as part, part.open("wb") as file:
        (np.savez_compressed if small else np.savez)(file, **arrays)  # none of them is of objects


def read_unfinished(path: str | Path) -> State | None:
    """Read what a run that was stopped or killed has left in a file of `write_npz`; None if the file is another one.

    Raises
    ------
    InvalidInput
        If the file is damaged.
    """
    if f"{_STATE}whole" not in array_names(path):
        return None
    with opened_npz(path) as file:
        file.check_size()
        about = json_of(str(file.array("about")), Path(path).name)
        try:
            arrays = {n.removeprefix(_STATE): file.array(n) for n in file.names if n.startswith(_STATE)}
            whole = [float(nm) for nm in file.array("wavelengths_nm")[: int(arrays["whole"])]]
            parts = [
                WavelengthModel(wavelength_nm=nm, **{name: file.array(f"{name}_{nm:g}") for name in _BY_WAVELENGTH})
                for nm in whole
            ]
            state = State.from_arrays(about["inputs"], parts, arrays)
            state.seconds = float(about["seconds"])
            if len(parts) != arrays["whole"]:
                raise ValueError(f"{len(parts)} wavelengths are there")
            _check_parts(parts, len(file.array("channels")))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{Path(path).name} is no unfinished model of this program; remove it") from error
    return state


def _check_parts(parts: Iterable[WavelengthModel], pairs: int) -> None:
    """ValueError if arrays of a wavelength do not fit together."""
    for part in parts:
        ends = part.row_starts
        by_pair = [getattr(part, name) for name in _BY_WAVELENGTH if name not in ("row_starts", "columns", "values")]
        fits = ends.shape == (pairs + 1,) and (np.diff(ends) >= 0).all() and ends[0] == 0
        fits = fits and part.done.all() and part.columns.shape == part.values.shape == (ends[-1],)
        if not fits or any(array.shape[:1] != (pairs,) for array in by_pair):
            raise ValueError(f"arrays at {part.wavelength_nm:g} nm do not fit {pairs} pairs")


def _arrays(model: ForwardModel) -> Iterator[tuple[str, Array]]:
    probe = model.placement.probe
    names = [f"{probe.sources[pair.source]}_{probe.detectors[pair.detector]}" for pair in model.pairs]
    about = {**model.parameters, "complete": model.complete, "notes": list(model.notes)}
    yield "about", np.array(json.dumps(about, default=str))
    yield "channels", np.array(names)
    yield "wavelengths_nm", np.array(model.wavelengths_nm)
    yield "source_positions_mm", np.array([probe.source_positions_mm[pair.source] for pair in model.pairs])
    yield "detector_positions_mm", np.array([probe.detector_positions_mm[pair.detector] for pair in model.pairs])
    yield "labels", np.array(model.labels)
    yield "label_names", np.array(model.label_names)
    yield "voxels", model.voxels
    yield "volume_shape", np.array(np.asarray(model.head.labels).shape)
    yield "affine", np.asarray(model.head.affine, np.float64)
    yield "matrix_shape", np.array([len(model.pairs), len(model.voxels)])
    for part in model.parts:
        for name in _BY_WAVELENGTH:
            yield f"{name}_{part.wavelength_nm:g}", getattr(part, name)
