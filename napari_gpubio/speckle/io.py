"""Files of frames, maps, regions and time courses: TIFF, raw files of the Speckle Software of UT Austin, and CSV."""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file, json_of
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, check_expansion, one_volume, read_array
from napari_gpubio.speckle.model import NAMES, ContrastMaps
from napari_gpubio.speckle.pulsatility import Pulsatility
from napari_gpubio.speckle.regions import RegionCurve

Array = npt.NDArray[Any]
TIFF_SUFFIXES = (".tif", ".tiff")
_MOST_LABELS = 4096
_BIG_TIFF = 43  # the number that tells it from the smaller kind
_TAG_BYTES = np.array([1, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 1, 1, 8, 8, 8, 1])  # by type; the last: any other one
_HEADER = np.dtype([("height", "<u2"), ("width", "<u2"), ("frames", "<u2"), ("exposure", "<u2")])


def is_raw(path: str | os.PathLike[str]) -> bool:
    """Whether a file is named like a raw file (``name.00000``)."""
    suffix = Path(path).suffix[1:]
    return len(suffix) == 5 and suffix.isdigit()


@reads_file
def read_frames(path: str | os.PathLike[str]) -> Array:
    """Read a stack of frames, shape (T, Y, X), or a single one (Y, X).

    Parameters
    ----------
    path
        A TIFF file, or a raw file ``name.00000`` of UT Austin's software. Contiguous data are memory-mapped.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or does not hold gray frames.
    """
    file = existing_file(path)
    if is_raw(file):
        return read_raw(file)
    if file.suffix.lower() not in TIFF_SUFFIXES:
        raise InvalidInput(f"{file.name} is neither .tif nor a raw file .00000; save the frames as TIFF")
    return _read_tiff(file)


def _read_tiff(file: Path) -> Array:
    import tifffile

    try:
        check_pages(file)
        with tifffile.TiffFile(file) as tiff:
            if len(tiff.series) != 1:
                raise InvalidInput(f"{file.name} holds {len(tiff.series)} images of different kinds; save one stack")
            series = tiff.series[0]
            if series.dataoffset is not None:
                array = tifffile.memmap(file, mode="r")
            else:
                check_data(file, [page for page in series.pages if page is not None])
                array = series.asarray()
    except InvalidInput:
        raise
    except Exception as error:  # tifffile raises many kinds on damaged files
        raise InvalidInput(
            f"{file.name} cannot be read as TIFF ({str(error) or type(error).__name__}); copy or export it again"
        ) from error
    if array.ndim not in (2, 3) or array.dtype.kind not in "uif":
        raise InvalidInput(f"{file.name} holds {array.dtype} of shape {array.shape}; give gray frames (frames, y, x)")
    return np.asarray(array)


