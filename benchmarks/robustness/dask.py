"""A Dask worker that is killed in the middle of a run: the bits of a run on one machine.

Both engines of light hand batches of photons to workers. When the first batch has come back, one worker is killed
(SIGKILL); its batches are done again by another. Connectomes and forward models are not shared out: of
many subjects each is a task of Dask's, whose worker is killed in the middle of it.
"""

import argparse
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, publish, table

from robustness.engines import ENGINES
from robustness.writers import fingerprint

_PHOTONS = 150_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--kills", type=int, default=5, help="runs of each engine, with a killed worker in each")


def run(arguments: argparse.Namespace) -> None:
    facts, rows = header(quick=arguments.kills < 5), []
    parts = {"light in voxels": _voxels, "light in layers": _layers}
    campaigns = {n: (steps, _killed, ENGINES[n].fingerprint) for n, steps in parts.items()}
    campaigns |= {
        n: (work, _killed_task, str) for n, work in (("connectome", _connectome), ("forward model", _forward))
    }
    for name, (work, killed, named) in campaigns.items():
        alone = named(_result(work(None)) if killed is _killed else work())
        found = [killed(work) for _ in range(arguments.kills)]
        same = sum(named(result) == alone for result, _ in found)
        rows.append({"engine": name, "runs": len(found), "killed": sum(number for _, number in found), "same": same})
        print(rows[-1], flush=True)
    path = arguments.json or RESULTS / f"robustness_dask_{facts['date']}.json"
    lines = [line(r["engine"], r["runs"], r["killed"], r["same"]) for r in rows]
    columns = ("engine", "runs", "workers killed in them", "with the bits of one machine")
    explained = f"{_PHOTONS:,} photons of light, two workers. A connectome and a forward model are one task each."
    head = ["# A Dask worker killed", "", *header_lines(facts), explained]
    publish(path, {**facts, "rows": rows}, "\n".join([*head, "", *table(columns, lines), ""]))


def _voxels(client: Any) -> Any:
    from napari_gpubio import light
    from napari_gpubio.light.benchmarks import benchmark

    case = benchmark("cube60")
    settings = light.LightSettings(photons=_PHOTONS, halves=True)
    return light.simulate_steps(case.domain, case.source, settings, device="cpu", client=client)


def _layers(client: Any) -> Any:
    from napari_gpubio import layered
    from napari_gpubio.layered.presets import SKIN

    return layered.simulate_steps(SKIN, layered.LayeredSettings(photons=_PHOTONS), device="cpu", client=client)


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


def _connectome() -> str:
    """The fingerprint of a connectome; as the next one, for a worker."""
    from napari_gpubio.core.files import sample_path
    from napari_gpubio.diffusion import io as diffusion_io
    from napari_gpubio.tractograms import connectome
    from napari_gpubio.tractograms import io as tractograms_io
    from napari_gpubio.tractograms.model import Tractogram

    fibers = Tractogram.join([tractograms_io.read_tractogram(sample_path("brain_phantom/bundles.trk"))] * 600)
    settings = connectome.ConnectomeSettings(assignment=connectome.AllVoxels())
    found = connectome.connectome(fibers, diffusion_io.read_atlas(sample_path("brain_phantom/atlas.nii.gz")), settings)
    return fingerprint(found.pairs, found.fibers, *found.numbers.values())


def _forward() -> str:
    from napari_gpubio.optics import phantom
    from napari_gpubio.probes import forward

    labels = phantom.load_head_phantom()
    head = forward.Head(labels=labels.labels, affine=labels.affine, tissues=forward.head_tissues())
    probe = forward.Probe(
        sources=("S1",), source_positions_mm=[(-45, 0, 75)], wavelengths_nm=(760,),
        detectors=("D1", "D2"), detector_positions_mm=[(-45, 25, 75), (-45, 30, 70)],
    )  # fmt: skip
    found = forward.forward_model(head, probe, forward.ForwardSettings(photons=20_000), labels=(4,), device="cpu")
    return fingerprint(
        *(getattr(found.parts[0], name) for name in ("row_starts", "columns", "values", "label_errors_mm"))
    )


def _killed_task(work: Any) -> tuple[str, int]:
    """What a task returns whose worker is killed half a second or more after it has begun, and how many were."""
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        task = client.submit(work, pure=False)
        while not (busy := [worker for worker, tasks in client.processing().items() if tasks]):
            time.sleep(0.02)
        time.sleep(random.uniform(0.5, 2.0))
        is_running = not task.done()
        if is_running:
            os.kill(pids[busy[0]], signal.SIGKILL)
        return task.result(), int(is_running)
