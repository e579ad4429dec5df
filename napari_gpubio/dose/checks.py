"""Reference and speed cases of the dose engine, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

import dataclasses
from collections.abc import Callable

import numpy as np

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.dose import closed_forms, samples
from napari_gpubio.dose.closed_forms import ellipse, grid_affine, in_planes
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.resident import ResidentDvh
from napari_gpubio.dose.run import dvh
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure
from napari_gpubio.dose.structures.raster import dose_at_voxels, label_structures

_MAX_OFF = 8  # of 195; commercial systems: 53 and 18 (Nelms et al. 2015, tables I and II)
_DIRECTION = np.array([0.3, -0.5, 0.81]) / np.linalg.norm([0.3, -0.5, 0.81])


def _nelms(device: Device) -> list[Finding]:
    errors = []
    for case in closed_forms.CASES:
        solid, gradient, spacing = case
        dose, structure = closed_forms.nelms_dose(gradient, spacing), closed_forms.nelms_structure(solid, spacing)
        found = dvh(dose, structure, device=device)
        errors += list(closed_forms.nelms_errors_percent(case, found[solid]).values())
    off = float(np.count_nonzero(np.abs(errors) > 3))
    return [_finding(f"of {len(errors)} parameters more than 3 % off", 0.0, off, _MAX_OFF)]


def _ring_of_discs(device: Device) -> list[Finding]:
    """Contours as drawn, a hole in them, an oblique gradient of 1 Gy/mm: exact in the slab convention."""
    planes = np.arange(-19.5, 20, 3.0)
    ring = in_planes("ring", [(z, ellipse(r, r, 1024)) for z in planes for r in (20.0, 12.0)])
    axis = 2.5 * np.arange(-16, 17)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    values = 40 + _DIRECTION[0] * x + _DIRECTION[1] * y + _DIRECTION[2] * z
    dose = Dose(values=values, affine=grid_affine(2.5, [axis[0]] * 3), unit="Gy")
    found = dvh(dose, ring, device=device)["ring"]
    levels = np.linspace(10, 70, 3001)
    above = sum(
        sign * closed_forms.disc(levels - 40, radius, low - 1.5, low + 1.5, _DIRECTION.tolist())
        for low in planes
        for radius, sign in ((20.0, 1), (12.0, -1))
    )
    return [
        _finding(f"D{percent}% (Gy)", *_doses(found, levels, np.asarray(above), percent), 0.03)
        for percent in (99, 95, 50, 5, 1)
    ]


def _doses(found: Dvh, levels: np.ndarray, above: np.ndarray, percent: float) -> tuple[float, float]:
    true = float(np.interp(-percent / 100 * above[0], -above, levels))
    return true, float(found.dose_at_percent(percent))


def _light(device: Device) -> list[Finding]:
    settings = DvhSettings(within_voxels="interpolated")  # values at points, not means of voxels
    found = dvh(samples.light_dose(), samples.light_structures(), settings, device=device)["target"]
    findings = []
    for level in (0.15, 0.3, 1.0, 3.0):
        volume = closed_forms.ball_around_source(level, samples.INNER_MM, samples.STRENGTH, samples.MU_EFF_PER_MM)
        true = float(volume) / 1000
        findings.append(_finding(f"V{level:g}J/cm2 (cc)", true, float(found.volume_at(level)), 0.015 * true))
    return findings


def _finding(quantity: str, reference: float, result: float, tolerance: float) -> Finding:
    return Finding(quantity=quantity, reference=reference, result=result, error=result - reference, tolerance=tolerance)


def _backends(device: Device) -> list[Finding]:
    """Bits of the curves on a device and on the CPU, for a near-degenerate dose and for a rough one."""
    dose, structures = samples.treatment_dose(), samples.treatment_structures()
    rough = np.random.default_rng(0).random(dose.values.shape, np.float32)
    findings = []
    for kind, values in (("near-degenerate", dose.values), ("rough", rough)):
        both = [dvh(dataclasses.replace(dose, values=values), structures, device=d) for d in (device, CPU)]
        same = sum(_is_same(a, b) for a, b in zip(*both, strict=True))
        findings.append(_finding(f"curves with the CPU's bits, {kind} dose", float(len(structures)), float(same), 0.0))
    return findings


def _is_same(a: Dvh, b: Dvh) -> bool:
    return a.mean == b.mean and np.array_equal(a.doses, b.doses) and np.array_equal(a.volumes_cc, b.volumes_cc)


def _treatment(device: Device) -> Callable[[], float]:
    dose, structures = samples.treatment_dose(), samples.treatment_structures()[:4]

    def work() -> float:
        dvh(dose, structures, device=device)
        return float(len(structures))

    return work


def _new_doses(device: Device) -> Callable[[], float]:
    dose, structures = samples.treatment_dose(), samples.treatment_structures()[:4]
    resident = ResidentDvh(dose, structures, device=device)

    def work() -> float:
        resident.set_dose(dose)
        return float(len(resident.dvhs()))

    return work


def _tiny_dose() -> Dose:
    return Dose(values=np.ones((8, 8, 8), np.float32), affine=np.eye(4), unit="Gy")


def _tiny_labels() -> LabelStructures:
    return LabelStructures(labels=np.ones((8, 8, 8), np.uint8), affine=np.eye(4))


def _tiny_contours() -> ContourStructure:
    return samples.in_planes("organ", [(z, samples.ellipse(2.0, 2.0, 8, (4.0, 4.0))) for z in (3.0, 4.0)])


def _paint() -> None:
    with LiveDvh(_tiny_dose(), _tiny_labels(), device=CPU) as live:
        live.paint((2, 2, 2), np.zeros((1, 1, 1), np.uint8))
        live.dvhs()


def _show_in_image() -> None:
    dose, labels = _tiny_dose(), _tiny_labels()
    label_structures([_tiny_contours()], dose.affine, (8, 8, 8))
    dose_at_voxels(dose, labels.labels, labels.affine, [False, True], np.empty((8, 8, 8), np.float32))


def _points_and_shapes() -> None:
    points = PointStructure(name="points", points=np.ones((2, 3)), volume_cc=1.0)
    dvh(_tiny_dose(), [points, _tiny_contours()], DvhSettings(interpolation="shape"), device=CPU)


def _strokes(device: Device) -> Callable[[], float]:
    dose, shape = samples.treatment_dose(), (116, 60, 84)
    labels = np.zeros(shape, np.uint8)
    labels[20:90, 10:50, 10:70] = 1
    live = LiveDvh(dose, LabelStructures(labels=labels, affine=dose.affine, structures={1: "organ"}), device=device)
    strokes = 20

    def work() -> float:
        for n in range(strokes):
            live.paint((30 + n, 20, 40), np.full((1, 12, 12), n % 2, np.uint8))
            live.dvhs()
        return float(strokes)

    return work


CHECKS = (
    Check(
        name="five solids in a linear dose",
        source="closed forms; Nelms et al. 2015, Med. Phys. 42:4435, test 2",
        run=_nelms,
    ),
    Check(name="discs with holes in an oblique dose", source="closed form", run=_ring_of_discs),
    Check(name="light from a point", source="closed form by Lambert's function", run=_light),
    Check(name="the backends agree", source="this package on the CPU", run=_backends),
)
SPEEDS = (
    Speed(name="262 contours of four organs, dose of 116 x 60 x 84", unit="structures", prepare=_treatment),
    Speed(name="the same, laid out before: a new dose", unit="structures", prepare=_new_doses),
    Speed(name="strokes of 12 x 12 voxels, each with its histogram", unit="strokes", prepare=_strokes),
)
WARMUPS = (
    WarmUp(name="histograms of labels", run=_paint, functions=24),
    WarmUp(name="histograms of contours", run=lambda: dvh(_tiny_dose(), _tiny_contours(), device=CPU), functions=12),
    WarmUp(name="doses and contours in the image", run=_show_in_image, functions=2),
    WarmUp(name="points, and contours that change shape between planes", run=_points_and_shapes, functions=3),
)
