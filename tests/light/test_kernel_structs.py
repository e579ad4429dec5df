"""Parameters of kernels: structs as the ``.cu`` files read them, and one compiled version of each CPU kernel."""

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.layered.kernels.layers import gpu as layers
from napari_gpubio.layered.kernels.layers import packet
from napari_gpubio.light.kernels.voxels import fold, trace
from napari_gpubio.light.kernels.voxels import gpu as voxels
from napari_gpubio.light.run import simulate
from napari_gpubio.probes.kernels.replay import gpu as replay
from tests.cuda_on_cpu.structs import struct_in
from tests.light.test_photon_backends import DETECTORS, PENCIL, scene, settings

LAYOUTS = {
    (voxels, "Scene"): voxels.SCENE,
    (voxels, "Photons"): voxels.PHOTONS,
    (voxels, "Tallies"): voxels.TALLIES,
    (voxels, "Fold"): voxels.FOLD,
    (layers, "Scene"): layers.SCENE,
    (layers, "Batches"): layers.BATCHES,
    (layers, "Underway"): layers.UNDERWAY,
}


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        (voxels._SOURCE, "Scores", replay.SCORES), (voxels._SOURCE, "Trails", replay.TRAILS),
        (replay._FOLD, "Fold", replay.FOLD), (replay._FOLD, "Finish", replay.FINISH),
    ],
)  # fmt: skip
def test_structs_of_a_replay_are_laid_out_as_in_the_source(source, name, expected):
    read = struct_in(kernels.source(source), name, word=np.uint64)
    assert read == expected
    assert [kernels.is_pointer(read[field]) for field in read.names] == [
        kernels.is_pointer(expected[field]) for field in expected.names
    ]


@pytest.mark.parametrize(("engine", "name"), LAYOUTS, ids=lambda value: value if isinstance(value, str) else "")
def test_structs_are_laid_out_as_in_the_source(engine, name):
    read, expected = struct_in(kernels.source(engine._SOURCE), name, word=np.uint64), LAYOUTS[engine, name]
    assert read == expected
    assert [kernels.is_pointer(read[field]) for field in read.names] == [
        kernels.is_pointer(expected[field]) for field in expected.names
    ]


def test_kernels_are_compiled_once_for_each_type_of_labels():
    """One version for volumes of bytes and one for wider labels, with gates or not; other options are arguments."""
    for few, many in ((True, False), (False, True)):
        domain = scene(wide_labels=many)
        for gates in ((0.0, 5.0), (0, 1, 2)):
            simulate(domain, PENCIL, settings(photons=8, time_gates_ns=gates), device="cpu")
        compiled = len(trace.trace_photons.signatures)  # other tests have those of what is rare
        for chosen in (settings(photons=8), settings(photons=8, halves=True, exit_map=True, time_gates_ns=(0, 1, 2))):
            simulate(domain, PENCIL, chosen, detectors=DETECTORS if few else (), device="cpu")
        assert len(trace.trace_photons.signatures) == compiled
    for kernel in (fold.fold_batch, fold.add_absorbed):
        assert len(kernel.signatures) <= 2
    assert len(fold.mean_and_error.signatures) <= 1
    assert len(packet.trace_range.signatures) <= 1
