"""Runs of every engine in volumes of any size, what they say that they need, and what they take.

On the CPU that is the most memory of a process of its own (Linux), on a GPU the most that CuPy's pool had in use.
Needs NumPy, SciPy and Numba only, so that it runs on a bare GPU machine.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.memory import Memory

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
WARM = 20  # voxels along an axis of the volume that compiles what a case needs


class Work(NamedTuple):
    """A run, and what it says before that it needs; both take a device."""

    told: Callable[[str], Memory]
    run: Callable[[str], object]


class Measured(NamedTuple):
    """Bytes that a run said and took."""

    name: str
    size: int
    told: int
    taken: int

    @property
    def ratio(self) -> float:
        """What was taken over what was told."""
        return self.taken / self.told


def light(size: int, **more: Any) -> Work:
    """Light that comes to every voxel: hardly anything is absorbed, and no face lets it out."""
    from napari_gpubio.light.model import Domain, Medium
    from napari_gpubio.light.run import needed_memory, simulate
    from napari_gpubio.light.settings import LightSettings
    from napari_gpubio.light.source import Source

    medium = Medium(label=1, name="clear", mua_per_mm=1e-5, mus_per_mm=0.1, g=0.0, n=1.0)
    domain = Domain(labels=np.ones((size,) * 3, np.uint8), affine=np.eye(4), media=(medium,))
    source = Source(kind="isotropic", position_mm=(size / 2,) * 3)
    settings = LightSettings(**{"photons": 2 * size * 6, "batches": 6, "faces": ("mirror",) * 6, **more})
    return Work(
        lambda device: needed_memory(domain, settings, device),
        lambda device: simulate(domain, source, settings, device=device),
    )


def denoise(size: int, *, volumes: int = 0, kind: Any = np.float32, mapped: bool = False, **more: Any) -> Work:
    """A noisy volume, or a series."""
    from napari_gpubio.denoise.run import denoise, needed_memory
    from napari_gpubio.denoise.settings import DenoiseSettings

    shape = (size,) * 3 + ((volumes,) if volumes else ())
    image = np.random.default_rng(0).normal(100.0, 5.0, shape).astype(kind)
    settings = DenoiseSettings(search_radius=1, **more)
    noise = np.full((size,) * 3, 5.0) if mapped else 5.0 if volumes else None
    return Work(
        lambda device: needed_memory(image, settings, noise=noise, device=device),
        lambda device: denoise(image, settings, noise=noise, device=device),
    )


def dose(size: int) -> Work:
    """Two organs as labels and one as contours, in a dose that falls off."""
    from napari_gpubio.dose.model import Dose
    from napari_gpubio.dose.run import dvh, needed_memory
    from napari_gpubio.dose.settings import DvhSettings
    from napari_gpubio.dose.structures.contours import contour_structure
    from napari_gpubio.dose.structures.labels import LabelStructures

    x, y, z = np.ogrid[:size, :size, :size]
    values = (60.0 * np.exp(-((x - size / 2) ** 2 + (y - size / 2) ** 2) / size**2) + 0.01 * z).astype(np.float32)
    labels = np.ascontiguousarray(np.broadcast_to(1 + (x > size // 2), values.shape), np.uint8)
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = size / 2 + size / 3 * np.column_stack([np.cos(angles), np.sin(angles)])
    loops = [np.column_stack([circle, np.full(len(circle), float(plane))]) for plane in range(2, size - 2)]
    structures = [
        LabelStructures(labels=labels, affine=np.eye(4), structures={1: "left", 2: "right"}),
        contour_structure("round", loops),
    ]
    given, settings = Dose(values=values, affine=np.eye(4), unit="Gy"), DvhSettings(spacing_mm=0.5)
    return Work(
        lambda device: needed_memory(given, structures, settings, device=device),
        lambda device: dvh(given, structures, settings, device=device),
    )


def speckle(size: int, *, kind: Any = np.uint16, **more: Any) -> Work:
    """A stack of frames of 4 x 4 times as many pixels."""
    from napari_gpubio.speckle.memory import needed_memory
    from napari_gpubio.speckle.run import contrast
    from napari_gpubio.speckle.settings import ContrastSettings

    frames = np.random.default_rng(0).integers(100, 4000, (30, 4 * size, 4 * size)).astype(kind)
    settings = ContrastSettings(**more)
    return Work(
        lambda device: needed_memory(frames, settings, device=device),
        lambda device: contrast(frames, settings, device=device),
    )


def tracking(size: int, *, whole: bool = True, **more: Any) -> Work:
    """A few geodesics or streamlines in tensors of a cube, or a ball."""
    from napari_gpubio.tracts.model import TensorField
    from napari_gpubio.tracts.run import needed_memory, track
    from napari_gpubio.tracts.settings import Directions, TrackSettings

    tensors = np.zeros((size, size, size, 6))
    tensors[...] = 1.7e-3, 3e-4, 3e-4, 0.0, 0.0, 0.0
    middle = np.arange(size) - (size - 1) / 2
    ball = sum(np.square(axis) for axis in np.ix_(middle, middle, middle)) < (0.4 * size) ** 2
    field = TensorField(tensors=tensors, affine=np.eye(4), mask=np.ones_like(ball) if whole else ball)
    arguments = field, [(size / 2,) * 3], Directions(count=4), TrackSettings(**more)
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: track(*arguments, device=device)
    )


def fods(size: int) -> Work:
    """A few streamlines in FODs of order 8."""
    from napari_gpubio.tracts.fods.model import FodField
    from napari_gpubio.tracts.run import needed_memory, track
    from napari_gpubio.tracts.settings import Directions

    coefficients = np.zeros((size, size, size, 45), np.float32)
    coefficients[..., 0], coefficients[..., 3] = 0.3, 0.3
    field = FodField(coefficients=coefficients, mask=np.ones((size,) * 3, bool), affine=np.eye(4))
    arguments = field, [(size / 2,) * 3], Directions(kind="fod", count=4)
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: track(*arguments, device=device)
    )


CASES: dict[str, Callable[[int], Work]] = {
    "light": light,
    "light, halves": lambda size: light(size, halves=True),
    "light, gates": lambda size: light(size, time_gates_ns=(0.0, 1.0, 2.5, 5.0)),
    "light, all": lambda size: light(
        size, photons=12 * size + 7, halves=True, exit_map=True, time_gates_ns=(0.0, 2.0, 5.0)
    ),
    "denoise": denoise,
    "denoise, double precision": lambda size: denoise(size, kind=np.float64),
    "denoise, noise map": lambda size: denoise(size, mapped=True),
    "denoise, Rician by patches": lambda size: denoise(size, noise_model="rician", noise_from="patches"),
    "denoise, series": lambda size: denoise(size, volumes=3),
    "dose": dose,
    "speckle, spatial": speckle,
    "speckle, temporal": lambda size: speckle(size, mode="temporal", frames=10),
    "speckle, both": lambda size: speckle(size, mode="spatio-temporal", frames=5),
    "speckle, real numbers": lambda size: speckle(size, kind=np.float32),
    "tracking, geodesics": tracking,
    "tracking, van Aart 2011": lambda size: tracking(size, method="vanaart2011"),
    "tracking, in a mask": lambda size: tracking(size, whole=False),
    "tracking, adaptive metric": lambda size: tracking(size, whole=False, metric="adaptive"),
    "tracking, FODs": fods,
}


def on_cpu(name: str, sizes: Sequence[int]) -> list[Measured]:
    """Measure a case in a process of its own, with one thread."""
    # what is freed goes back to the system at once, so that the most is that of the arrays
    alone = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", "tests.memory_samples", name, *map(str, sizes)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | alone, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return [Measured(name, *json.loads(line)) for line in done.stdout.splitlines()]


def on_gpu(name: str, size: int, device: str = "cuda") -> Measured:
    """Measure a case on a GPU: the most bytes of CuPy's pool that were in use."""
    import cupy

    pool, most = cupy.get_default_memory_pool(), [0]
    make = CASES[name]
    make(WARM).run(device)
    work = make(size)

    def counted(count: int) -> Any:
        found = pool.malloc(count)
        most[0] = max(most[0], pool.used_bytes())
        return found

    pool.free_all_blocks()
    before = pool.used_bytes()
    told = work.told(device).total
    with cupy.cuda.using_allocator(counted):
        work.run(device)
    return Measured(name, size, told, most[0] - before)


def here(name: str, size: int) -> Measured:
    """Measure a case in this process."""
    work = CASES[name](size)
    told = work.told("cpu").total
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the most so far becomes what there is now
    before = _kilobytes("VmRSS")
    result = work.run("cpu")
    taken = 1024 * (_kilobytes("VmHWM") - before)
    del result
    return Measured(name, size, told, taken)


def _kilobytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


if __name__ == "__main__":
    here(sys.argv[1], WARM)
    for number in sys.argv[2:]:
        sys.stdout.write(json.dumps(here(sys.argv[1], int(number))[1:]) + "\n")
