"""A tractogram as a streamlines layer, whoever opens it: the panel, a script, or napari by a file.

All of them get the same layer: whole, colored by direction, with the length of each fiber and the numbers of the file,
in world millimeters, and the `Tractogram` itself in the metadata. A file with groups of fibers has a layer for each of
these bundles.
"""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from napari.utils.notifications import show_info, show_warning

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, ORIENTED, carried, grid_of, is_oriented, own_units, show_notes, take_place
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.space import apply_affine, as_many_voxels, slice_steps_mm, voxel_sizes_mm
from napari_gpubio.diffusion.gui.records import known_outputs, path_of
from napari_gpubio.gui.layers import unwrapped
from napari_gpubio.gui.lines import DIRECTION, UNIFORM, ByDirection, Lines, Paint, pack_lines
from napari_gpubio.gui.lines.packed import line_lengths
from napari_gpubio.gui.lines.paint import register_codes
from napari_gpubio.gui.places import Offer, is_volume, place_offers
from napari_gpubio.gui.scans import follow_scans
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.streamlines.layer import ALL
from napari_gpubio.tractograms.bundles.clusters import CLUSTER
from napari_gpubio.tractograms.bundles.group import by_group
from napari_gpubio.tractograms.io.tractograms import (
    SUFFIXES,
    is_tractogram,
    read_tractogram,
    tractogram_suffix,
    write_tractogram,
)
from napari_gpubio.tractograms.model import StopReason, Tractogram
from napari_gpubio.tractograms.napari_io import fibers_of_tracks
from napari_gpubio.tractograms.operations.fibers import Fibers, HeldTractogram, whole
from napari_gpubio.tractograms.operations.sources import fibers_source
from napari_gpubio.tractograms.places import has_place, is_placeable, placed_in

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Array = npt.NDArray[Any]
NO_FIBERS = "there are no fibers; open a tractogram, or track some"
TRACTOGRAMS = f"Tractograms ({' '.join(f'*{suffix}' for suffix in SUFFIXES)})"
LENGTH = "length_mm"
_NOT_COLORS = ("seed", "stop_reason_back")  # numbers that are kept and saved but mean little as a color
_LARGE_FILE_BYTES = 20_000_000  # which take about half a second
_FEW_OUTSIDE = 0.1  # share of points outside an image that needs no word
_SAMPLE_POINTS = 100_000

_turned_to: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # when, by the layer
_turns = itertools.count()
register_codes("stop_reason", {
    StopReason.VOLUME: "left the volume",
    StopReason.MASK: "left the mask",
    StopReason.FA: "FA too low",
    StopReason.STEPS: "too many steps",
    StopReason.LENGTH: "too long",
    StopReason.CURVATURE: "too curved",
    StopReason.DRIFT: "drifted",
    StopReason.INVALID: "invalid tensor",
    StopReason.TARGET: "reached the target",
    StopReason.FOD: "FOD too low",
})  # fmt: skip
register_codes(CLUSTER, {})

# -- the layer --------------------------------------------------------------------------------------------------------


def pack_fibers(fibers: Tractogram, paint: Paint | None = None) -> Lines:
    """Bring fibers into the layout of the graphics card, in a worker if there are many.

    Parameters
    ----------
    fibers
        The fibers; columns of several numbers become one number for each.
    paint
        That of the layer that they go to, None for a new layer.
    """
    per_fiber = _numbers(fibers.per_fiber, (DIRECTION, UNIFORM))
    if LENGTH not in per_fiber:
        per_fiber = {LENGTH: line_lengths(fibers.points, fibers.offsets), **per_fiber}
    return pack_lines(
        fibers.points[:, ::-1],
        fibers.offsets,
        per_fiber=per_fiber,
        per_point=_numbers(fibers.per_point, (DIRECTION, UNIFORM, *per_fiber)),
        paint=paint or ByDirection(),
    )


def _numbers(columns: Mapping[str, Array], taken: Iterable[str]) -> dict[str, Array]:
    """Columns as named numbers, shape (rows,); a name that is taken gets a number of its own."""
    numbers: dict[str, Array] = {}
    for column, values in columns.items():
        table = np.asarray(values)
        if column in _NOT_COLORS or table.dtype.kind not in "biuf" or table.ndim > 2:
            continue
        parts = {column: table} if table.ndim == 1 else {f"{column} [{n}]": part for n, part in enumerate(table.T)}
        for name, part in parts.items():
            free = (f"{name} ({n})" for n in range(2, 1000))
            numbers[next(free) if name in taken or name in numbers else name] = part
    return numbers


