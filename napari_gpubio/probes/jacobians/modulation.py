"""Modulated light from light in time gates: gates that are fine enough, and what each of them is multiplied by."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

_FIRST_GATE_NS, _GATE_GROWTH = 0.002, 1.1


def modulation_gates_ns(frequency_mhz: float, end_ns: float = 5.0) -> tuple[float, ...]:
    """Edges of time gates in which the fluence gives that of modulated light, for `LightSettings.time_gates_ns`.

    The first is 2 ps wide, since light near its source changes so fast; each is 1.1 times as wide as the one before,
    until a fiftieth of a period.

    Parameters
    ----------
    frequency_mhz
        Modulation frequency, MHz.
    end_ns
        When the last gate ends at the earliest, ns.

    Raises
    ------
    InvalidInput
        If a number is not positive.
    """
    for value, what, unit in ((frequency_mhz, "modulation frequency", "MHz"), (end_ns, "end of the gates", "ns")):
        if not (np.isfinite(value) and value > 0):
            raise InvalidInput(f"the {what} is {value} {unit}; it must be greater than 0")
    edges, width = [0.0], _FIRST_GATE_NS
    while edges[-1] < end_ns:
        edges.append(edges[-1] + min(width, 20.0 / frequency_mhz))
        width *= _GATE_GROWTH
    return tuple(edges)


def modulation_weights(edges_ns: Sequence[float], frequency_mhz: float) -> npt.NDArray[np.complex128]:
    """What the fluence of each time gate is multiplied by and added up, to be the amplitude of modulated light.

    The integral of exp(-i omega t) over each gate, where the fluence rate is taken as linear with the slope between
    its neighbors; shape (G,). In the gates of `modulation_gates_ns` the phase is right to 1e-4 rad (root mean square
    over voxels); beside a source the rate changes within picoseconds, which even gates of T/50 miss by up to 0.03 rad.

    Raises
    ------
    InvalidInput
        If the frequency is not positive, or the gates are wider than a tenth of its period.
    """
    edges = np.asarray(edges_ns, np.float64)
    if not (np.isfinite(frequency_mhz) and frequency_mhz > 0):
        raise InvalidInput(f"the modulation frequency is {frequency_mhz} MHz; it must be greater than 0")
    omega = 2e-3 * np.pi * frequency_mhz  # rad/ns
    widths, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    if widths.max() * omega > 0.2 * np.pi:
        raise InvalidInput(
            f"the time gates are up to {widths.max():g} ns wide, a period at {frequency_mhz:g} MHz is "
            f"{1e3 / frequency_mhz:g} ns; take those of modulation_gates_ns"
        )
    half = omega * widths / 2
    even = np.exp(-1j * omega * middles) * np.sinc(half / np.pi)
    # of a slope: the integral of u exp(-i omega u) over the gate, u from its middle
    odd = np.exp(-1j * omega * middles) * 2j * (half * np.cos(half) - np.sin(half)) / omega**2
    weights = even.astype(np.complex128)
    for g in range(1, len(widths) - 1):
        apart = middles[g + 1] - middles[g - 1]
        weights[g + 1] += odd[g] / (apart * widths[g + 1])
        weights[g - 1] -= odd[g] / (apart * widths[g - 1])
    return weights
