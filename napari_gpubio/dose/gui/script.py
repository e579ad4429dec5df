"""Copy as Python: a script that makes the same histograms from the files of dose and structures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Shapes

from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import affine_mm, save_layer, saved_path, stored_array
from napari_gpubio.core.volumes import nifti_affine, open_nifti, write_volume
from napari_gpubio.dose.bands import HALVES, border_doses
from napari_gpubio.dose.gui.request import Plan, Request, structures_of
from napari_gpubio.dose.metrics.constraints import Constraint
from napari_gpubio.dose.metrics.metric import Metric
from napari_gpubio.dose.model import is_turned
from napari_gpubio.dose.napari_io import contours_of, labels_of, scale_of, unit_scale
from napari_gpubio.dose.structures.overlaps import UNION
from napari_gpubio.gui.script import call_text, file_name, nifti_file_of


def unsaved_layers(request: Request) -> list[Any]:
    """Return the layers that no file holds as they are."""
    doses = [plan.layer for plan in request.plans if dose_file(plan.layer) is None or carries_errors(plan)]
    return doses + [layer for layer in request.layers if isinstance(layer, Shapes) or saved_path(layer) is None]


def carries_errors(plan: Plan) -> bool:
    """Whether the curves of a plan have bands."""
    return bool(border_doses(plan.dose())[0])


def dose_file(layer: Any) -> Path | None:
    """Return the NIfTI file that holds exactly the values of a dose layer, or None."""
    return nifti_file_of(layer, stored_array(layer))


def save_layer_for_script(layer: Any, folder: Path, request: Request) -> Path:
    """Write a layer into a folder: NIfTI, or the loops of contours as NumPy arrays; returns the path."""
    if any(layer == plan.layer for plan in request.plans):
        path = folder / f"{file_name(layer.name)}.nii.gz"
        write_volume(path, stored_array(layer), affine_mm(layer))
        plan = next(plan for plan in request.plans if plan.layer == layer)
        made = plan.dose()
        known = {"halves": made.halves, "standard_error": made.standard_error}
        if border_doses(made)[0]:
            _save_npz(_errors_file(path), {name: one for name, one in known.items() if one is not None})
        return path
    if not isinstance(layer, Shapes):
        return save_layer(layer, folder)
    path = folder / f"{file_name(layer.name)}.npz"
    plan = request.plans[0]
    structures = contours_of(layer, plan.dose())
    loops = {f"{n}/{m}": loop for n, one in enumerate(structures) for m, loop in enumerate(one.world_loops)}
    _save_npz(path, loops)
    return path


def _save_npz(path: Path, arrays: dict[str, Any]) -> None:
    with atomic_write(path) as part:
        np.savez(part, **arrays)


def _errors_file(path: Path) -> Path:
    """The file of a dose's errors beside that of the dose."""
    return path.with_name(f"{path.name.split('.')[0]} errors.npz")


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
    _, structures = structures_of(request.layers, request.plans[0].dose())
    for number, layer in enumerate(request.layers):
        names = [one.name for one in structures if one.layer == layer]
        lines += _structure_lines(f"part{number}", layer, names, request, saved)
    parts = ", ".join(f"*part{number}" for number in range(len(request.layers)))
    lines += [f"structures = [{parts}]", f"settings = {call_text('dose', request.settings)}"]
    printed = {"metrics": metrics, "constraints": constraints}
    for name, plan in zip(plans, request.plans, strict=True):
        lines += _result_lines(name, request.device, factor, reference, printed)
        lines += _band_lines(name, plan, saved, request.device, factor)
    text = "\n".join(lines) + "\n"
    if "to_linear" in text:
        text = text.replace(
            "import dose\n", "import dose\nfrom napari_gpubio.core.quantity import Quantity, to_linear\n", 1
        )
    return text.replace("dose\nfrom", "dose\nimport numpy as np\nfrom", 1) if "np." in text else text


