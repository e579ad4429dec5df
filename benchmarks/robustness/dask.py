"""A Dask worker that is killed in the middle of a run of light: the bits of a run on one machine.

Both engines of light hand batches of photons to workers. When the first batch has come back, one worker is killed
(SIGKILL); its batches are done again by another.
"""

import argparse
import os
import signal
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, publish, table

from robustness.engines import ENGINES

_PHOTONS = 400_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--kills", type=int, default=5, help="runs of each engine, with a killed worker in each")


def run(arguments: argparse.Namespace) -> None:
    facts, rows = header(quick=arguments.kills < 5), []
    for name, simulate in (("light in voxels", _voxels), ("light in layers", _layers)):
        alone = ENGINES[name].fingerprint(_result(simulate(None)))
        found = [_killed(simulate) for _ in range(arguments.kills)]
        same = sum(ENGINES[name].fingerprint(result) == alone for result, _ in found)
        rows.append({"engine": name, "runs": len(found), "killed": sum(killed for _, killed in found), "same": same})
        print(rows[-1], flush=True)
    path = arguments.json or RESULTS / f"robustness_dask_{facts['date']}.json"
    lines = [line(r["engine"], r["runs"], r["killed"], r["same"]) for r in rows]
    columns = ("engine", "runs", "workers killed in them", "with the bits of one machine")
    head = ["# A Dask worker killed", "", *header_lines(facts), f"{_PHOTONS:,} photons each, two workers."]
    publish(path, {**facts, "rows": rows}, "\n".join([*head, "", *table(columns, lines), ""]))


def _voxels(client: Any) -> Any:
    from napari_gpubio import light
    from napari_gpubio.light.phantom.benchmarks import benchmark

    case = benchmark("cube60")
    settings = light.LightSettings(photons=_PHOTONS, halves=True)
    return light.simulate_steps(case.domain, case.source, settings, device="cpu", client=client)


def _layers(client: Any) -> Any:
    from napari_gpubio.light import layers
    from napari_gpubio.light.layers.presets import SKIN

    return layers.simulate_steps(SKIN, layers.LayeredSettings(photons=_PHOTONS), device="cpu", client=client)


def _result(steps: Any, look: Any = None) -> Any:
    while True:
        try:
            step = next(steps)
            if look is not None:
                look(step)
        except StopIteration as end:
            return end.value


def _killed(simulate: Any) -> tuple[Any, int]:
    """The result of a run in which a worker is killed, and how many were."""
    import distributed

    killed: list[int] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())

        def kill_one(step: Any) -> None:
            if step.done < step.total and not killed:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])

        return _result(simulate(client), kill_one), len(killed)
