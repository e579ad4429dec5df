"""Jacobians of one source and detector from two forward runs: continuous, time-gated and modulated light.

One run has the light source, the other a source in the detector's place. In the adjoint (diffusion) approximation ::

    d ln I / d mu_a(r)   = - Phi_s Phi_d V / (n^2 N)
    d ln I / d mu_s'(r)  = 3 F_s . F_d V / (n^2 N),    F = - D grad Phi

with the fluences Phi and fluxes F of both runs, the volume V of a voxel, its refractive index n, and N, what the
detector detects of the source in units of its own source, which `napari_gpubio.light.reciprocity` finds from
the same fluences (Arridge 1999, Inverse Problems 15:R41). The second is J_D = - V grad Phi_s . grad Phi_d / N times
-3 D^2, the derivative of D = 1 / (3 (mu_a + mu_s')); in the first D is held.

Of modulated light the fluences are complex, the integrals of the pulsed ones times exp(-i omega t), and so is
the Jacobian: its real part is that of the logarithm of the amplitude, its imaginary part that of the phase, which is
more negative the later light arrives. Of pulsed light the gates of both runs are convolved: light that
takes a time of gate g1 from the source to a voxel and one of gate g2 from there to the detector arrives in the gates
g1 + g2 and g1 + g2 + 1, half of it in each, because both times are anywhere in their gates. Edges of gates must
therefore be 0, t, 2 t, and so on.

The approximation takes the light as diffuse everywhere: within a few transport mean free paths of source and detector,
and in clear layers such as CSF, a Jacobian is only indicative.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import position_text
from napari_gpubio.light.guide import conductances
from napari_gpubio.light.reciprocity import Shell, check_same, detected, optode_place, shell_error, shells_between
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.kernels.diffusion.solver import along
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Source, Vector
from napari_gpubio.probes.jacobians.model import Channel, Jacobian, Jacobians, error_of_groups
from napari_gpubio.probes.jacobians.modulation import modulation_weights

Array = npt.NDArray[Any]
Runs = LightResult | Sequence[LightResult]
COEFFICIENTS = ("mua", "musp")
_OF_LIGHT = ("refraction", "specular", "faces")  # settings that both runs must have
_EVEN = 1e-4  # relative differences of the widths of gates that count as none
NOTE = (
    "Adjoint Jacobians take light as diffuse: within three transport mean free paths of source and detector, and in "
    "clear tissue such as CSF, they are indicative only."
)


def adjoint_jacobians(
    source_runs: Runs,
    detector_runs: Runs,
    *,
    coefficients: Sequence[str] = ("mua",),
    gates: bool = False,
    frequency_mhz: float | None = None,
    names: tuple[str, str] = ("S1", "D1"),
) -> Jacobians:
    """Jacobians of one source and detector; see the head of this file.

    Parameters
    ----------
    source_runs
        Results of the light source: one, or several with different seeds and as many photons. Their spread gives the
        errors; without it, those of labels are not known, and those of voxels for continuous light and mu_a only.
    detector_runs
        Results in the same tissue of a source where the detector is, one or several, with other seeds.
    coefficients
        ``mua`` and ``musp``.
    gates
        Also for each time gate of the runs, whose edges are 0, t, 2 t, ...
    frequency_mhz
        Also for light that is modulated with this frequency. Its fluences come from the gates of the runs, by
        `modulation_weights`; simulate both runs in the gates of `modulation_gates_ns`.
    names
        Of source and detector.

    Returns
    -------
    Jacobians
        Of one channel. ``measured`` is N, the fluence at the detector over n^2, per launched photon of both runs,
        1/mm^2; of a phase, the phase, rad.

    Raises
    ------
    InvalidInput
        If the runs differ in tissue or gates, share their photons, an optode meets no tissue or a clear one, no light
        of the source reaches the detector, or the gates are not even.
    """
    pair = _Pair.of(_runs(source_runs), _runs(detector_runs))
    if unknown := [name for name in coefficients if name not in COEFFICIENTS]:
        raise InvalidInput(f"coefficient {unknown[0]!r} is not known to the adjoint; choose among {COEFFICIENTS}")
    if "musp" in coefficients and pair.run.domain.is_anisotropic:
        raise InvalidInput(
            "a derivative by mu_s' is not known where scattering depends on direction; leave 'musp' out, or take the "
            "tensors out of the tissue"
        )
    views = [_continuous()]
    if gates:
        views.append(_gated(pair))
    if frequency_mhz is not None:
        views.append(_modulated(pair, frequency_mhz))
    parts = [part for view in views for name in coefficients for part in _parts(pair, view, name)]
    source_mm, detector_mm = map(_vector, pair.places)
    channel = Channel(source=names[0], detector=names[1], source_mm=source_mm, detector_mm=detector_mm)
    return Jacobians(
        domain=pair.run.domain,
        channels=(channel,),
        parts=tuple(parts),
        method="adjoint",
        complete=all(run.complete for runs in pair.sides for run in runs),
        parameters={
            "software": f"napari-gpubio {__version__}",
            "photons": [sum(run.launched for run in runs) for runs in pair.sides],
            "groups": [len(runs) for runs in pair.sides],
        },
        notes=(NOTE,),
    )


# -- both runs --------------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """Both kinds of runs, where their optodes are, and shells around each of them."""

    sides: tuple[tuple[LightResult, ...], tuple[LightResult, ...]]  # of the source, and of the detector
    places: tuple[Array, Array]
    shells: tuple[Shell, Shell]

    @classmethod
    def of(cls, sources: tuple[LightResult, ...], detectors: tuple[LightResult, ...]) -> "_Pair":
        _check(sources, detectors)
        places = optode_place(sources[0]), optode_place(detectors[0])
        return cls((sources, detectors), places, shells_between(sources[0], detectors[0]))

    @property
    def run(self) -> LightResult:
        """One of the runs, for what they have in common."""
        return self.sides[0][0]

    @property
    def has_groups(self) -> bool:
        """Whether errors come from the spread of independent groups of photons."""
        return min(map(len, self.sides)) > 1


def _runs(given: Runs) -> tuple[LightResult, ...]:
    runs = (given,) if isinstance(given, LightResult) else tuple(given)
    if not runs:
        raise InvalidInput("there are no runs; give the results of simulations of source and detector")
    return runs


def _check(sources: Sequence[LightResult], detectors: Sequence[LightResult]) -> None:
    first, seeds = sources[0], []
    for runs, what in ((sources, "source"), (detectors, "detector")):
        for run in runs:
            check_same(first.domain, run.domain)
            if run.settings.time_gates_ns != first.settings.time_gates_ns:
                raise InvalidInput("the runs have different time gates; simulate all of them with the same")
            if wrong := [name for name in _OF_LIGHT if getattr(run.settings, name) != getattr(first.settings, name)]:
                raise InvalidInput(
                    f"the runs have different settings of {wrong[0]}; simulate all of them with the same"
                )
            if _optode(run) != _optode(runs[0]) or run.launched != runs[0].launched:
                raise InvalidInput(f"the runs of the {what} differ in more than their seed; simulate them alike")
        seeds += [run.settings.seed for run in runs]
    if len(set(seeds)) < len(seeds):
        raise InvalidInput(
            f"two of the runs have the seed {max(seeds, key=seeds.count)}, so that their errors are not independent; "
            "give each its own"
        )


def _optode(run: LightResult) -> Source:
    return run.single_source("an adjoint Jacobian")


# -- what is measured -------------------------------------------------------------------------------------------------


class _View(NamedTuple):
    """One way of measuring: what a run's gates become, and what the light of both runs gives together."""

    filtered: Callable[[Array], Array]  # gates, shape (X, Y, Z, G), to shape (X, Y, Z, K)
    product: Callable[[Array, Array], Array]  # of two of those, shape (..., K)
    measures: Callable[[Array, Any], Iterator[tuple[str, Array, float]]]  # derivative of ln N, and N, to measures
    gates_ns: tuple[tuple[float, float] | None, ...]
    frequency_mhz: float | None = None


