"""Copy as Python: the script of each mode."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import save_layer, saved_path
from napari_gpubio.core.tensor_components import tensors_of
from napari_gpubio.core.volumes import nifti_affine, open_nifti
from napari_gpubio.gui.script import ScriptStep, file_name
from napari_gpubio.light.gui.fibers import FiberChoice
from napari_gpubio.light.gui.request import DisplayOptions, LayerRequest, VoxelRequest
from napari_gpubio.light.sources import AnySource, Patterned, Source

_ALWAYS = ("label", "position_mm", "direction", "kind")
_VOXEL_IMPORTS = ("from napari_gpubio import light", "from napari_gpubio.light.statistics import FluenceUnit")
_ALWAYS_OF_LAYERS = ("photons", "thickness_mm", "n", "kind", "radius_mm")


class InputFiles(NamedTuple):
    """Files of a script: of the labels, of the source's pattern (``.npy``), of diffusion tensors (``.npz``)."""

    labels: Path
    pattern: Path | None = None
    tensors: Path | None = None


def voxel_script(
    request: VoxelRequest,
    options: DisplayOptions,
    files: InputFiles,
    *,
    steps: Sequence[ScriptStep] = (),
) -> str:
    """Return the script of a request.

    It writes the result, and the fluence as it is on display; ``steps`` go on with both (``result``, ``unit``).

    `InvalidInput` if properties or scattering tensors are given voxel by voxel, or the labels carry a phase function.
    """
    carried = request.volume.carried
    if carried is not None and carried.is_anisotropic and request.volume.fibers is None:
        raise InvalidInput(
            "the labels carry scattering tensors, which this script cannot hold; choose the layer of the diffusion "
            "tensors at Fiber anisotropy, or use light.io.load_result"
        )
    if carried is not None and carried.is_continuous:
        raise InvalidInput(
            "the labels carry properties voxel by voxel, which this script cannot hold; use light.io.read_domain "
            "with mua_path, mus_path, g_path and n_path"
        )
    if carried is not None and carried.phase_function is not None:
        raise InvalidInput(
            "the labels carry a phase function, which this script cannot hold; give it to the domain that "
            "light.io.read_domain reads: dataclasses.replace(domain, phase_function=...)"
        )
    name, unit = file_name(request.volume.study), options.unit
    shown = ", gates=True" * (request.settings.gate_count > 1) + ", hide_uncertain=True" * options.hide_uncertain
    lines = [
        *(["import numpy as np", ""] if files.pattern is not None or files.tensors is not None else []),
        *sorted({*_VOXEL_IMPORTS, *(line for step in steps for line in step.imports)}),
        "",
        "media = (",
        *[f"    {_call(medium)}," for medium in request.volume.media],
        ")",
        f"domain = light.io.read_domain({str(files.labels)!r}, media{_more(request, files.labels)})",
        *_fiber_lines(request.volume.fibers, files.tensors),
        *_source_lines(request.source, files.pattern),
    ]
    if request.detectors:
        lines += ["detectors = (", *[f"    {_call(detector)}," for detector in request.detectors], ")"]
    else:
        lines.append("detectors = ()")
    lines += [
        f"settings = {_call(request.settings, always=('photons',))}",
        f"result = light.simulate(domain, source, settings, detectors=detectors, device={request.device!r})",
        f"light.io.save_result({name + '.npz'!r}, result)",
        f"unit = FluenceUnit({unit.name!r}, {unit.factor!r})",
        f"light.io.write_fluence({name + ' fluence.nii.gz'!r}, result, unit=unit{shown})",
        *(line for step in steps for line in step.lines),
    ]
    return "\n".join(lines) + "\n"


def layered_script(request: LayerRequest, options: DisplayOptions) -> str:
    """Return the script of a request, for the beam on display.

    It writes the numbers, the curves in the unit on display, the map as it is on display, and an MCML output file.
    """
    name, medium = file_name(request.medium.name or "layers"), request.medium
    endless = any(math.isinf(layer.thickness_mm) for layer in medium.layers)
    ambient = f"n_above={medium.n_above!r}, n_below={medium.n_below!r}, name={medium.name!r}"
    beam = None if options.beam is None else _call(options.beam, always=_ALWAYS_OF_LAYERS)
    lines = [
        *(["import math", ""] if endless else []),
        *(["import numpy as np", ""] if request.settings.absorption else []),
        "from napari_gpubio import light",
        "from napari_gpubio.light.layers.summary import every_curve, layered_rows, write_curves",
        "from napari_gpubio.light.statistics import FluenceUnit",
        "from napari_gpubio.light.summary import write_csv",
        "",
        "layers = (",
        *[f"    {_call(layer, always=_ALWAYS_OF_LAYERS)}," for layer in medium.layers],
        ")",
        f"medium = light.layers.LayeredMedium(layers=layers, {ambient})",
        f"settings = {_call(request.settings, always=_ALWAYS_OF_LAYERS)}",
        f"traced = light.layers.simulate(medium, settings, device={request.device!r})",
        "result = traced" if beam is None else f"result = light.layers.convolved(traced, {beam})",
        f"unit = FluenceUnit({options.unit.name!r}, {options.unit.factor!r})",
        f"write_csv({name + '.csv'!r}, layered_rows(result))",
        f"write_curves({name + ' curves.csv'!r}, every_curve(result, unit=unit))",
        f"light.io.write_mco({name + '.mco'!r}, traced)",
    ]
    if request.settings.absorption:
        how = f"quantity={options.quantity!r}, unit=unit, hide_uncertain={options.hide_uncertain}"
        lines += [
            f"picture, _, _ = light.layers.napari_io.picture_layer(result, '', {how})",
            f"np.save({name + ' map.npy'!r}, picture)",
        ]
    return "\n".join(lines) + "\n"


