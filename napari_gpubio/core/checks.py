"""Reference cases, speed cases and warm-ups: what `napari-gpubio check`, `bench` and `warm` run.

An engine's ``checks.py`` holds three tuples, ``CHECKS``, ``SPEEDS`` and ``WARMUPS``; the command line finds them by the
engine's name.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of a check: one compared quantity.

    Parameters
    ----------
    quantity
        What was compared, with its unit.
    reference, result
        The true and the computed value.
    error
        Their distance: a difference, or a z-score if the quantity says so.
    tolerance
        The largest error that passes.
    """

    quantity: str
    reference: float
    result: float
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance (not so for NaN)."""
        return bool(abs(self.error) <= self.tolerance)


def error_finding(quantity: str, error: float, tolerance: float) -> Finding:
    """Report an error that should be 0, for instance the largest one of many values."""
    return Finding(quantity=quantity, reference=0.0, result=error, error=error, tolerance=tolerance)


def difference_finding(
    quantity: str, reference: float, result: float, tolerance: float, *, relative: bool = False
) -> Finding:
    """Compare a result with a reference; the finding's error is their difference, or its share of the reference."""
    error = result / reference - 1.0 if relative else result - reference
    return Finding(quantity=quantity, reference=reference, result=result, error=error, tolerance=tolerance)


MAX_STANDARD_ERRORS = 4.0


def z_score_finding(
    quantity: str, reference: float, result: float, standard_error: float, reference_error: float = 0.0
) -> Finding:
    """Compare a result that has a statistical error with a reference; the finding's error is the z-score."""
    return Finding(
        quantity=f"{quantity} (error: z-score)",
        reference=reference,
        result=result,
        error=(result - reference) / math.hypot(standard_error, reference_error),
        tolerance=MAX_STANDARD_ERRORS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A published or closed-form case with a known answer.

    Parameters
    ----------
    name
        Short name.
    source
        Where the answer comes from.
    run
        Computes it on a device.
    """

    name: str
    source: str
    run: Callable[[Device], list[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A case whose speed is measured.

    Parameters
    ----------
    name
        Short name.
    unit
        What is counted, for instance ``"steps"``.
    prepare
        Makes, for a device, the function to time; that function returns how much it did.
    """

    name: str
    unit: str
    prepare: Callable[[Device], Callable[[], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """A call on tiny inputs that makes the CPU backend compile what a first use needs.

    Parameters
    ----------
    name
        What will be ready, as the user knows it.
    run
        Calls a public verb on the CPU.
    functions
        How many functions it compiles where the warm-ups before it, and those that it needs, have been run.
    needs
        Warm-ups of other engines that compile what it uses of them, for instance ``"diffusion/tensor fit"``.
    """

    name: str
    run: Callable[[], object]
    functions: int = 0
    needs: tuple[str, ...] = ()


def run_check(check: Check, device: Device) -> list[dict[str, Any]]:
    """Run a check; one row for each finding, as JSON can hold it."""
    return [
        {"case": check.name, "source": check.source, **dataclasses.asdict(finding), "passed": finding.passed}
        for finding in check.run(device)
    ]


def run_speed(speed: Speed, device: Device, repeats: int = 5) -> dict[str, Any]:
    """Time a speed case after one warm-up; the best of some repeats counts."""
    work = speed.prepare(device)
    work()
    seconds, amount = [], 0.0
    for _ in range(repeats):
        begun = time.perf_counter()
        amount = work()
        seconds.append(time.perf_counter() - begun)
    best = min(seconds)
    return {
        "case": speed.name,
        "device": device.describe(),
        "seconds": best,
        "spread": (max(seconds) - best) / best,
        "amount": amount,
        "unit": speed.unit,
        "per_second": amount / best,
    }
