"""Five solids in a linear dose, by which Nelms et al. 2015 (Med. Phys. 42:4435) judged planning systems.

Solids of 24 mm, 16 Gy in the middle, 1 Gy/mm along z (SI) or y (AP); contours and dose voxels 1, 2 or 3 mm apart. The
solid holds half a slice beyond its end planes where it has an area there. Made anew from the paper's description.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from napari_gpubio.dose import theory
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.phantom.shapes import ellipse, grid_affine, in_planes
from napari_gpubio.dose.structures.contours import ContourStructure

Array = npt.NDArray[np.float64]
Case = tuple[str, str, float]
RADIUS, HEIGHT, CENTER_GY = 12.0, 24.0, 16.0
SOLIDS = ("Sphere", "Cylinder", "RtCylinder", "Cone", "RtCone")  # Rt: the axis lies along AP
CASES: tuple[Case, ...] = tuple(
    (solid, gradient, spacing) for solid in SOLIDS for spacing in (1.0, 2.0, 3.0) for gradient in ("SI", "AP")
)
_TIP = 1e-3  # radius of what is drawn where a solid ends in a point or a line


def nelms_structure(solid: str, spacing: float) -> ContourStructure:
    """Contours of a solid, first and last plane at its ends."""
    positions = -HEIGHT / 2 + spacing * np.arange(round(HEIGHT / spacing) + 1)
    return in_planes(solid, [(z, _section(solid, float(z))) for z in positions])


def _section(solid: str, z: float) -> Array:
    half = max(float(np.sqrt(max(RADIUS**2 - z**2, 0.0))), _TIP)
    if solid == "RtCylinder":
        return np.array([[-half, -RADIUS], [half, -RADIUS], [half, RADIUS], [-half, RADIUS]])
    if solid == "RtCone":
        return _section_beside_the_axis(z)
    radius = {"Sphere": half, "Cylinder": RADIUS, "Cone": max(RADIUS * (z + HEIGHT / 2) / HEIGHT, _TIP)}[solid]
    return ellipse(radius, radius)


def _section_beside_the_axis(z: float) -> Array:
    """A hyperbola and the base: a cone along y."""
    if abs(z) >= RADIUS - 1e-9:
        return ellipse(_TIP, _TIP, 16, (0.0, RADIUS))
    y = 2 * abs(z) - RADIUS + (HEIGHT - 2 * abs(z)) * np.linspace(0, 1, 128) ** 2
    x = np.sqrt(np.maximum((RADIUS * (y + RADIUS) / HEIGHT) ** 2 - z**2, 0.0))
    return np.concatenate([np.column_stack([x, y]), np.column_stack([-x[::-1], y[::-1]])[:-1]])


def nelms_dose(gradient: str, spacing: float) -> Dose:
    """The dose, with a voxel center in the middle."""
    n = int(np.ceil(15 / spacing))
    axis = spacing * np.arange(-n, n + 1)
    along = axis if gradient == "SI" else axis[None, :, None]
    values = np.maximum(CENTER_GY + np.zeros((len(axis),) * 3) + along, 0.0)
    return Dose(values=values, affine=grid_affine(spacing, [axis[0]] * 3), unit="Gy", name=f"linear {gradient}")


def nelms_volume(case: Case, t: npt.ArrayLike) -> Array:
    """Volume (mm³) beyond the plane at t."""
    solid, gradient, spacing = case
    cap, along = spacing / 2, gradient == "SI"
    n = (0, 0, 1) if along else (0, 1, 0)
    if solid == "Sphere":
        return theory.ball(t, RADIUS)
    if solid == "Cylinder":
        return theory.disc(t, RADIUS, -HEIGHT / 2 - cap, HEIGHT / 2 + cap, n)
    if solid == "RtCylinder":
        return theory.disc(t, RADIUS, -HEIGHT / 2, HEIGHT / 2, (0, 1, 0) if along else (0, 0, 1))
    if solid == "Cone":
        base = theory.disc(t, RADIUS, HEIGHT / 2, HEIGHT / 2 + cap, n)
        return base + (theory.cone_along(t, RADIUS, HEIGHT) if along else theory.cone_across(t, RADIUS, HEIGHT))
    return theory.cone_across(t, RADIUS, HEIGHT) if along else theory.cone_along(t, RADIUS, HEIGHT)


def nelms_truth(case: Case) -> dict[str, float]:
    """Volume (cc) and doses (Gy); volume only along SI, since it is the same along AP."""
    reach = HEIGHT / 2 + (case[2] / 2 if case[1] == "SI" else 0.0)
    total = float(nelms_volume(case, -99.0))

    def dose_of(volume: float) -> float:
        return CENTER_GY + float(brentq(lambda t: float(nelms_volume(case, t)) - volume, -reach - 1e-9, reach + 1e-9))

    steps = np.linspace(-reach, reach, 20001)
    mean = CENTER_GY - reach + float(np.trapezoid(nelms_volume(case, steps), steps)) / total
    volume = {"volume_cc": total / 1000} if case[1] == "SI" else {}
    return {
        **volume,
        "Dmean": mean,
        **{f"D{x}": dose_of(total * x / 100) for x in (99, 95, 5, 1)},
        "D0.03cc": dose_of(30),
    }


def nelms_errors_percent(case: Case, found: Dvh) -> dict[str, float]:
    """Errors of a histogram in % of the truth; 195 of them in all cases."""
    values = {"volume_cc": found.volume_cc, "Dmean": found.mean, "D0.03cc": float(found.dose_at(0.03))}
    values |= {f"D{x}": float(found.dose_at_percent(x)) for x in (99, 95, 5, 1)}
    return {name: 100 * (values[name] / true - 1) for name, true in nelms_truth(case).items()}


def nelms_curve_errors_percent(case: Case, found: Dvh) -> Array:
    """Errors of 301 points of the curve, every 0.1 Gy, in % of the volume."""
    doses = 0.1 * np.arange(301)
    truth = nelms_volume(case, doses - CENTER_GY) / 1000
    return np.asarray(100 * (found.volume_at(doses) - truth) / (float(nelms_volume(case, -99.0)) / 1000))