def check_pages(file: Path) -> None:
    """Refuse what tifffile would follow without end or take memory for.

    InvalidInput if the chain of pages comes back to one of them, or a tag states more bytes than the file has.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        begin = stream.read(16)
        order: Literal["little", "big"] = "big" if begin.startswith(b"MM") else "little"
        is_big = int.from_bytes(begin[2:4], order) == _BIG_TIFF
        count_bytes, offset_bytes = (8, 8) if is_big else (2, 4)
        tag = np.dtype([("code", "u2"), ("type", "u2"), ("count", f"u{offset_bytes}"), ("value", f"V{offset_bytes}")])
        tag = tag.newbyteorder(order)
        offset, seen = int.from_bytes(begin[8:16] if is_big else begin[4:8], order), set[int]()
        while offset:
            if offset in seen:
                raise InvalidInput(f"{file.name} has {len(seen)} pages, the last of which leads back to an earlier one")
            seen.add(offset)
            stream.seek(min(offset, size))
            entries = int.from_bytes(stream.read(count_bytes), order) * tag.itemsize
            block = stream.read(min(entries, size))
            tags = np.frombuffer(block, tag, len(block) // tag.itemsize)
            stated = tags["count"].astype(np.float64) * _TAG_BYTES[np.minimum(tags["type"], len(_TAG_BYTES) - 1)]
            if (most := stated.max(initial=0.0)) > size:
                raise InvalidInput(
                    f"{file.name} has {size} bytes and a tag of {most:.0f} on page {len(seen)}; it is damaged: copy "
                    "or export it again"
                )
            offset = int.from_bytes(stream.read(offset_bytes), order)  # 0 behind the end of the file


def check_data(file: Path, pages: Sequence[Any]) -> None:
    """Refuse pages of tifffile whose data cannot be in the file, or not in the memory; InvalidInput."""
    size = file.stat().st_size
    if (most := max((count for page in pages for count in page.databytecounts), default=0)) > size:
        raise InvalidInput(
            f"{file.name} has {size} bytes and states {most} of one part of a page; it is damaged: copy or export it "
            "again"
        )
    check_expansion(file, sum(page.nbytes for page in pages))


@reads_file
def read_raw(path: str | os.PathLike[str]) -> Array:
    """Read a raw file of UT Austin's software: a header of four 16-bit words, then frames of 8 or 16 bits.

    The header's number of frames wraps around and its exposure may be invalid, so the number follows from the file's
    size, and the exposure must be given by the user. One byte per pixel is assumed where both would fit.

    Raises
    ------
    InvalidInput
        If the file's size does not fit its header.
    """
    file = existing_file(path)
    if file.stat().st_size <= _HEADER.itemsize:
        raise InvalidInput(f"{file.name} has no frames; copy it again")
    header = np.fromfile(file, _HEADER, 1)[0]
    pixels, size = int(header["height"]) * int(header["width"]), file.stat().st_size - _HEADER.itemsize
    if pixels == 0 or size % pixels:
        raise InvalidInput(
            f"{file.name} has a header of frames of {header['width']} x {header['height']} and {size} bytes, which is "
            "not a whole number of frames; copy it again"
        )
    bytes_each = _bytes_per_sample(size // pixels, int(header["frames"]))
    shape = (size // pixels // bytes_each, int(header["height"]), int(header["width"]))
    return np.memmap(file, f"<u{bytes_each}", "r", _HEADER.itemsize, shape)


def _bytes_per_sample(bytes_per_pixel: int, in_header: int) -> int:
    """Return 1 or 2, from the number of frames in the header, modulo 65,536."""
    wraps = 1 << 16
    if bytes_per_pixel % wraps == in_header % wraps:
        return 1
    return 2 if bytes_per_pixel % 2 == 0 and bytes_per_pixel // 2 % wraps == in_header % wraps else 1


def write_maps(path: str | os.PathLike[str], maps: ContrastMaps, which: str = "contrast") -> None:
    """Write maps as TIFF, readable by ImageJ; their parameters are in its description (JSON).

    Parameters
    ----------
    path
        A ``.tif`` file.
    maps
        Result of a run.
    which
        ``"contrast"``, ``"index"`` (both float32) or ``"mask"`` (uint8).

    Raises
    ------
    InvalidInput
        If the maps have no such part, or the file cannot be written.
    """
    import tifffile

    array: npt.NDArray[Any] | None = getattr(maps, which)
    if array is None:
        raise InvalidInput(f"the maps have no {which}; choose it in the settings")
    if Path(path).suffix.lower() not in TIFF_SUFFIXES:
        raise InvalidInput(f"{Path(path).name} does not end in .tif; give it this ending")
    about = {**maps.parameters, "map": which, "unit": maps.unit if which == "index" else ""}
    if which == "mask":
        about["bits"] = {name: bit for bit, name in NAMES.items()}
    with atomic_write(path) as part:
        tifffile.imwrite(part, array, description=json.dumps(about), metadata=None, photometric="minisblack")


def write_curves_csv(
    path: str | os.PathLike[str], curves: Sequence[RegionCurve], seconds: npt.ArrayLike | None = None
) -> None:
    """Write time courses of regions, one row per map.

    Parameters
    ----------
    path
        A ``.csv`` file.
    curves
        Time courses from the same maps.
    seconds
        Time of each map; left out if None.

    Raises
    ------
    InvalidInput
        If there is no curve, or curves and times have different lengths.
    """
    lengths = {len(curve.k2) for curve in curves} | ({np.size(seconds)} if seconds is not None else set())
    if not curves or len(lengths) > 1:
        found = "no regions" if not curves else "different numbers of maps, " + " and ".join(map(str, sorted(lengths)))
        raise InvalidInput(f"there is no table of {found}; give curves, and times, of the same maps")
    columns: dict[str, Array] = {"map": np.arange(len(curves[0].k2))}
    if seconds is not None:
        columns["time [s]"] = np.asarray(seconds)
    for curve in curves:
        parts = (("K²", curve.k2), ("SFI [1/s]", curve.sfi), ("pixels", curve.used), ("skipped", curve.skipped))
        columns |= {f"{curve.name} {what}": values for what, values in parts}
    names = ",".join('"' + name.replace('"', '""') + '"' for name in columns)
    rows = (",".join(repr(value.item()) for value in row) for row in zip(*columns.values(), strict=True))
    with atomic_write(path) as part:
        part.write_text("\n".join([names, *rows]) + "\n", encoding="utf-8")


@reads_file
def read_regions(path: str | os.PathLike[str], shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
    """Read regions of maps of a shape (Y, X): name and pixels of each.

    Parameters
    ----------
    path
        A TIFF file that `write_regions` wrote; an image of labels, TIFF or NIfTI (x, y), of which every number but 0
        is a region; or shapes that napari saved (``.csv``), in pixels of the maps, the center of the first pixel being
        0. A pixel belongs to a shape if its center lies within.
    shape
        That of the maps.

    Raises
    ------
    InvalidInput
        If the file cannot be read, has another shape, or marks no pixel.
    """
    file = existing_file(path)
    if file.suffix.lower() == ".csv":
        regions = _shapes(file, shape)
    elif file.name.lower().endswith(NIFTI_SUFFIXES):
        regions = _labeled(one_volume(read_array(file)[0], file.name)[:, :, 0].T, file.name)
    elif file.suffix.lower() in TIFF_SUFFIXES:
        array, names = _read_tiff(file), _region_names(file)
        regions = dict(zip(names, array.reshape(-1, *array.shape[-2:]) != 0, strict=False)) if names else (
            _labeled(array, file.name)
        )  # fmt: skip
    else:
        raise InvalidInput(f"{file.name} holds no regions; give labels (.tif, .nii) or shapes that napari saved (.csv)")
    for name, pixels in regions.items():
        if pixels.shape != tuple(shape):
            raise InvalidInput(
                f"{file.name} has the shape {pixels.shape} and a map {tuple(shape)}; draw regions on the same frames"
            )
        if not pixels.any():
            raise InvalidInput(f"{file.name}: region {name!r} has no pixel in maps of shape {tuple(shape)}")
    return regions


def write_regions(path: str | os.PathLike[str], regions: Mapping[str, npt.ArrayLike]) -> None:
    """Write regions as TIFF, a page for each, their names in its description (JSON); `read_regions` reads them.

    Raises
    ------
    InvalidInput
        If there are none, or the file cannot be written.
    """
    import tifffile

    if not regions:
        raise InvalidInput("there are no regions to write; draw one")
    pages = np.stack([np.asarray(pixels) != 0 for pixels in regions.values()]).astype(np.uint8)
    with atomic_write(path) as part:
        tifffile.imwrite(
            part, pages, description=json.dumps({"regions": list(regions)}), metadata=None, photometric="minisblack"
        )


def _region_names(file: Path) -> list[str]:
    """Return the names that `write_regions` wrote, or none."""
    import tifffile

    with tifffile.TiffFile(file) as tiff:
        try:
            names = json_of(tiff.pages[0].description, file.name)["regions"]
        except (InvalidInput, TypeError, LookupError):
            return []
        count = len(tiff.pages)
    return [str(name) for name in names] if isinstance(names, list) and len(names) == count else []


def _labeled(labels: Array, name: str) -> dict[str, npt.NDArray[np.bool_]]:
    if labels.ndim != 2:
        raise InvalidInput(f"{name} has the shape {labels.shape}; give one image of labels (y, x)")
    found = np.unique(labels)
    if not np.array_equal(found, np.rint(found)) or len(found) > _MOST_LABELS:
        raise InvalidInput(f"{name} holds {len(found)} different values, of which not all mark regions; give labels")
    if not (found != 0).any():
        raise InvalidInput(f"{name} is 0 everywhere; give each region a number above 0")
    return {f"region {int(label)}": labels == label for label in found if label != 0}


def _shapes(file: Path, shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return the pixels of the shapes of napari's table."""
    corners: dict[str, tuple[str, list[list[float]]]] = {}
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                axes = sorted(key for key in row if str(key).startswith("axis-"))[-2:]
                kind, vertices = corners.setdefault(row["index"], (row["shape-type"], []))
                vertices.append([float(row[axis]) for axis in axes])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        text = f"{file.name} is no table of shapes as napari saves it ({error}); save the layer again"
        raise InvalidInput(text) from error
    if not corners:
        raise InvalidInput(f"{file.name} holds no shapes; draw one")
    regions = {}
    for number, (kind, vertices) in enumerate(corners.values(), 1):
        points = np.asarray(vertices)
        if kind not in ("rectangle", "polygon", "ellipse") or len(points) < 3 or points.shape[1] != 2:
            raise InvalidInput(f"{file.name}: shape {number} is a {kind}, which encloses no pixels; draw a polygon")
        if not np.isfinite(points).all():
            raise InvalidInput(f"{file.name}: shape {number} has a vertex that is not finite; draw it again")
        regions[f"region {number}"] = _in_ellipse(points, shape) if kind == "ellipse" else _in_polygon(points, shape)
    return regions


