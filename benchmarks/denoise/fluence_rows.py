"""Every filter on many runs of a domain: what it gains, and what bias it adds."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
from common import Array, Row, line

from denoise.domains import Runs, tissue_of
from denoise.filters import Filter
from denoise.metrics import BINS, Tally, by_bin, signal_to_noise

FEWEST_RUNS = 2
COLUMNS = (
    "filter", *(f"{low}-{high} dB" for low, high in BINS), "all", "median (> 3 dB)", "seconds a run",
)  # fmt: skip


class Comparison:
    """Filters side by side on the same runs."""

    def __init__(self, filters: Mapping[str, Filter], truth: Array) -> None:
        self._truth = truth
        self._missing = {name: made.missing for name, made in filters.items() if made.missing}
        self._filters = {name: made for name, made in filters.items() if not made.missing}
        self.raw = Tally(truth)
        self._tallies = {name: Tally(truth) for name in self._filters}
        self._seconds: dict[str, list[float]] = {name: [] for name in self._filters}

    def run(self, runs: Runs, domain: str, photons: int, index: int) -> None:
        """Take in a run; a filter that fails is dropped and its error told."""
        pair, tissue = runs.run(domain, photons, index), tissue_of(domain)
        self.raw.add(pair.whole.astype(np.float64))
        for name in list(self._filters):
            begun = time.perf_counter()
            try:
                found = self._filters[name].apply(pair, tissue)
            except Exception as error:  # noqa: BLE001 - a peer may dislike a volume, and the others go on
                del self._filters[name]
                self._missing[name] = f"failed: {type(error).__name__}: {error}"
                continue
            self._seconds[name].append(time.perf_counter() - begun)
            self._tallies[name].add(np.asarray(found, np.float64))

    def rows(self) -> list[Row]:
        """What each filter does in each bin."""
        ratio = signal_to_noise(self.raw, self._truth)
        untouched = list(by_bin(self.raw, self.raw, self._truth, ratio))
        found: list[Row] = [{"filter": "raw, beside the truth", "bins": untouched}]
        for name in self._filters:
            bins = list(by_bin(self._tallies[name], self.raw, self._truth, ratio))
            found.append({"filter": name, "bins": bins, "seconds": float(np.median(self._seconds[name]))})
        return found + [{"filter": name, "skipped": why} for name, why in self._missing.items()]


def quality_line(row: Row) -> str:
    if "skipped" in row:
        return line(row["filter"], *[""] * (len(COLUMNS) - 2), f"skipped: {row['skipped']}")
    whole = row["bins"][-1]
    medians = f"{whole['median_gain']:.1f} ({whole['median_effective']:.1f})" if "gain" in whole else ""
    seconds = f"{row['seconds']:.3g}" if "seconds" in row else ""
    return line(row["filter"], *map(_cell, row["bins"]), medians, seconds)


def _cell(found: Row) -> str:
    if "gain" not in found:
        return f"({found['voxels']} voxels)"
    return f"{found['gain']:.1f} / {found['bias']:+.2f} / {found['error_gain']:.1f}"


def equivalent_photons(rows: Sequence[Row], photons: int) -> dict[str, float]:
    """Photons that an unfiltered run would need for the same squared error (all bins): its error falls as 1 / N."""
    return {
        row["filter"]: photons * 10 ** (row["bins"][-1]["error_gain"] / 10)
        for row in rows
        if "skipped" not in row and "gain" in row["bins"][-1]
    }
