"""What do multi-exposure fits know: errors and intervals of 30 combinations of β, ρ and τ, their bound, and speed.

Run from anywhere::

    python benchmarks/mesi.py
    python benchmarks/mesi.py --before CHECKOUT     # and the speed of an earlier version, in turn with this one

Noise is stated in both of the usual ways: 1 % of K², and 1 % of K, which is 2 % of K². The Cramér-Rao bound comes from
differences of the closed form, not from the fit: a fit without bias has a median error of at least 0.6745 times it.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, Array, Row, header, header_lines, line, result_path, save, table, written

from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.checks import EXPOSURES_MS
from napari_gpubio.speckle.mesi import FittedBeta, GivenBeta, MesiSettings, fit_mesi, squared_contrast

BETAS, RHOS, TAUS_MS = (0.1, 0.2, 0.3, 0.5, 0.8), (0.7, 0.9), (0.1, 0.5, 3.0)
TRUTHS = tuple(itertools.product(BETAS, RHOS, TAUS_MS))
PARTS = ("beta", "rho", "tau_ms")  # in the order of the truths
MEDIAN_TARGET, COVERAGE_TARGET = 0.015, (0.93, 0.97)
_GAUSSIAN_MEDIAN = 0.6744898  # of the absolute value, in standard deviations
_STEP = 1e-5  # relative, of the differences
_SPEED_PIXELS, _ROUNDS = 20_000, 5
SPEEDS = {
    "τ, ρ; β given": "beta=GivenBeta(static_k2=0.3), fit_noise=False",
    "τ, ρ, ν; β given": "beta=GivenBeta(static_k2=0.3), fit_noise=True",
}
DEFAULT = "τ, ρ, β (the default)"
_TIMING = """
import sys, time
import numpy as np
from napari_gpubio.speckle.mesi import GivenBeta, MesiSettings, fit_mesi
k, exposures = np.load(sys.argv[1])["k"], np.load(sys.argv[1])["exposures"]
settings = MesiSettings({})
fit_mesi(k[:, :64], exposures, settings)
begun = time.perf_counter()
fit_mesi(k, exposures, settings)
print(time.perf_counter() - begun)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Noise of K, relative, frames of each exposure, and whether β is known."""

    name: str
    noise: float
    repeats: int = 1
    knows_beta: bool = False


CASES = (
    Case(name="1 % of K²", noise=0.005),
    Case(name="1 % of K", noise=0.01),
    Case(name="1 % of K, β measured", noise=0.01, knows_beta=True),
    Case(name="1 % of K, 4 frames of each exposure", noise=0.01, repeats=4),
)


def bound(truth: tuple[float, ...], case: Case) -> Array:
    """Return the Cramér-Rao bound of the relative standard deviations of β, ρ, and τ; 0 of a β that is known."""

    def log_k(values: Array) -> Array:
        beta, rho, tau_ms = values
        return 0.5 * np.log(squared_contrast(EXPOSURES_MS, tau_ms, beta=beta, rho=rho))

    free, slopes = [1, 2] if case.knows_beta else [0, 1, 2], []
    for place in free:
        change = np.ones(len(PARTS))
        change[place] += _STEP
        slopes.append((log_k(truth * change) - log_k(truth / change)) / (2 * _STEP))
    jacobian, spread = np.stack(slopes, axis=1), np.zeros(len(PARTS))
    spread[free] = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    return case.noise / np.sqrt(case.repeats) * spread


def accuracy(case: Case, pixels: int) -> list[Row]:
    """Fit noisy pixels of every combination; a row for each parameter with the worst of the combinations."""
    rng = np.random.default_rng(18)
    errors, held, bounds = [], [], []
    for truth in TRUTHS:
        beta, rho, tau_ms = truth
        k2 = squared_contrast(EXPOSURES_MS, tau_ms, beta=beta, rho=rho)[:, None]
        draws = rng.standard_normal((case.repeats, len(k2), pixels)).mean(axis=0)
        settings = MesiSettings(beta=GivenBeta(static_k2=beta) if case.knows_beta else FittedBeta())
        found = fit_mesi(np.sqrt(k2 * (1 + 2 * case.noise * draws)), EXPOSURES_MS, settings)
        errors.append([getattr(found, part) / want - 1 for part, want in zip(PARTS, truth, strict=True)])
        limits = [found.interval(part) for part in PARTS]
        held.append([np.mean((low <= t) & (t <= high)) for (low, high), t in zip(limits, truth, strict=True)])
        bounds.append(bound(truth, case))
    medians, coverage, least = np.median(np.abs(errors), axis=-1), np.array(held), np.array(bounds)
    return [
        {
            "noise": case.name,
            "parameter": part,
            "worst_median": medians[:, n].max(),
            "middle_median": np.median(medians[:, n]),
            "worst_possible_median": _GAUSSIAN_MEDIAN * least[:, n].max(),
            "worst_scatter_over_bound": (np.std(errors, axis=-1)[:, n] / least[:, n]).max(),
            "least_coverage": coverage[:, n].min(),
            "most_coverage": coverage[:, n].max(),
        }
        for n, part in enumerate(PARTS)
        if n or not case.knows_beta
    ]


def speeds(before: Path | None) -> list[Row]:
    """Time fits of this version and of an earlier one in turn, each in its own process; the best of the rounds."""
    k2 = squared_contrast(EXPOSURES_MS, 0.5, beta=0.3, rho=0.9)[:, None]
    k = np.sqrt(k2 * (1 + 0.01 * np.random.default_rng(0).standard_normal((len(k2), _SPEED_PIXELS))))
    versions = {"before": before, "after": ROOT} if before else {"after": ROOT}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        np.savez(data := Path(folder) / "data.npz", k=k, exposures=EXPOSURES_MS)
        for name, settings in {**SPEEDS, DEFAULT: ""}.items():
            chosen = {"after": ROOT} if name == DEFAULT else versions
            seconds: dict[str, list[float]] = {version: [] for version in chosen}
            for _ in range(_ROUNDS):
                for version, checkout in chosen.items():
                    seconds[version].append(_timed(checkout, settings, data))
            rows += [
                {"fitted": name, "version": version, "pixels_per_second": _SPEED_PIXELS / min(times)}
                for version, times in seconds.items()
            ]
    return rows


def _timed(checkout: Path, settings: str, data: Path) -> float:
    command = [sys.executable, "-c", _TIMING.format(settings), str(data)]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def lines_of(rows: list[Row], speed: list[Row], pixels: int) -> list[str]:
    """Return the tables."""

    def percent(number: float) -> str:
        return f"{100 * number:.2f}"

    cells = [
        line(
            one["noise"], one["parameter"], percent(one["worst_median"]), percent(one["middle_median"]),
            percent(one["worst_possible_median"]), f"{one['worst_scatter_over_bound']:.3f}",
            f"{percent(one['least_coverage'])}..{percent(one['most_coverage'])}",
        )
        for one in rows
    ]  # fmt: skip
    columns = [
        "noise",
        "parameter",
        "median error, worst",
        "of 30, middle",
        "bound, worst",
        "scatter / bound",
        "coverage",
    ]
    combinations = (
        f"{len(TRUTHS)} combinations: β {', '.join(map(str, BETAS))}; ρ {', '.join(map(str, RHOS))}; τ "
        f"{', '.join(map(str, TAUS_MS))} ms; {len(EXPOSURES_MS)} exposures from {EXPOSURES_MS.min():g} to "
        f"{EXPOSURES_MS.max():g} ms; {pixels} pixels each; β is fitted unless it is said to be measured. All in %. "
        f"Target: median error of each combination at most {100 * MEDIAN_TARGET:g}, coverage from "
        f"{100 * COVERAGE_TARGET[0]:g} to {100 * COVERAGE_TARGET[1]:g}. The bound is the least median error of a fit "
        "without bias (Cramér and Rao)."
    )
    timing = (
        f"{_SPEED_PIXELS} pixels of {len(EXPOSURES_MS)} exposures, best of {_ROUNDS} processes in turn, pixels/s. "
        "After: with standard errors; where β is given, with the test of it."
    )
    fits = [line(one["fitted"], one["version"], f"{one['pixels_per_second']:,.0f}") for one in speed]
    return [
        "## Errors and 95 % intervals", "", combinations, "", *table(columns, cells), "",
        "## Speed", "", timing, "", *table(["fitted", "version", "pixels/s"], fits),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=4000, help="pixels of each combination")
    parser.add_argument("--before", type=Path, help="checkout of an earlier version")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    arguments = parser.parse_args()
    head: dict[str, Any] = header(quick=False)
    rows = [each for case in CASES for each in accuracy(case, arguments.pixels)]
    speed = speeds(arguments.before)
    title = ["# Multi-exposure fits", "", *header_lines(head), ""]
    text = "\n".join([*title, *lines_of(rows, speed, arguments.pixels)])
    print(text)
    path = result_path(arguments.json, "mesi", time.strftime("%Y-%m-%d"), CPU)
    save(path, head | {"accuracy": rows, "speed": speed}, text + "\n")
    print(written(path))


if __name__ == "__main__":
    main()