def _plain(values: Array, measured: Any) -> Iterator[tuple[str, Array, float]]:
    yield "ln_intensity", values, float(measured)


def _continuous() -> _View:
    return _View(lambda gates: gates.sum(axis=3, keepdims=True, dtype=np.float64), np.multiply, _plain, (None,))


def _modulated(pair: _Pair, frequency_mhz: float) -> _View:
    weights = modulation_weights(pair.run.settings.time_gates_ns, frequency_mhz)

    def measures(values: Array, measured: Any) -> Iterator[tuple[str, Array, float]]:
        yield "ln_amplitude", values.real, float(np.abs(measured))
        yield "phase", values.imag, float(np.angle(measured))

    return _View(lambda gates: gates @ weights[:, None], np.multiply, measures, (None,), frequency_mhz)


def _gated(pair: _Pair) -> _View:
    edges = np.asarray(pair.run.settings.time_gates_ns)
    widths = np.diff(edges)
    if len(widths) < 2 or edges[0] != 0 or np.abs(widths - widths[0]).max() > _EVEN * widths[0]:
        raise InvalidInput(
            f"the time gates are {[f'{edge:g}' for edge in edges[:5]]} ... ns; the gates of two runs are convolved, so "
            "they must begin at 0 and be equally wide, two at least"
        )
    spans = tuple((float(a), float(b)) for a, b in pairwise(edges))
    return _View(lambda gates: gates.astype(np.float64), convolved, _plain, spans)


