"""Structs of kernels' parameters: host code fills them as the ``.cu`` files read them."""

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.light.kernels.layers import gpu as layers
from napari_gpubio.light.kernels.voxels import gpu as voxels
from tests.cuda_on_cpu.structs import struct_in

LAYOUTS = {
    (voxels, "Scene"): voxels.SCENE,
    (voxels, "Photons"): voxels.PHOTONS,
    (voxels, "Tallies"): voxels.TALLIES,
    (voxels, "Fold"): voxels.FOLD,
    (layers, "Scene"): layers.SCENE,
    (layers, "Batches"): layers.BATCHES,
}


@pytest.mark.parametrize(("engine", "name"), LAYOUTS, ids=lambda value: value if isinstance(value, str) else "")
def test_structs_are_laid_out_as_in_the_source(engine, name):
    read, expected = struct_in(kernels.source(engine._SOURCE), name, word=np.uint64), LAYOUTS[engine, name]
    assert read == expected
    assert [kernels.is_pointer(read[field]) for field in read.names] == [
        kernels.is_pointer(expected[field]) for field in expected.names
    ]
