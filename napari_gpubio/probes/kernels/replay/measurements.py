"""What is measured of the detected photons, and the factor by which each of them takes part in its derivative.

A measurement is a function of sums over detected photons, so its derivative by a coefficient is a sum over them of a
factor times the score of the photon's way (see `kernels.voxels.record`): with weight w and time of flight t ::

    ln sum w                  w / sum w
    T = sum w t / sum w       w (t - T) / sum w
    ln |S|, arg S             real and imaginary part of  w exp(-i omega t) / S,    S = sum w exp(-i omega t)

A time gate restricts the sums to photons that arrive in it. Factors are known before a photon is traced again.

Groups of photons are independent, so how far each group b moves an estimate gives its standard error (delta method).
With x_b the group's part of a derivative q, and q' the derivative of a partner that the sums have in common, it moves q
by ``x_b - q s_b - q' s'_b``; the shares s and s' are sums over the group of its photons' factors.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.detectors import DetectedPhotons

GROUPS = 16
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement(ShortRepr):
    """One measurement at every detector.

    Parameters
    ----------
    measure, gate_ns, frequency_mhz
        See `napari_gpubio.probes.jacobians.model.Jacobian`.
    partner
        Number of the measurement whose derivative moves this one's, too; its own number if there is none.
    factors
        Of each photon of the list, shape (N,).
    shares
        Of each group, its own and that for the partner's derivative, shape (D, 2, GROUPS).
    measured, measured_error
        Shape (D,); NaN where nothing was detected.
    """

    measure: str
    partner: int
    factors: Doubles
    shares: Doubles
    measured: Doubles
    measured_error: Doubles
    gate_ns: tuple[float, float] | None = None
    frequency_mhz: float | None = None


class Arrivals:
    """Detected photons of some detectors, in the order of detectors, groups and photons.

    Parameters
    ----------
    photons
        Those of the chosen detectors.
    detectors
        Their indices, in the order in which they are wanted.
    launched
        Photons that were launched to have these.
    """

    def __init__(self, photons: DetectedPhotons, detectors: Sequence[int], launched: int) -> None:
        place = np.full(max([*detectors, int(photons.detector.max(initial=0))]) + 1, len(detectors))
        place[list(detectors)] = np.arange(len(detectors))
        where, group = place[photons.detector], (photons.photon % np.uint64(GROUPS)).astype(np.int64)
        order = np.lexsort((photons.photon, group, where))
        self.order = order[where[order] < len(detectors)]
        self.photon = photons.photon[self.order]
        self.group = group[self.order]
        self.weight = photons.weight[self.order].astype(np.float64)
        self.time_ns = photons.time_ns[self.order]
        self.path_mm = photons.path_mm[self.order].sum(axis=1, dtype=np.float64)
        self.scatterings = photons.scatterings[self.order]
        self.launched = launched
        self.starts = np.searchsorted(where[self.order], np.arange(len(detectors) + 1))

    def __len__(self) -> int:
        return len(self.photon)

    def of(self, detector: int) -> slice:
        """Lines of one detector."""
        return slice(int(self.starts[detector]), int(self.starts[detector + 1]))

    @property
    def detectors(self) -> int:
        """Number of detectors."""
        return len(self.starts) - 1


def measurements(
    arrivals: Arrivals,
    *,
    mean_time: bool = False,
    gates_ns: Sequence[float] = (),
    frequency_mhz: float | None = None,
) -> tuple[Measurement, ...]:
    """Return what is measured: the intensity, then what is requested.

    Parameters
    ----------
    arrivals
        The photons.
    mean_time
        Whether the mean time of flight is one of them.
    gates_ns
        Edges of time gates, for the intensity in each.
    frequency_mhz
        Modulation frequency, for amplitude and phase.
    """
    found = [_intensity(arrivals, 0, None)]
    if mean_time:
        found.append(_mean_time(arrivals))
    for gate in itertools.pairwise(gates_ns):
        found.append(_intensity(arrivals, len(found), gate))
    if frequency_mhz is not None:
        found += _modulated(arrivals, len(found), frequency_mhz)
    return tuple(found)


class _Sums:
    """Room for what a measurement has at each detector, and sums of one detector by group."""

    def __init__(self, arrivals: Arrivals) -> None:
        count = arrivals.detectors
        self.factors = np.zeros(len(arrivals))
        self.shares = np.zeros((count, 2, GROUPS))
        self.measured, self.error = np.full(count, np.nan), np.full(count, np.nan)


def _by_group(group: npt.NDArray[np.int64], values: Doubles) -> Doubles:
    return np.bincount(group, values, minlength=GROUPS).astype(np.float64)


def _spread(deviations: Doubles) -> float:
    """Standard error of a sum, from how far each group has moved it."""
    return float(np.sqrt(np.square(deviations).sum() * (GROUPS / (GROUPS - 1.0))))


def _intensity(arrivals: Arrivals, own: int, gate: tuple[float, float] | None) -> Measurement:
    sums = _Sums(arrivals)
    for d in range(arrivals.detectors):
        lines = arrivals.of(d)
        weight, time = arrivals.weight[lines], arrivals.time_ns[lines]
        if gate is not None:
            weight = np.where((time >= gate[0]) & (time < gate[1]), weight, 0.0)
        whole, groups = weight.sum(), _by_group(arrivals.group[lines], weight)
        sums.measured[d] = whole / arrivals.launched
        sums.error[d] = _spread(groups - whole / GROUPS) / arrivals.launched
        if whole > 0:
            sums.factors[lines] = weight / whole
            sums.shares[d, 0] = groups / whole
        else:
            sums.shares[d] = np.nan
    return _made("ln_intensity", own, sums, gate_ns=gate)


def _mean_time(arrivals: Arrivals) -> Measurement:
    sums = _Sums(arrivals)
    for d in range(arrivals.detectors):
        lines = arrivals.of(d)
        weight, group = arrivals.weight[lines] / arrivals.weight[lines].sum(), arrivals.group[lines]
        mean = float(weight @ arrivals.time_ns[lines])
        sums.factors[lines] = weight * (arrivals.time_ns[lines] - mean)
        sums.shares[d] = _by_group(group, weight), _by_group(group, sums.factors[lines])
        sums.measured[d], sums.error[d] = mean, _spread(sums.shares[d, 1])
    return _made("mean_time", 0, sums)


def _modulated(arrivals: Arrivals, own: int, frequency_mhz: float) -> list[Measurement]:
    """Amplitude and phase of S; each is the other's partner."""
    amplitude, phase = _Sums(arrivals), _Sums(arrivals)
    for d in range(arrivals.detectors):
        lines = arrivals.of(d)
        angle = 2e-3 * math.pi * frequency_mhz * arrivals.time_ns[lines]
        signal = arrivals.weight[lines] * np.exp(-1j * angle)
        whole, group = signal.sum(), arrivals.group[lines]
        ratio = signal / whole
        amplitude.factors[lines], phase.factors[lines] = ratio.real, ratio.imag
        along, across = _by_group(group, ratio.real), _by_group(group, ratio.imag)
        amplitude.shares[d], phase.shares[d] = (along, -across), (along, across)
        size = abs(whole) / arrivals.launched
        amplitude.measured[d], amplitude.error[d] = size, size * _spread(along - 1.0 / GROUPS)
        phase.measured[d], phase.error[d] = float(np.angle(whole)), _spread(across)
    return [
        _made("ln_amplitude", own + 1, amplitude, frequency_mhz=frequency_mhz),
        _made("phase", own, phase, frequency_mhz=frequency_mhz),
    ]


def _made(
    measure: str,
    partner: int,
    sums: _Sums,
    *,
    gate_ns: tuple[float, float] | None = None,
    frequency_mhz: float | None = None,
) -> Measurement:
    return Measurement(
        measure=measure,
        partner=partner,
        factors=sums.factors,
        shares=sums.shares,
        measured=sums.measured,
        measured_error=sums.error,
        gate_ns=gate_ns,
        frequency_mhz=frequency_mhz,
    )