def convolved(a: Array, b: Array) -> Array:
    """Light that takes a time of a gate of ``a`` and then one of ``b``, by the gate in which it arrives.

    Parameters
    ----------
    a, b
        By equally wide gates from 0 on, shape (..., G), as the result.
    """
    count, found = a.shape[-1], np.zeros(a.shape)
    for first in range(count):
        part = a[..., first : first + 1] * b[..., : count - first] / 2
        found[..., first:] += part
        found[..., first + 1 :] += part[..., :-1]
    return found


# -- derivatives ------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A derivative in each voxel, shape (X, Y, Z), its sums over labels, and what is measured."""

    measure: str
    gate_ns: tuple[float, float] | None
    values: Array
    sums: Array
    measured: float


class _Diffusion(NamedTuple):
    """Squares of the refractive index, and conductances of faces along the axes; see `guide.conductances`."""

    squares: Array
    faces: tuple[Array, Array, Array]


def _parts(pair: _Pair, view: _View, coefficient: str) -> Iterator[Jacobian]:
    """Parts of a result for one way of measuring and one coefficient."""
    diffusion = _Diffusion(*conductances(pair.run.domain, pair.run.settings))
    sides = [[view.filtered(run.gates) for run in runs] for runs in pair.sides]
    means = [np.mean(side, axis=0) for side in sides]
    whole = _rows(pair, view, coefficient, diffusion, means)
    if not any(row.measured > 0 for row in whole if row.measure != "phase"):
        raise InvalidInput(
            f"no light of the source reached the detector at {position_text(pair.places[1])}; simulate more photons"
        )
    spreads = [_Spread() for _ in whole]
    for side, runs in enumerate(sides if pair.has_groups else ()):
        for values in runs:
            others = list(means)
            others[side] = (len(runs) * means[side] - values) / (len(runs) - 1)
            left = _rows(pair, view, coefficient, diffusion, others)
            for spread, row, without in zip(spreads, whole, left, strict=True):
                spread.add(row, without, len(runs))
    for spread, row in zip(spreads, whole, strict=True):
        deviations = spread.deviations()
        errors = spread.squares
        yield Jacobian(
            measure=row.measure,
            coefficient=coefficient,
            values=row.values[None].astype(np.float32),
            errors=(_without_groups(pair, coefficient, row) if deviations is None else np.sqrt(errors))[None],
            measured=np.array([row.measured]),
            measured_error=np.array([np.nan if deviations is None else np.sqrt(spread.variance)]),
            label_sums=row.sums[None],
            label_errors=np.full((1, len(row.sums)), np.nan) if deviations is None else error_of_groups(deviations),
            label_deviations=deviations,
            gate_ns=row.gate_ns,
            frequency_mhz=view.frequency_mhz,
        )