def _in_polygon(vertices: Array, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the pixels whose centers lie within, by the rule of even and odd crossings."""
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])[None]
    inside = np.zeros(shape, bool)
    for (y0, x0), (y1, x1) in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        low, high = (int(np.clip(np.ceil(end), 0, shape[0])) for end in sorted((y0, y1)))
        if low < high:  # rows that the edge crosses
            inside[low:high] ^= columns < x0 + (rows[low:high] - y0) / (y1 - y0) * (x1 - x0)
    return inside


def _in_ellipse(corners: Array, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the pixels whose centers lie within the ellipse of a box."""
    away = np.moveaxis(np.indices(shape), 0, -1) - corners.mean(axis=0)
    axes = 0.5 * (corners[1] - corners[0]), 0.5 * (corners[2] - corners[1])
    lengths = [max(float(axis @ axis), np.finfo(np.float64).tiny) for axis in axes]
    reach = [np.square(away @ axis / length) for axis, length in zip(axes, lengths, strict=True)]
    return np.asarray(reach[0] + reach[1] <= 1.0)


def write_pulsatility_csv(path: str | os.PathLike[str], pulses: Sequence[Pulsatility]) -> None:
    """Write the beat of regions, one row each; numbers of a region without a beat are ``nan``.

    Raises
    ------
    InvalidInput
        If there is no region, or the file cannot be written.
    """
    if not pulses:
        raise InvalidInput("there is no table of no regions; give at least one")
    columns = {
        "region": "name", "flow": "flow", "beat rate [1/min]": "rate_bpm", "beat rate s.e. [1/min]": "rate_error_bpm",
        "slowest [1/min]": "slowest_bpm", "fastest [1/min]": "fastest_bpm", "pulsatility index": "index",
        "pulsatility index s.e.": "index_error", "resistivity index": "resistivity",
        "resistivity index s.e.": "resistivity_error", "mean [1/s]": "mean", "beats": "beats",
        "harmonics": "harmonics", "false-alarm probability": "false_alarm",
    }  # fmt: skip
    rows = [[*(getattr(pulse, name) for name in columns.values()), "; ".join(pulse.notes)] for pulse in pulses]
    _write_table(path, [[*columns, "notes"], *rows])


def write_beats_csv(path: str | os.PathLike[str], pulses: Sequence[Pulsatility]) -> None:
    """Write the beat-averaged course of flow of regions and its standard error, one row per phase.

    Raises
    ------
    InvalidInput
        If no region has a beat, or the file cannot be written.
    """
    beating = [pulse for pulse in pulses if pulse.has_beat]
    if not beating:
        raise InvalidInput("there is no averaged beat to write: no region has a beat")
    head, columns = ["phase"], [beating[0].phase]
    for pulse in beating:
        head += [f"{pulse.name} {pulse.flow} [1/s]", f"{pulse.name} {pulse.flow} s.e. [1/s]"]
        columns += [pulse.course, pulse.course_error]
    _write_table(path, [head, *(list(row) for row in zip(*(column.tolist() for column in columns), strict=True))])


def _write_table(path: str | os.PathLike[str], rows: list[list[Any]]) -> None:
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
