"""The engine's own checks with more photons than ``napari-gpubio check`` takes, and with several seeds."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from common import Row, line

from light.plan import Plan
from napari_gpubio.core.checks import run_check
from napari_gpubio.layered import checks as layered_cases
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light import checks as cases
from napari_gpubio.light.settings import LightSettings

COLUMNS = ("case", "seed", "quantity", "reference", "result", "error", "tolerance", "")


def check_rows(plan: Plan, factor: int, seeds: Sequence[int]) -> Iterator[Row]:
    """Every finding of every check, for each seed."""
    for check in cases.CHECKS:
        for seed in seeds:
            with ExitStack() as both:
                both.enter_context(more_photons(cases, "simulate", factor, seed))
                both.enter_context(more_photons(layered_cases, "simulate", factor, seed))
                for found in run_check(check, plan.device):
                    yield {"seed": seed, **found}


@contextmanager
def more_photons(module: ModuleType, name: str, factor: int, seed: int) -> Iterator[None]:
    """Let the checks of a module trace more photons inside the block; they do not take a number themselves."""
    plain: Callable[..., Any] = getattr(module, name)

    def simulate(*arguments: Any, **more: Any) -> Any:
        return plain(*(changed(argument) for argument in arguments), **more)

    def changed(argument: Any) -> Any:
        if not isinstance(argument, LightSettings | LayeredSettings):
            return argument
        return dataclasses.replace(argument, photons=argument.photons * factor, seed=seed)

    setattr(module, name, simulate)
    try:
        yield
    finally:
        setattr(module, name, plain)


def check_line(r: Row) -> str:
    return line(
        r["case"], r["seed"], r["quantity"], f"{r['reference']:.6g}", f"{r['result']:.6g}", f"{r['error']:+.2g}",
        f"{r['tolerance']:g}", "" if r["passed"] else "**FAILED**",
    )  # fmt: skip
