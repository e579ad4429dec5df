"""What to think of a result: is the energy balance closed, did light get lost, can the errors be known."""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from napari_gpubio.light.result import Estimate, LightResult

Status = Literal["ok", "warning", "error"]
CLOSED_WITHIN = 1e-6  # by how much the energy balance may miss 1
MOST_TRUNCATED = 0.01  # fraction of a launched photon
MOST_ROULETTE_Z = 4.0


class Finding(NamedTuple):
    """A judgment and the sentence that says it."""

    status: Status
    sentence: str


def findings(result: LightResult, *, running: bool = False) -> tuple[Finding, ...]:
    """What to think of a result, worst first; never empty.

    Parameters
    ----------
    result
        What a simulation gave.
    running
        Whether more photons are under way: what only they can tell is then no fault yet.
    """
    found = [*_energy_findings(result), *_other_findings(result, running=running)]
    if not found:
        found = [Finding("ok", f"Energy balance closed within {_rounded_up(result.energy.total - 1):.0e}.")]
    if not result.complete:
        how = "Running:" if running else "Stopped after"
        found.append(Finding("ok", f"{how} {result.launched:,} of {result.settings.photons:,} photons."))
    return tuple(sorted(found, key=lambda finding: ("error", "warning", "ok").index(finding.status)))


def _rounded_up(off: float) -> float:
    """A power of ten not below an amount."""
    return 10.0 ** math.ceil(math.log10(max(abs(off), 1e-15)))


def _energy_findings(result: LightResult) -> Iterator[Finding]:
    energy = result.energy
    if not abs(energy.total - 1) < CLOSED_WITHIN:
        yield Finding("error", f"Energy balance broken: the parts sum to {energy.total:.7g}, not 1. Do not use this.")
    if energy.truncated.value > MOST_TRUNCATED:
        end = result.settings.time_gates_ns[-1]
        yield Finding(
            "warning", f"{energy.truncated.value:.1%} of the light was still under way at {end:g} ns; add later gates."
        )
    if abs(z := roulette_z(energy.roulette)) > MOST_ROULETTE_Z:
        yield Finding("warning", f"Roulette is {z:.1f} standard errors from 0; run again with another seed.")


def _other_findings(result: LightResult, *, running: bool) -> Iterator[Finding]:
    if result.detected.dropped:
        yield Finding(
            "warning",
            f"{result.detected.dropped:,} detected photons were not listed; raise 'Most detected photons'.",
        )
    if not running and not math.isfinite(result.energy.absorbed.error):
        yield Finding("warning", "Too few batches for standard errors; run more photons.")


def roulette_z(part: Estimate) -> float:
    """Distance from 0 of what roulette took and gave, in standard errors; NaN if nothing was played for."""
    return part.value / part.error if part.error > 0 else math.nan
