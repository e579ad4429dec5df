"""The engine's own checks with more photons than ``napari-gpubio check`` takes, and with several seeds."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from common import Row, line

from light.plan import Plan
from napari_gpubio.core.cases import run_check
from napari_gpubio.light.voxels import cases
from napari_gpubio.light.settings import Settings

COLUMNS = ("case", "seed", "quantity", "reference", "result", "error", "tolerance", "")


def check_rows(plan: Plan, factor: int, seeds: Sequence[int]) -> Iterator[Row]:
    """Every finding of every check, for each seed."""
    for check in cases.CHECKS:
        for seed in seeds:
            with more_photons(factor, seed):
                for found in run_check(check, plan.device):
                    yield {"seed": seed, **found}


@contextmanager
def more_photons(factor: int, seed: int) -> Iterator[None]:
    """Let the checks trace more photons inside the block; they do not take a number themselves."""
    plain = cases.simulate

    def simulate(domain: Any, source: Any, settings: Settings | None = None, **more: Any) -> Any:
        asked = settings or Settings()
        changed = dataclasses.replace(asked, photons=asked.photons * factor, seed=seed)
        return plain(domain, source, changed, **more)

    cases.simulate = simulate
    try:
        yield
    finally:
        cases.simulate = plain


def check_line(r: Row) -> str:
    """One line of the table."""
    return line(
        r["case"], r["seed"], r["quantity"], f"{r['reference']:.6g}", f"{r['result']:.6g}", f"{r['error']:+.2g}",
        f"{r['tolerance']:g}", "" if r["passed"] else "**FAILED**",
    )  # fmt: skip
