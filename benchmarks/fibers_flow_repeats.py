"""How often the intervals of the flow's bootstrap hold what there is without noise: numbers and ranks, six bundles.

The phantom of ``fibers_flow.py`` with noise of several seeds; the truth is the flow along the FODs of the same phantom
without noise, so what directions cannot tell counts as truth::

    python benchmarks/fibers_flow_repeats.py [--device cpu] [--seeds 8] [--repeats 30]
"""

import time
from typing import Any

import numpy as np
from common import Array, Report, argument_parser, header, line, result_path, table
from fibers.flow_phantom import case_of

from napari_gpubio.core.device import choose_device
from napari_gpubio.fibers.flow import FlowMatrices, FlowRepeats, flow, flow_repeats

SETTINGS = ((2500.0, 25.0), (1000.0, 12.0))
SEED = 10  # intervals were chosen on seeds 0 to 7
WEAK = 0.02  # smaller numbers of a false pair are next to nothing
FIRST = 3


def groups_of(truth: Array) -> dict[str, Array]:
    """Which pairs are true, which false ones have a number worth the name, and which have next to none."""
    count = len(truth)
    true = np.arange(count)[:, np.newaxis] ^ 1 == np.arange(count)
    others = ~np.eye(count, dtype=bool) & ~true
    return {"true": true, "false": others & (truth >= WEAK), "next to none": others & (truth < WEAK)}


def held(low: Array, high: Array, truth: Array) -> Array:
    return (low <= truth + 1e-9) & (truth - 1e-9 <= high)


def numbers_of(sure: FlowRepeats, truth: FlowMatrices, of: str) -> dict[str, dict[str, list[Any]]]:
    """What the intervals of one scan hold, by groups of pairs."""
    expected, ranks = truth.matrix(of), truth.ranks(of)
    low, high = sure.interval(of)
    rank_low, rank_high = sure.rank_interval(of)
    between = np.percentile(sure.matrices(of), (2.5, 97.5), axis=0)
    values = {
        "held": held(low, high, expected), "percentiles_hold": held(*between, expected),
        "half_width": (high - low) / 2, "ranks_held": held(rank_low, rank_high, ranks),
        "ranks": rank_high - rank_low + 1, "fit_has_the_rank": sure.fit.ranks(of) == ranks,
        "among_first_error": np.abs(sure.among_first(FIRST, of) - (ranks <= FIRST)),
    }  # fmt: skip
    return {
        group: {name: one[which].astype(float).tolist() for name, one in values.items()}
        for group, which in groups_of(expected).items()
    }


def coverage(report: Report, device: str, seeds: int, repeats: int, b: float, snr: float) -> None:
    """Shares of intervals that hold the numbers and ranks without noise."""
    clean = case_of(b, np.inf, 0)
    truth = flow(clean.fods, clean.atlas, device=device)
    seconds, found = [], dict[tuple[str, str], dict[str, list[float]]]()
    for seed in range(SEED, SEED + seeds):
        case = case_of(b, snr, seed)
        begun = time.perf_counter()
        sure = flow_repeats(case.scan, case.fods, case.atlas, repeats=repeats, random_seed=seed, device=device)
        seconds.append((time.perf_counter() - begun) / repeats)
        for of in ("overlap", "arrivals"):
            for group, values in numbers_of(sure, truth, of).items():
                for name, some in values.items():
                    found.setdefault((of, group), {}).setdefault(name, []).extend(some)
    rows, everything = [], []
    for (of, group), values in found.items():
        means = {name: float(np.mean(some)) for name, some in values.items()}
        everything.append({"of": of, "pairs": group, "count": len(values["held"]), **means})
        rows.append(line(of, group, str(len(values["held"])), *(f"{value:.3g}" for value in means.values())))
    columns = [
        "matrix", "pairs", "intervals", "95 % intervals hold", "percentiles hold", "half width",
        "95 % intervals of ranks hold", "ranks in one", "fit has the rank", f"share among first {FIRST}, mean error",
    ]  # fmt: skip
    facts = f"{seeds} scans, {repeats} repeats each; a repeat took {np.median(seconds):.2f} s (median)."
    title = f"b {b:.0f}, SNR {snr:.0f}"
    report.add(title, title, {"rows": everything, "s_per_repeat": seconds}, *table(columns, rows), "", facts)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    facts = header(quick=False)
    path = result_path(given.json, "fibers_flow_repeats", facts["date"], choose_device(given.device))
    about = (
        "True: both ends of a bundle; false: numbers from 0.02 on of other pairs; next to none: below. Pairs count in "
        "both directions, so intervals of numbers come in twos. The truth is the flow without noise. Intervals were "
        "chosen on other seeds."
    )
    report = Report(path, "How sure the flow of fibers is", facts, "", about)
    how = given.device, given.seeds, given.repeats
    report.run({f"b {b:.0f}": lambda b=b, snr=snr: coverage(report, *how, b, snr) for b, snr in SETTINGS})


if __name__ == "__main__":
    main()
