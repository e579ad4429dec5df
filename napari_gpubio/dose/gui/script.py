"""Copy as Python: a script that makes the same histograms from the files of dose and structures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.napari_io import save_layer, saved_path, stored_array
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.dose.gui.request import Plan, Request
from napari_gpubio.dose.metrics.constraints import Constraint
from napari_gpubio.dose.metrics.metric import Metric
from napari_gpubio.dose.model import is_turned
from napari_gpubio.dose.napari_io import affine_mm, contours_of, labels_of
from napari_gpubio.gui.script import call_text, file_name, nifti_file_of


def unsaved_layers(request: Request) -> list[Any]:
    """Return the layers that no file holds as they are."""
    doses = [plan.layer for plan in request.plans if dose_file(plan.layer) is None]
    return doses + [layer for layer in request.layers if not isinstance(layer, Labels) or saved_path(layer) is None]


def dose_file(layer: Any) -> Path | None:
    """Return the NIfTI file that holds exactly the values of a dose layer, or None."""
    return nifti_file_of(layer, stored_array(layer))


def save_layer_for_script(layer: Any, folder: Path, request: Request) -> Path:
    """Write a layer into a folder: NIfTI, or the loops of contours as NumPy arrays; returns the path."""
    if any(layer == plan.layer for plan in request.plans):
        path = folder / f"{file_name(layer.name)}.nii.gz"
        write_volume(path, stored_array(layer), affine_mm(layer))
        return path
    if isinstance(layer, Labels):
        return save_layer(layer, folder)
    path = folder / f"{file_name(layer.name)}.npz"
    plan = request.plans[0]
    structures = contours_of(layer, plan.dose())
    loops: dict[str, Any] = {
        f"{n}/{m}": loop for n, one in enumerate(structures) for m, loop in enumerate(one.world_loops)
    }
    np.savez(path, **loops)
    return path


def script_text(
    request: Request,
    saved: Mapping[str, Path],
    *,
    metrics: Sequence[Metric],
    constraints: Sequence[Constraint],
    factor: float,
    reference: float | None,
) -> str:
    """Return the script."""
    lines = ["from napari_gpubio import dose", "from napari_gpubio.core.volumes import read_array", ""]
    plans = [f"plan{n or ''}" for n in range(len(request.plans))]
    for name, plan in zip(plans, request.plans, strict=True):
        lines += _dose_lines(name, plan, saved)
    for number, layer in enumerate(request.layers):
        lines += _structure_lines(f"part{number}", layer, request, saved)
    parts = ", ".join(f"*part{number}" for number in range(len(request.layers)))
    lines += [f"structures = [{parts}]", f"settings = {call_text('dose', request.settings)}"]
    printed = {"metrics": metrics, "constraints": constraints}
    for name in plans:
        lines += _result_lines(name, request.device, factor, reference, printed)
    text = "\n".join(lines) + "\n"
    return text.replace("dose\nfrom", "dose\nimport numpy as np\nfrom", 1) if "np." in text else text


def _dose_lines(name: str, plan: Plan, saved: Mapping[str, Path]) -> list[str]:
    path = saved.get(plan.layer.name) or dose_file(plan.layer)
    array = plan.dose().values
    values = _laid_out("values" if plan.frame is None else f"values[..., {plan.frame}]", array)
    return [
        f"values, affine = read_array({str(path)!r})",
        f"{name} = dose.Dose(values={values}, affine=affine, unit={plan.unit!r}, name={plan.name!r})",
    ]


def _laid_out(name: str, array: Any) -> str:
    """Code of an array with the memory order of this one: samples of voxels are numbered along it."""
    return f"np.asfortranarray({name})" if is_turned(array) else f"np.ascontiguousarray({name})"


def _structure_lines(name: str, layer: Any, request: Request, saved: Mapping[str, Path]) -> list[str]:
    if isinstance(layer, Labels):
        found = labels_of(layer)
        named = dict(zip(found.values, found.names, strict=True))
        return [
            f"labels, affine = read_array({str(saved.get(layer.name) or saved_path(layer))!r})",
            f"labels = {_laid_out('labels', found.labels)}",
            f"{name} = [dose.LabelStructures(labels=labels, affine=affine, structures={named!r})]",
        ]
    plan = request.plans[0]
    lines = [f"loops = np.load({str(saved[layer.name])!r})", f"{name} = ["]
    for number, one in enumerate(contours_of(layer, plan.dose())):
        chosen = f"[loops[key] for key in loops if key.startswith('{number}/')]"
        lines.append(f"    dose.contour_structure({one.name!r}, {chosen}, thickness_mm={one.thickness_mm!r}),")
    return [*lines, "]"]


def _result_lines(
    name: str, device: str, factor: float, reference: float | None, printed: Mapping[str, Sequence[Any]]
) -> list[str]:
    scaled = f"[one.scaled({factor!r}) for one in result]" if factor != 1 else "list(result)"
    lines = ["", f"result = dose.dvh({name}, structures, settings, device={device!r})", f"dvhs = {scaled}"]
    metrics = [*printed["metrics"], *(one.metric for one in printed["constraints"])]
    inputs = repr(reference)
    if any(metric.needs_everything for metric in metrics):
        inputs = f"{reference!r}, everything=everything"
        lines += [
            f"everything = dose.whole_dose({name}, settings, device={device!r})  # all that is irradiated",
            *([f"everything = everything.scaled({factor!r})"] if factor != 1 else []),
        ]
    if printed["metrics"]:
        texts = [str(metric) for metric in printed["metrics"]]
        lines += [
            f"metrics = [dose.metrics.parse_metric(text) for text in {texts!r}]",
            "for one in dvhs:",
            f"    values = [dose.metrics.evaluate_metric(metric, one, {inputs}) for metric in metrics]",
            "    print(one.name, *(f'{metric} = {value}' for metric, value in zip(metrics, values)))",
        ]
    if printed["constraints"]:
        text = "\n".join(map(str, printed["constraints"]))
        lines += [
            f"constraints = dose.metrics.parse_constraints({text!r})",
            f"for result in dose.metrics.evaluate_constraints(constraints, dvhs, reference_dose={inputs}):",
            "    print(result.status, result.constraint, result.reason or f'{result.value:.5g}')",
        ]
    return [*lines, f"dose.io.write_curves_csv({f'{name} curves.csv'!r}, dvhs)"]
