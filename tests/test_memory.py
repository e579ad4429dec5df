"""Memory is known before: what runs of every engine say that they need, and take, in volumes of three sizes."""

import datetime
import sys
from collections.abc import Iterable

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from tests import memory_samples
from tests.memory_samples import CASES, GPU_CASES, MIB, Alone, Measured, Work, on_gpu

SIZES = (48, 64, 96)
SMALL = (24, 32, 40)  # for a GPU that is pretended
CHUNKED = ("FODs", "noise")  # on a GPU by chunks, whose length depends on the time they take
ONE_CHUNK = (8, 12, 16)  # whose voxels are all in the first one
TOLERANCE = 0.1
FLOOR = 3 * MIB  # of a process: pages of code, blocks that the allocator keeps
BOUNDS = {  # the estimate is the most
    "speckle, real numbers",  # how many frames are copied together depends on the time they take
    "tensors, of a brain",  # pages of volumes that no voxel of a mask lies in need not be there
}
GPU_BOUNDS = BOUNDS | {name for name in GPU_CASES if name.startswith(CHUNKED)}


DAYS, TODAY = 3, datetime.date.today().toordinal()


def of_today(names: Iterable[str]) -> list[str]:
    """A third of the cases a day, also with --all: each takes seconds in a process of its own."""
    return [name for number, name in enumerate(names) if (number + TODAY) % DAYS == 0]


def check(measured: Measured, floor: int = 0, *, bounds: set[str] = BOUNDS) -> None:
    allowed = TOLERANCE * measured.estimated + floor
    assert measured.taken <= measured.estimated + allowed, measured
    if measured.name not in bounds:
        assert measured.taken >= measured.estimated - allowed, measured


@pytest.fixture(scope="module")
def alone():
    process = Alone()
    yield process
    process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the most memory of a process")
@pytest.mark.parametrize("name", of_today(CASES))
def test_a_process_takes_what_was_estimated(name, alone):
    for measured in alone.measured(name, SIZES):
        check(measured, FLOOR)


@pytest.mark.parametrize(
    "name", of_today(name for name in GPU_CASES if name != "FODs, no response")
)  # its peaks take long
def test_a_pretended_gpu_holds_what_was_estimated(name, fake_gpu, monkeypatch):
    pretended = fake_gpu(total_bytes=4 << 30)
    most, take = [0], pretended.take

    def counted(nbytes):
        device = take(nbytes)
        most[0] = max(most[0], pretended.used_bytes[device])
        return device

    monkeypatch.setattr(pretended, "take", counted)
    for size in ONE_CHUNK if name.startswith(CHUNKED) else SMALL:
        work = CASES[name](size)
        estimated = work.estimated("cuda").total
        before = most[0] = pretended.used_bytes.get(0, 0)
        work.run("cuda")
        check(Measured(name, size, estimated, most[0] - before))


@pytest.mark.gpu
@pytest.mark.parametrize("name", GPU_CASES)
def test_a_gpu_holds_what_was_estimated(name):
    for size in SIZES:
        check(on_gpu(name, size), FLOOR, bounds=GPU_BOUNDS)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("light")])
def test_light_takes_little_more_than_its_tallies_and_results(name):
    memory, voxels = CASES[name](64).estimated("cpu"), 64**3
    assert memory.results + memory.tallies > 32 * voxels
    assert memory.total <= 1.1 * voxels + 1.3 * (memory.results + memory.tallies)  # labels of a byte, with a rim


def test_the_parts_are_added():
    memory = Memory(inputs=1 << 20, tallies=2 << 20, results=3 << 20, scratch=4 << 20)
    assert (memory.total, memory.megabytes) == (10 << 20, 10.0)
    assert fuller(Memory(inputs=5), memory, Memory(results=7)) is memory


def test_too_little_memory_is_refused_with_the_sizes(monkeypatch):
    monkeypatch.setattr("napari_gpubio.core.memory.free_memory_bytes", lambda device: 3 << 20)
    Memory(results=3 << 20).check("this", "take less")
    with pytest.raises(InvalidInput, match=r"^denoising this image needs about \d+ MB and 3 MB are free; take a part"):
        CASES["denoise"](64).run("cpu")
    with pytest.raises(InvalidInput, match=r"^counting this dose needs about \d+ MB and 3 MB are free; take a coarser"):
        CASES["dose"](96).run("cpu")
    with pytest.raises(InvalidInput, match=r"^fitting tensors to this scan needs about \d+ MB .* free; give the mask"):
        CASES["tensors"](48).run("cpu")
    with pytest.raises(InvalidInput, match=r"^deconvolving this scan needs about \d+ MB .* free; give the mask of a"):
        CASES["FODs"](48).run("cpu")
    with pytest.raises(InvalidInput, match=r"^denoising this scan needs about \d+ MB .* free; denoise a part of it"):
        CASES["noise"](48).run("cpu")
    with pytest.raises(InvalidInput, match=r"^this connectome needs about \d+ MB .* free; make it of fewer fibers"):
        CASES["connectome"](64).run("cpu")


def test_what_is_measured_is_what_is_allocated(monkeypatch):
    """A case that says half of what it takes is found out."""

    def work(size):
        return Work(lambda device: Memory(results=4 * size**3), lambda device: np.ones((size,) * 3, np.float64))

    monkeypatch.setitem(memory_samples.CASES, "wrong", work)
    measured = memory_samples.here("wrong", 256)
    assert measured.ratio == pytest.approx(2.0, rel=0.1)
    with pytest.raises(AssertionError):
        check(measured, FLOOR)