def _rows(
    pair: _Pair, view: _View, coefficient: str, diffusion: _Diffusion, fluences: Sequence[Array]
) -> tuple[_Row, ...]:
    """Derivatives from two fluences, shape (X, Y, Z, K) each."""
    source, detector = fluences
    measured = detected(source, detector, pair.shells, view.product)
    if coefficient == "mua":
        together = -view.product(source, detector)
    else:
        together = 3.0 * _flux_product(pair.run.domain, diffusion, fluences, view.product)
    domain = pair.run.domain
    # of a gate that no light has reached, nothing is known; noise can make it negative
    is_known = np.abs(measured) > 0 if np.iscomplexobj(measured) else measured > 0
    scale = np.divide(domain.voxel_volume_mm3, measured, out=np.full_like(measured, np.nan), where=is_known)
    rows = []
    for k, gate in enumerate(view.gates_ns):
        for measure, values, number in view.measures(together[..., k] / diffusion.squares * scale[k], measured[k]):
            sums = np.bincount(domain.ranks.ravel(), values.ravel(), minlength=len(domain.labels_present) + 1)[1:]
            rows.append(_Row(measure, gate, values, sums, number))
    return tuple(rows)


def _flux_product(
    domain: Domain, diffusion: _Diffusion, fluences: Sequence[Array], product: Callable[[Array, Array], Array]
) -> Array:
    """F_s . F_d of each voxel, the mean over its faces to tissue along each axis, shape (X, Y, Z, K)."""
    areas = domain.voxel_volume_mm3 / domain.voxel_sizes_mm
    source, detector = (values / diffusion.squares[..., None] for values in fluences)
    found = np.zeros_like(product(source, detector))
    for axis, conductance in enumerate(diffusion.faces):
        low, high = along(axis, slice(-1)), along(axis, slice(1, None))
        per_area = conductance[low][..., None] / areas[axis]
        crossing = product(*((values[low] - values[high]) * per_area for values in (source, detector)))
        total, count = np.zeros_like(found), np.zeros((*domain.shape, 1))
        for side in (low, high):
            total[side] += crossing
            count[side] += conductance[low][..., None] > 0
        found += total / np.maximum(count, 1)
    return found


class _Spread:
    """Variance of a row, by leaving out one group of photons after another (jackknife)."""

    def __init__(self) -> None:
        self.squares: Any = 0.0  # of voxels
        self.variance = 0.0  # of what is measured
        self._rows: list[Array] = []

    def add(self, whole: _Row, without: _Row, groups: int) -> None:
        """Add a row, and the same row without one of so many groups of a side."""
        share = (groups - 1) / groups
        moved = without.measured - whole.measured
        if whole.measure == "phase":  # the nearest of angles that are the same
            moved = math.remainder(moved, 2.0 * math.pi)
        self.squares = self.squares + share * np.square(without.values - whole.values, dtype=np.float32)
        self.variance += share * moved**2
        self._rows.append(np.sqrt(share) * (whole.sums - without.sums))

    def deviations(self) -> Array | None:
        """Rows of labels for `jacobian.error_of_groups`, shape (1, groups of both sides, labels)."""
        count = len(self._rows)
        return np.array(self._rows)[None] * np.sqrt((count - 1) / count) if count else None


def _without_groups(pair: _Pair, coefficient: str, row: _Row) -> Array:
    """Errors of voxels by those of single runs, taken as independent; NaN where they say nothing."""
    if coefficient != "mua" or row.measure != "ln_intensity" or row.gate_ns is not None:
        return np.full(row.values.shape, np.nan, np.float32)
    runs = pair.sides[0][0], pair.sides[1][0]
    with np.errstate(invalid="ignore"):
        relative = np.hypot(np.hypot(*(run.relative_error for run in runs)), shell_error(*runs, pair.shells))
        return np.asarray(np.abs(row.values) * relative, np.float32)


def _vector(values: Array) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z
