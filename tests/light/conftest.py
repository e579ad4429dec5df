"""Fixtures of the light engine's tests."""

import pytest

from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.io import write_table
from napari_gpubio.light.kernels.layers import gpu
from napari_gpubio.light.kernels.voxels import gpu as voxels_gpu
from tests.light.result_samples import layered_domain


@pytest.fixture
def short_pilot(monkeypatch):
    """A pilot run that leaves something to do."""
    monkeypatch.setattr(gpu, "PILOT_PHOTONS", 50)


@pytest.fixture
def head_files(tmp_path, monkeypatch):
    """A folder with head.nii.gz and head.csv, which is the current one."""
    head = layered_domain((8, 9, 10), 2.0)
    write_volume(tmp_path / "head.nii.gz", head.labels, head.affine)
    write_table(tmp_path / "head.csv", head.media)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def one_gpu(fake_gpu, monkeypatch):
    """A GPU whose kernels run through g++, which takes seconds for a build: one is for all kinds of sources."""
    whole = voxels_gpu.defines_of
    monkeypatch.setattr(voxels_gpu, "defines_of", lambda problem: tuple(d for d in whole(problem) if "SOURCE" not in d))
    return fake_gpu()