def input_files(labels: Any, pattern: Any | None, tensors: Any | None, saved: Mapping[str, Path]) -> InputFiles:
    """Return where the layers of a run are: ``saved`` has those without a file of their own, by name.

    `InvalidInput` if the labels are in no file.
    """
    labels_path = saved.get(labels.name) or saved_path(labels)
    if labels_path is None:
        raise InvalidInput(f"the labels {labels.name!r} are not saved in a file; save them first")
    paths = [None if layer is None else saved[layer.name] for layer in (pattern, tensors)]
    return InputFiles(labels_path, *paths)


def save_input(layer: Any, folder: Path) -> Path:
    """Save a layer into a folder and return the path.

    Labels are saved as NIfTI, the image of a source's pattern as ``.npy``, diffusion tensors as ``.npz``.
    """
    if isinstance(layer, Labels):
        return save_layer(layer, folder)
    if (field := tensors_of(layer)) is not None:
        path = folder / f"{file_name(layer.name)} tensors.npz"
        with atomic_write(path) as part:
            np.savez(part, tensors=field.tensors, affine=field.affine)
        return path
    path = folder / f"{file_name(layer.name)}.npy"
    with atomic_write(path) as part:
        np.save(part, np.asarray(layer.data))
    return path


def _fiber_lines(fibers: FiberChoice | None, path: Path | None) -> list[str]:
    """What makes scattering follow the fibers of tensors in a file."""
    if fibers is None or path is None:
        return []
    more = f", labels={fibers.labels!r}" * (fibers.labels is not None) + f", model={fibers.model!r}"
    return [
        f"with np.load({str(path)!r}) as fibers:",
        f'    domain = light.anisotropy.with_fibers(domain, fibers["tensors"], fibers["affine"]{more})',
    ]


def _source_lines(source: AnySource, pattern_path: Path | None) -> list[str]:
    """The source with the sizes of its own kind only, or all of several."""
    if isinstance(source, tuple):
        if any(isinstance(one, Patterned) for one in source):
            raise InvalidInput(
                "a script cannot hold the patterns of several sources; save the result, and take its sources from "
                "light.io.load_result"
            )
        return ["source = (", *[f"    {_call(one, (*_own(one), 'weight'))}," for one in source], ")"]
    own = _own(source)
    if pattern_path is None:
        return [f"source = {_call(source, own)}"]
    arguments = ", ".join(_arguments(source, own))
    return [f"source = light.{type(source).__name__}({arguments}, pattern=np.load({str(pattern_path)!r}))"]


def _own(source: Source) -> tuple[str, ...]:
    """Names of what a source of a kind is made of."""
    return tuple(f.name for f in dataclasses.fields(source) if f.name not in ("pattern", "weight"))


def _call(value: Any, names: Iterable[str] | None = None, *, always: tuple[str, ...] = _ALWAYS) -> str:
    """The code that makes a dataclass instance: what differs from the defaults, with every digit."""
    where = "light.layers" if type(value).__module__.startswith("napari_gpubio.light.layers.") else "light"
    return f"{where}.{type(value).__name__}({', '.join(_arguments(value, names, always))})"


def _arguments(value: Any, names: Iterable[str] | None = None, always: tuple[str, ...] = _ALWAYS) -> list[str]:
    fields = [f for f in dataclasses.fields(value) if f.init and (names is None or f.name in names)]
    given = [(f.name, getattr(value, f.name), f.default) for f in fields]
    return [f"{name}={_text(_plain(own))}" for name, own, default in given if name in always or not _same(own, default)]


def _same(own: Any, default: Any) -> bool:
    return own is default or (not isinstance(own, np.ndarray) and own == default)


def _text(value: Any) -> str:
    return "math.inf" if isinstance(value, float) and math.isinf(value) else repr(value)


def _plain(value: Any) -> Any:
    """Tuples of plain numbers, whose text is code."""
    if isinstance(value, tuple):
        return tuple(v.item() if isinstance(v, np.generic) else v for v in value)
    return value.item() if isinstance(value, np.generic) else value


def _more(request: VoxelRequest, labels_path: Path) -> str:
    """What the domain has beside the labels of a file and the media."""
    carried, affine = request.volume.carried, request.volume.tissue.affine
    outside = f", outside_n={carried.outside_n!r}" if carried is not None and carried.outside_n != 1.0 else ""
    is_same = np.array_equal(nifti_affine(open_nifti(labels_path)), affine)
    return outside if is_same else f"{outside}, affine={np.asarray(affine).tolist()!r}"
