"""Input files of MCX as napari layers, without importing napari."""

from pathlib import Path

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MAX_WHOLE, existing_bytes
from napari_gpubio.core.napari_io import KEY, LayerData, LayerReader, Paths, read_each, reader_if, volume_layer
from napari_gpubio.core.reading import note
from napari_gpubio.light.napari_io import labels_layer
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.mcx.io.inp import begins_like_inp
from napari_gpubio.mcx.io.root import read_mcx_labels


def _is_mcx(path: Path) -> bool:
    """Whether a file has the sections, or the lines, that MCX's input files have; other programs use its suffixes."""
    try:
        if not path.is_file():
            return False
        if path.suffix.lower() == ".inp":
            return begins_like_inp(path)
        if path.suffix.lower() != ".json":
            return False
        text = existing_bytes(path, MAX_WHOLE)
    except (OSError, InvalidInput):  # it may not be read, so nobody knows
        return False
    return all(f'"{section}"'.encode() in text for section in ("Domain", "Optode", "Forward"))


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of input files of MCX, or None for other files."""
    return reader_if(_is_mcx, path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read input files of MCX as labels, with all that is to be simulated.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read)


def _read(path: Path) -> list[LayerData]:
    try:
        case = read_mcx(path)
    except InvalidInput as error:
        try:
            labels, affine = read_mcx_labels(path)
        except InvalidInput:  # of which `error` is the better one
            raise error from None
        note(f"its labels alone are shown, not what is to be simulated: {error}")
        return [volume_layer(labels, affine, path.stem, kind="labels", metadata={"path": str(path)})]
    data, keywords, kind = labels_layer(case.domain, path.stem)
    keywords["metadata"][KEY]["case"] = case
    return [(data, keywords, kind)]