def _dose_lines(name: str, plan: Plan, saved: Mapping[str, Path]) -> list[str]:
    path, made = saved.get(plan.layer.name) or dose_file(plan.layer), plan.dose()
    factor = unit_scale(plan.layer, plan.unit)
    values = "values" if plan.frame is None else f"values[..., {plan.frame}]"
    if (scale_of(plan.layer) or plan.scale) == "log10":
        values = f"to_linear({values}, Quantity({made.quantity or 'values'!r}, scale='log10'))"
    values = _laid_out(values if factor == 1 else f"{values} * {factor!r}", made.values)
    more = f", quantity={made.quantity!r}" if made.quantity else ""
    more += "" if made.is_oriented else ", is_oriented=False"
    return [
        f"values, affine = read_array({str(path)!r})",
        *_affine_lines(path, plan.layer),
        f"{name} = dose.Dose(values={values}, affine=affine, unit={plan.unit!r}{more}, name={plan.name!r})",
    ]


def _band_lines(name: str, plan: Plan, saved: Mapping[str, Path], device: str, factor: float) -> list[str]:
    """Lines that make the bands of a plan and write both borders, where its layer carries errors."""
    path = saved.get(plan.layer.name)
    basis = border_doses(plan.dose())[0]
    if not basis or path is None:
        return []
    made, key = ("dvh_band_of_halves", "halves") if basis == HALVES else ("dvh_band", "standard_error")
    given = f"tuple(errors[{key!r}])" if basis == HALVES else f"errors[{key!r}]"
    scaled = f".scaled({factor!r})" if factor != 1 else ""
    return [
        f"errors = np.load({str(_errors_file(path))!r})",
        f"bands = dose.{made}({name}, {given}, structures, settings, device={device!r})",
        *(
            f"dose.io.write_curves_csv({f'{name} {border}.csv'!r}, [band.{border}{scaled} for band in bands])"
            for border in ("low", "high")
        ),
    ]


def _laid_out(name: str, array: Any) -> str:
    """Code of an array with the memory order of this one: samples of voxels are numbered along it."""
    return f"np.asfortranarray({name})" if is_turned(array) else f"np.ascontiguousarray({name})"


def _affine_lines(path: Path | None, layer: Any) -> list[str]:
    """A line with the affine of a layer, where the file, in single precision, has another one."""
    own = affine_mm(layer)
    if path is not None and np.array_equal(nifti_affine(open_nifti(path)), own):
        return []
    return [f"affine = np.array({own.tolist()!r})"]


def _structure_lines(
    name: str, layer: Any, names: Sequence[str], request: Request, saved: Mapping[str, Path]
) -> list[str]:
    """Lines that read the structures of a layer, under the names that their curves have."""
    if not isinstance(layer, Shapes):
        found, path = labels_of(layer), saved.get(layer.name) or saved_path(layer)
        named = dict(zip(found.values, names, strict=True))
        oriented = "" if found.is_oriented else ", is_oriented=False"
        return [
            f"labels, affine = read_array({str(path)!r})",
            *_affine_lines(path, layer),
            f"labels = {_laid_out('labels', found.labels)}",
            f"{name} = [dose.LabelStructures(labels=labels, affine=affine, structures={named!r}{oriented})]",
        ]
    plan = request.plans[0]
    lines = [f"loops = np.load({str(saved[layer.name])!r})", f"{name} = ["]
    for number, (one, shown) in enumerate(zip(contours_of(layer, plan.dose()), names, strict=True)):
        chosen = f"[loops[key] for key in loops if key.startswith('{number}/')]"
        overlaps = f", overlaps={one.overlaps!r}" if one.overlaps != UNION else ""
        joined = f", joined_mm={one.joined_mm!r}" if one.joined_mm else ""
        joined += f", parted_mm={one.parted_mm!r}" if one.parted_mm else ""
        more = f"thickness_mm={one.thickness_mm!r}, slice_mm=0{overlaps}{joined}"
        lines.append(f"    dose.contour_structure({shown!r}, {chosen}, {more}),")
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
            "    print(result.status, result.constraint, result.text)",
        ]
    return [*lines, f"dose.io.write_curves_csv({f'{name} curves.csv'!r}, dvhs)"]
