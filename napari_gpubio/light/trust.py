"""How far to trust a light result: the energy balance, light that is lost, and what errors leave out."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from napari_gpubio.core.numbers import short_number
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.result import LightResult, exposed_area_mm2
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.numbers import CLOSED_WITHIN, Finding, balance_findings, worst_first
from napari_gpubio.optics.scattering_tensors import FREE, NOT_RECIPROCAL
from napari_gpubio.optics.sources import AllRound, Source
from napari_gpubio.optics.surface import clearance_mm, depth_inside_mm, share_inside

_ROUNDING_SD = 3.0  # standard deviations of that, which are upper bounds: two to seven times what is seen
_MAX_EFOLDS = 22.0  # a packet that has lost more of its weight books less than a quantum
MAX_TRUNCATED = 0.01  # fraction of a launched photon
MAX_SPECULAR = 0.1  # of the light
MAX_MISSED = 0.02  # of a source that emits in all directions
MAX_CUT = 0.02  # part of a source behind the surface
MAX_DIP = (
    1.5  # voxels that its deepest part lies below: a source that is not tilted lies below the steps of voxels in places
)


class CavityLight(NamedTuple):
    """What is lost in cavities: voxels of label 0 that tissue encloses.

    Parameters
    ----------
    volume_mm3
        Volume of the cavities.
    share
        Part of the escaping light that escapes into them. Without a map of escaping light it is estimated: from a voxel
        as much escapes as its fluence times the area of its faces to label 0.
    """

    volume_mm3: float
    share: float


def cavity_light(result: LightResult) -> CavityLight:
    """How large the cavities in the tissue are, and how much of the escaping light they take."""
    cavities = result.domain.cavities
    if not cavities.any():
        return CavityLight(0.0, 0.0)
    area = exposed_area_mm2(result.domain)
    escaped = result.fluence * area if result.escaped_weight is None else result.escaped_weight
    part = np.divide(exposed_area_mm2(result.domain, cavities), area, out=np.zeros_like(area), where=area > 0)
    whole = escaped.sum(dtype=np.float64)
    lost = (escaped * part).sum(dtype=np.float64)
    volume = np.count_nonzero(cavities) * result.domain.voxel_volume_mm3
    return CavityLight(volume, float(lost / whole) if whole > 0 else 0.0)


def findings(result: LightResult, *, running: bool = False) -> tuple[Finding, ...]:
    """What to think of a result, worst first; never empty.

    Parameters
    ----------
    result
        What a simulation gave.
    running
        Whether more photons are being traced: what only they can improve is then no fault yet.
    """
    energy = result.energy
    found = [*balance_findings(energy.total, energy.roulette, closed_within(result))]
    if energy.truncated.value > MAX_TRUNCATED:
        end = result.settings.time_gates_ns[-1]
        message = f"{energy.truncated.value:.1%} of the light was still traveling at {end:g} ns; add later gates."
        found.append(Finding("warning", message))
    if all(isinstance(one, AllRound) for one in result.sources) and energy.missed.value > MAX_MISSED:
        message = f"{energy.missed.value:.1%} of the light missed the tissue: its source lies outside. Move it inside."
        found.append(Finding("warning", message))
    if energy.specular.value > MAX_SPECULAR:
        found.append(_specular_finding(result))
    if result.detected.dropped:
        message = f"{result.detected.dropped:,} detected photons were not listed; raise 'Most detected photons'."
        found.append(Finding("warning", message))
    if (cavity := cavity_light(result)).volume_mm3 > 0:
        message = (
            f"Tissue encloses {short_number(cavity.volume_mm3, 3)} mm³ of label 0, where about {cavity.share:.1%} of "
            "the escaping light goes and is lost. If light should cross it as air, give it a label of its own, with "
            "µa = µs = 0 and n = 1."
        )
        found.append(Finding("warning", message))
    found += [*start_findings(result), *direction_findings(result)]
    if not running and not math.isfinite(energy.absorbed.error):
        found.append(Finding("warning", "Too few batches for standard errors; run more photons."))
    return worst_first(found, result, energy.total, running=running)


def _specular_finding(result: LightResult) -> Finding:
    domain = result.domain
    ns = domain.property_volume("n")[domain.labels != OUTSIDE]
    normally = max(((n - domain.outside_n) / (n + domain.outside_n)) ** 2 for n in (ns.min(), ns.max()))
    return Finding(
        "warning",
        f"{result.energy.specular.value:.1%} of the light is reflected where it enters; at normal incidence it is at "
        f"most {normally:.1%}. Turn the source along the inward normal; if it is to be oblique, entry='smooth' keeps "
        "light from the steps of the voxels.",
    )


def start_findings(result: LightResult) -> Iterator[Finding]:
    """What to know about sources that the surface of the tissue cuts."""
    for number, source in enumerate(result.sources, 1):
        name = "the source" if len(result.sources) == 1 else f"source {number}"
        yield from _cut_findings(result.domain, source, name)


def _cut_findings(domain: Domain, source: Source, name: str) -> Iterator[Finding]:
    inside = share_inside(domain.labels, domain.affine, source)
    if not MAX_CUT < inside < 1.0 - MAX_CUT:
        return
    depth = depth_inside_mm(domain.labels, domain.affine, source)
    if depth <= MAX_DIP * domain.voxel_sizes_mm.max():
        return
    back = short_number(max(depth, clearance_mm(domain.labels, domain.affine, source)), 3)
    yield Finding(
        "warning",
        f"About {inside:.0%} of {name} lies behind the surface: that light starts in the tissue, without specular "
        f"reflection and with a shorter way. Move the source back by {back} mm, or push all of it in.",
    )


def direction_findings(result: LightResult) -> Iterator[Finding]:
    """What to know about scattering that depends on direction."""
    domain = result.domain
    if not domain.is_anisotropic:
        return
    if domain.scattering_model == FREE:
        yield Finding(
            "warning", f"{NOT_RECIPROCAL[0].upper()}{NOT_RECIPROCAL[1:]}. Choose 'product' unless you compare."
        )
    if result.half_fluences is not None:
        yield Finding("ok", "There is no guide for the denoiser, whose theory is for isotropic scattering.")


def closed_within(result: LightResult) -> float:
    """By how much the energy balance may miss 1: a millionth, and the rounding of what was booked.

    Light in a voxel is booked as weight times path, in quanta, rounded up or down by chance; mu_a times it is what the
    voxel absorbed. A packet books when it leaves a voxel (after a mean chord of 2/3 of its edge), when a time gate ends
    or when it has gone two absorption lengths, until it has no weight; so its rounding varies at most by
    (mu_a q / 2)^2 times the number of its bookings, and the sum over N packets, per packet, by a part in N of that.
    """
    domain = result.domain
    volume = domain.mua_per_mm
    mua = max(domain.medium(label).mua_per_mm for label in domain.labels_present) if volume is None else volume.max()
    if not mua > 0:
        return CLOSED_WITHIN
    shared = result.parameters.get("photon_sharing")
    heaviest = shared.get("heaviest") if isinstance(shared, dict) else None  # start of a photon, of patterns
    heaviest = heaviest if isinstance(heaviest, float) and 1 < heaviest < math.inf else 1.0
    scale = VoxelProblem(domain, result.sources[0], result.settings, heaviest=heaviest).scale
    bookings = _MAX_EFOLDS * (0.5 + 1.5 / (mua * domain.voxel_sizes_mm.min())) + result.settings.gate_count
    sd = mua / (2.0 * scale) * math.sqrt(bookings / max(1, result.launched))
    return float(CLOSED_WITHIN + _ROUNDING_SD * sd)
