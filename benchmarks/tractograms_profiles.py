"""Profiles along a bundle: seconds of each part and of DIPY, and how far the two are apart; see `benchmarks/README.md`.

Run from anywhere::

    python benchmarks/tractograms_profiles.py [--fibers 10000] [--nodes 100]
"""

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import (
    Array,
    argument_parser,
    header,
    header_lines,
    line,
    publish,
    result_path,
    table,
    timed,
    versions,
)  # fmt: skip

from napari_gpubio.core.jit import run_blocks, thread_count
from napari_gpubio.core.trilinear import sample_points
from napari_gpubio.tractograms import Tractogram, bundles
from napari_gpubio.tractograms.kernels import profiles as kernels

POINTS, SIZE, REPEATS = 60, 80, 10
SLOW = 500  # fibers for DIPY, which takes a call for each fiber and node
PEERS = {"DIPY": ("dipy", "dipy")}


def bundle(fibers: int) -> tuple[Tractogram, Array]:
    """Random walks along x through a volume of noise."""
    rng = np.random.default_rng(1)
    x = np.linspace(5, SIZE - 5, POINTS) + rng.normal(0, 1, (fibers, 1))
    y, z = SIZE / 2 + np.cumsum(rng.normal(0, 0.3, (2, fibers, POINTS)), axis=2)
    offsets = np.arange(0, fibers * POINTS + 1, POINTS)
    points = np.stack([x, y, z], -1).reshape(-1, 3)
    grid = (SIZE, SIZE, SIZE)
    return Tractogram(points=points, offsets=offsets, affine=np.eye(4), shape=grid), rng.random(grid, np.float32)


def parts(fibers: Tractogram, image: Array, nodes: int) -> dict[str, Callable[[], object]]:
    """The kernels, with memory that is there already."""
    count = len(fibers)
    lines, turned = bundles.resample(fibers, nodes), np.zeros(count, bool)
    few = np.ascontiguousarray(lines[:, np.linspace(0, nodes - 1, 12).astype(int)])
    ordered, values, weights = np.empty((nodes, count, 3)), np.empty((nodes, count)), np.empty((nodes, count))
    moments, out, forms = np.empty((nodes, kernels.MOMENTS)), np.empty((nodes, 3)), np.ones((nodes, 6))
    matrix, flat = np.ascontiguousarray(np.eye(4)[:3]), ordered.reshape(-1, 3)
    run = functools.partial(functools.partial, run_blocks)
    return {
        "even points": run(
            kernels.interpolate_evenly, count, fibers.points, fibers.offsets, fibers.points, np.empty_like(lines)
        ),
        "directions": run(kernels.find_turned, count, few, few[0].copy(), turned),
        "order by nodes": run(kernels.by_nodes, count, lines, turned, ordered),
        "values": run(sample_points, nodes * count, image, matrix, flat, values.reshape(-1)),
        "moments": run(kernels.node_moments, nodes, ordered, values, moments),
        "weights and means": run(kernels.node_statistics, nodes, ordered, values, moments, forms, weights, out),
    }


def dipy_profile(fibers: Tractogram, image: Array, nodes: int) -> Array:
    """As DIPY's documentation does it."""
    from dipy.stats.analysis import afq_profile, gaussian_weights
    from dipy.tracking.streamline import Streamlines, orient_by_streamline

    lines = Streamlines(list(fibers))
    lines = orient_by_streamline(lines, lines[0])
    weights = gaussian_weights(lines, n_points=nodes)
    return np.asarray(afq_profile(image, lines, np.eye(4), weights=weights, n_points=nodes))


def rows(fibers: Tractogram, image: Array, nodes: int) -> list[dict[str, Any]]:
    """Best and median seconds of each part, of all kernels, of the whole call, and of DIPY."""
    found = [(name, timed(work, REPEATS)) for name, work in parts(fibers, image, nodes).items()]
    whole = functools.partial(bundles.profile, fibers, image, np.eye(4), nodes, "dipy", start=0)
    rows = [{"part": name, "best_ms": 1e3 * one.seconds, "median_ms": 1e3 * one.median} for name, one in found]
    rows.append({"part": "all kernels", **{key: sum(row[key] for row in rows) for key in ("best_ms", "median_ms")}})
    timing = timed(whole, REPEATS)
    rows.append(
        {"part": "tractograms.bundles.profile", "best_ms": 1e3 * timing.seconds, "median_ms": 1e3 * timing.median}
    )
    if versions(PEERS):
        some = fibers.select(np.arange(min(SLOW, len(fibers))))
        begun = time.perf_counter()
        means = dipy_profile(some, image, nodes)
        milliseconds = 1e3 * (time.perf_counter() - begun)
        apart = float(np.abs(means - bundles.profile(some, image, np.eye(4), nodes, "dipy", start=0).mean).max())
        rows.append(
            {"part": f"DIPY, {len(some)} fibers", "best_ms": milliseconds, "median_ms": milliseconds, "apart": apart}
        )
    return rows


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--fibers", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    head = {**header(quick=False), "threads": thread_count(), "peers": versions(PEERS)}
    found = rows(*bundle(arguments.fibers), arguments.nodes)
    lines = [line(one["part"], f"{one['best_ms']:.1f}", f"{one['median_ms']:.1f}") for one in found]
    apart = [f"Largest difference from DIPY's means, of 0 to 1: {one['apart']:.1e}." for one in found if "apart" in one]
    title = f"# A profile of {arguments.fibers:,} fibers of {POINTS} points, {arguments.nodes} nodes"
    peers = ", ".join(f"{name} {version}" for name, version in head["peers"].items())
    threads = f"{head['threads']} threads{'; ' + peers if peers else ''}."
    text = [title, "", *header_lines(head), threads, "", *table(("part", "best, ms", "median, ms"), lines), "", *apart]
    publish(
        result_path(arguments.json, "tractograms_profiles", head["date"]),
        {**head, "rows": found},
        "\n".join(text) + "\n",
    )


if __name__ == "__main__":
    main()
