"""Fixtures of the light engine's tests."""

import pytest

from napari_gpubio.core.volumes import write_volume
from napari_gpubio.layered.kernels.layers import gpu
from napari_gpubio.light.kernels.voxels import gpu as voxels_gpu
from napari_gpubio.optics.io import write_table
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
def few_builds(monkeypatch):
    """One build of the voxels' kernels, which takes g++ a second, is for all kinds of sources and tissues.

    The special builds for each are for `test_every_build_has_the_bits_of_its_backend`.
    """
    whole, left_out = voxels_gpu.defines_of, ("SOURCE_KIND", "THIN")
    monkeypatch.setattr(
        voxels_gpu, "defines_of", lambda problem: tuple(d for d in whole(problem) if not d.startswith(left_out))
    )


@pytest.fixture
def one_gpu(fake_gpu, few_builds):
    """A GPU whose kernels run through g++, with few builds."""
    return fake_gpu()
