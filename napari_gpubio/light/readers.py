"""napari's reader of results of light in voxels, and of MCML's input files; needs no napari."""

from pathlib import Path

from napari_gpubio.core.archives import holds
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, LayerReader, Paths, read_each, reader_if
from napari_gpubio.core.operations.layer_sources import keep_shown
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import LogOf
from napari_gpubio.core.reading import note
from napari_gpubio.layered.io.mci import MciRun, read_mci
from napari_gpubio.light.io.results import load_result
from napari_gpubio.light.layered_phantom import ended_mm, proposed_sizes, voxel_case, voxel_phantom
from napari_gpubio.light.napari_io import fluence_layer, labels_layer, phantom_layer
from napari_gpubio.light.operations.fluence import Fluence
from napari_gpubio.light.operations.runs import OpenRun


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of saved results of light in voxels and of MCML's input files, or None for other files."""
    return reader_if(lambda file: _is_mci(file) or holds(file, "result/gates"), path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read results as labels with their fluence, and runs of MCML as labels with their optical properties.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, lambda one: _read_runs(one) if _is_mci(one) else _result_layers(one))


def _is_mci(path: Path) -> bool:
    return path.suffix.lower() == ".mci"


def _result_layers(path: Path) -> list[LayerData]:
    """The labels and the fluence of a saved result, which carries what makes it."""
    result, opened = load_result(path), OpenRun.at(path)
    fluence = fluence_layer(result, path.stem)
    fluence[1]["metadata"][KEY]["path"] = str(path)
    keep_shown(fluence, LogOf(volume=Fluence(run=opened)).output(), "cpu")
    STORE.keep(opened, "", result)
    return [labels_layer(result.domain, f"{path.stem} labels"), fluence]


def _read_runs(path: Path) -> list[LayerData]:
    """Read the runs of an input file of MCML as labels in voxels, of which the first are visible."""
    runs = read_mci(path)
    if len(runs) > 1:
        note(f"of its {len(runs)} runs the first is visible")
    return [_run_layer(path, run, visible=number == 0) for number, run in enumerate(runs)]


def _run_layer(path: Path, run: MciRun, *, visible: bool) -> LayerData:
    """The layers of a run as labels in voxels, as the panel proposes them."""
    height, across, width = proposed_sizes(run.medium, run.settings)
    depth = ended_mm(run.medium, run.settings, height)
    try:
        domain = voxel_phantom(
            run.medium, voxel_mm=height, across_mm=across, width_mm=width, depth_mm=depth, source=path.name
        )
    except InvalidInput as error:
        raise InvalidInput(
            f"the layers of {run.output} make no volume of voxels ({error}); open the file in the panel Light "
            "transport, under Layers"
        ) from error
    name = f"{path.stem} {Path(run.output).stem}"
    case = voxel_case(domain, photons=run.settings.photons, seed=run.settings.seed, name=name)
    for text in case.notes:
        note(f"{run.output}: {text[:1].lower()}{text[1:].rstrip('.')}")
    data, keywords, kind = phantom_layer(case)
    return data, {**keywords, "visible": visible}, kind