def fiber_layer(
    fibers: Tractogram,
    name: str,
    *,
    beside: Iterable[Any] = (),
    lines: Lines | None = None,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Streamlines:
    """Return the layer of a tractogram.

    Parameters
    ----------
    fibers
        They go into the metadata, where `fibers_of` finds them.
    name
        Of the layer.
    beside
        The layers of its viewer: its sliders go on stopping at the slices of the images. Without images they stop at
        those of the volume that the fibers belong to.
    lines
        What `pack_fibers` made of them in a worker; by default it is done here.
    metadata
        What else the layer carries.
    **options
        Display settings of `Streamlines`.
    """
    step = slider_step(beside)
    ours = {**(metadata or {}), "tractogram": fibers, ORIENTED: has_place(fibers)}
    return Streamlines(
        lines=pack_fibers(fibers) if lines is None else lines,
        slider_step=slice_steps_mm(fibers.affine) if step is None else step,
        name=name,
        metadata={KEY: ours | ({NOTES: list(fibers.notes)} if fibers.notes else {})},
        **options,
    )


def slider_step(layers: Iterable[Any]) -> npt.NDArray[np.float64] | None:
    """Return the distances in mm (z, y, x) at which a viewer's sliders stop at slices of images, None without images.

    What is drawn over them takes these as its scale, else there would be stops between slices.
    """
    steps = [np.asarray(layer.extent.step, np.float64)[-3:] for layer in _images_in_mm(layers)]
    return np.min(steps, axis=0) if steps else None


def fibers_of(layer: Any) -> Tractogram | None:
    """Return the tractogram that a streamlines layer shows, or None if it is another layer."""
    fibers = carried(layer, "tractogram") if isinstance(layer, Streamlines) else None
    return fibers if isinstance(fibers, Tractogram) and len(fibers) == len(layer.lines) else None


def shown_fibers(layer: Any, *, but: str | None = None) -> Tractogram | None:
    """Return the fibers of a layer that are shown, which are those that count; None if it is another layer.

    ``but``: name of a filter that hides none of them.
    """
    fibers, shown = fibers_of(layer), None if fibers_of(layer) is None else layer.passing(but=but)
    return fibers if fibers is None or shown is None or shown.all() else fibers.select(shown)


def shown_text(layer: Any) -> str:
    """Return a sentence about the fibers of a layer that are hidden and not counted; empty if all are shown."""
    shown, total = int(np.count_nonzero(layer.shown)), len(layer.lines)
    return "" if shown == total else f"{shown:,} of {total:,} fibers of “{layer.name}” are shown and counted."


def turn_to(layer: Any) -> None:
    """Note that the user has turned to the fibers of a layer, for instance by their bundle in a list."""
    _turned_to[unwrapped(layer)] = next(_turns)


def turned_to_last(layers: Iterable[Any]) -> Any | None:
    """Return the layer of those that the user turned to last, or None."""
    known = {_turned_to.get(unwrapped(layer), -1): layer for layer in layers}
    last = max(known, default=-1)
    return None if last < 0 else known[last]


def why_no_fibers(layer: Any) -> str | None:
    """Why a layer holds no fibers of which the tractogram is known; an empty text for layers of another kind."""
    if not isinstance(layer, Streamlines):
        return ""
    return None if fibers_of(layer) is not None else "not of this package"


def show(
    viewer: Any,
    tractogram: Tractogram | str | os.PathLike[str],
    name: str | None = None,
    *,
    shown: npt.ArrayLike | None = None,
    **options: Any,
) -> Streamlines:
    """Show a tractogram, or a file of one; see `napari_gpubio.tractograms.show`."""
    if isinstance(tractogram, Tractogram):
        fibers, title = tractogram, "fibers"
    else:
        fibers, title = read_tractogram(tractogram), _title(Path(tractogram))
        show_notes(fibers.notes)
        options["metadata"] = {"path": os.fspath(tractogram), **options.get("metadata", {})}
    layer = fiber_layer(fibers, name or title, beside=viewer.layers, **options)
    layer.shown = shown
    follow_scans(viewer)  # which shows it upright
    viewer.add_layer(layer)
    if warning := place_warning(fibers, layer.name, viewer.layers):
        show_warning(warning)
    return layer


# -- where they come from ---------------------------------------------------------------------------------------------


def finder(layer: Any) -> Callable[[], Output[Any]] | None:
    """Read a layer of fibers; see `core.operations.layer_sources.register_finder`."""
    fibers = fibers_of(layer)
    return None if fibers is None else partial(fiber_output, layer, fibers)


def fiber_output(layer: Any, fibers: Any) -> Output[Any]:
    """Return what the fibers of a layer come from, or some of them as they were, which are copied."""
    if fibers in known_outputs:
        return known_outputs[fibers]
    if len(fibers) < len(layer.lines):
        return HeldTractogram.of(fibers, layer.name).output()
    path, bundle = path_of(layer), carried(layer, "bundle")
    if path is None and isinstance(bundle, str) and tractogram_suffix(bundle):
        path = Path(bundle)
    return fibers_source(fibers, layer.name, path, record_of(layer), carried(layer, "clusters_mm"))


# -- where they lie ---------------------------------------------------------------------------------------------------


def fiber_offers(chosen: Sequence[Any], layers: Sequence[Any]) -> Iterator[Offer]:
    """Yield how fibers and volumes can be brought together of which one tells no place; see `place_offers`."""
    volumes = [layer for layer in dict.fromkeys([*chosen, *layers]) if is_volume(layer)]
    for layer in chosen:
        if (fibers := fibers_of(layer)) is None:
            continue
        for volume in volumes:
            affine, shape = grid_of(volume)
            if not is_oriented(layer) and is_oriented(volume) and is_placeable(fibers, affine, shape):
                yield Offer(layer, volume, partial(_place, layer, affine, shape))
            grids = shape, affine, fibers.shape, fibers.affine
            if is_oriented(layer) and volume in chosen and not is_oriented(volume) and as_many_voxels(*grids):
                yield Offer(volume, layer, partial(take_place, volume, fibers.affine, layer.name))
    yield from place_offers(chosen, layers)


def _place(layer: Streamlines, affine: Array, shape: tuple[int, int, int]) -> None:
    """Put the fibers of a layer where they lie, voxel by voxel, in a volume."""
    filters, fibers = layer.filters, placed_in(carried(layer, "tractogram"), affine, shape)
    layer.set_lines(pack_fibers(fibers, layer.paint))
    layer.metadata[KEY].pop(RECORD, None)  # which made them where they were
    layer.metadata[KEY] |= {"tractogram": fibers, ORIENTED: True}
    layer.filters = filters


def place_warning(fibers: Tractogram, name: str, layers: Iterable[Any]) -> str:
    """Return a sentence if fibers lie outside of all images, which tells how far; else nothing."""
    points = fibers.points[:: max(1, len(fibers.points) // _SAMPLE_POINTS)]
    images = _images_in_mm(layers)
    if not len(points) or not images:
        return ""
    found = [(*_outside(points, layer), layer.name) for layer in images]
    share, gap, farthest, image = min(found)
    if share <= _FEW_OUTSIDE:
        return ""
    if gap > 0:
        return (
            f"The box of the fibers of {name!r} lies {gap:.0f} mm from that of the image {image!r}: "
            "they belong to another space, or to another head."
        )
    return (
        f"{share:.0%} of the points of {name!r} lie outside of the image {image!r}, up to {farthest:.0f} mm from its "
        "box: they may belong to another space, or to another head."
    )


def _images_in_mm(layers: Iterable[Any]) -> list[Any]:
    """Volumes among layers that lie in millimeters."""
    volumes = [layer for layer in layers if isinstance(layer, Image | Labels) and layer.ndim >= 3]
    return [layer for layer in volumes if all(str(unit) in ("mm", "millimeter") for unit in own_units(layer)[-3:])]


def _outside(points: Array, layer: Any) -> tuple[float, float, float]:
    """Share of points outside of a volume's box, distance between the boxes, and the farthest point's; mm."""
    affine, shape = grid_of(layer)
    sizes, last = voxel_sizes_mm(affine), np.array(shape) - 0.5
    voxels = apply_affine(np.linalg.inv(affine), points)
    away = np.maximum(np.maximum(-0.5 - voxels, voxels - last), 0.0) * sizes
    gap = np.maximum(np.maximum(voxels.min(axis=0) - last, -0.5 - voxels.max(axis=0)), 0.0) * sizes
    distances = np.linalg.norm(away, axis=1)
    return float((distances > 0).mean()), float(np.linalg.norm(gap)), float(distances.max())


# -- files, as napari opens and saves them ----------------------------------------------------------------------------


def get_tractogram_reader(path: Paths) -> Any:
    """Return the reader of these files (napari's contribution), or None if one is no tractogram."""
    paths = _listed(path)
    return read_tractogram_layers if paths and all(map(is_tractogram, paths)) else None


def read_tractogram_layers(path: Paths) -> list[Streamlines]:
    """Read tractogram files, each as a layer, or as one for each bundle and one for the rest.

    Raises
    ------
    InvalidInput
        If a file cannot be read or holds no fibers.
    """
    from napari import current_viewer
    from napari.utils import progress

    paths = [Path(p) for p in _listed(path)]
    is_large = sum(p.stat().st_size for p in paths if p.is_file()) > _LARGE_FILE_BYTES
    viewer, layers, notes = current_viewer(), list[Streamlines](), list[str]()
    beside = () if viewer is None else tuple(viewer.layers)
    with progress(total=2 * len(paths), desc="Reading fibers", disable=not is_large) as bar:
        for file in paths:
            fibers = read_tractogram(file)
            if not len(fibers.points):
                raise InvalidInput(f"{file.name} holds no fibers; there is nothing to show")
            notes += fibers.notes
            bar.update()
            layers += [
                fiber_layer(part, name, beside=beside, metadata=metadata)
                for name, part, metadata in _bundles(file, fibers)
            ]
            bar.update()
            if warning := place_warning(fibers, _title(file), beside):
                show_warning(warning)
    show_notes(notes)
    return layers


def _bundles(file: Path, fibers: Tractogram) -> Iterator[tuple[str, Tractogram, dict[str, str]]]:
    """Name, fibers and metadata of the layers of a file; fibers of no bundle have the file's name."""
    bundles = {name: part for name, part in by_group(fibers).items() if len(part)}
    for name, part in bundles.items():
        group = {"group": name} if any(bundles) else {}
        yield name or _title(file), part, {"path": str(file), **group}


def write_fibers(path: str, data: Any, attributes: Mapping[str, Any]) -> list[str]:
    """Write a Tracks layer as a tractogram file (napari's contribution), and tell first what is written.

    A streamlines layer writes the fibers that are shown, or all if that is chosen in its controls.

    Raises
    ------
    InvalidInput
        If the data are no tracks, or the file cannot be written.
    """
    fibers, total = fibers_of_tracks(data, attributes)
    show_info(
        f"Saving {count_text(len(fibers), total)} of {attributes.get('name', 'the layer')!r} in {Path(path).name}"
    )
    write_tractogram(path, fibers)
    return [os.fspath(path)]


def count_text(saved: int, total: int) -> str:
    """Return what is saved, for a title or a status: "all 20 fibers", "the 5 of 20 fibers that are shown"."""
    return f"all {total:,} fibers" if saved == total else f"the {saved:,} of {total:,} fibers that are shown"


def fibers_to_save(layer: Streamlines) -> Tractogram:
    """Return the fibers of a layer that a file gets, as `write_fibers` writes them."""
    fibers, (linear, origin) = fibers_of(layer), layer.data_to_world_matrix()
    is_in_place = np.array_equal(linear, np.eye(3)) and not origin.any()
    if fibers is None or not is_in_place or not np.array_equal(layer.points[:, ::-1], fibers.points):
        return fibers_of_tracks(*layer.as_layer_data_tuple()[:2])[0]
    if layer.saves != ALL and not layer.shown.all():
        return fibers.select(layer.shown)
    record = carried(layer, RECORD)
    return dataclasses.replace(fibers, parameters={**fibers.parameters, RECORD: record}) if record else fibers


def layers_of_tractogram(fibers: Fibers, output: Output[Any], name: str) -> list[Any]:
    """Return the layer of fibers that are a result, as `Kind.shows` has it."""
    return [(fiber_layer(whole(fibers), name, metadata={RECORD: record_of_output(output)}), {}, "tracks")]


def _listed(path: Paths) -> list[str | os.PathLike[str]]:
    return [path] if isinstance(path, str | os.PathLike) else list(path)


def _title(path: Path) -> str:
    """The name of a file without the suffix of a tractogram."""
    return path.name[: -len(suffix)] if (suffix := tractogram_suffix(path)) else path.name
