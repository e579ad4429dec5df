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
from napari_gpubio.fibers.metrics import Adaptive
from tests.speckle.choices import settings_with

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
WARM = 20  # voxels along an axis of the volume that compiles what a case needs


class Work(NamedTuple):
    """A run, and the estimate of what it needs; both take a device."""

    estimated: Callable[[str], Memory]
    run: Callable[[str], object]


class Measured(NamedTuple):
    """Bytes that a run was estimated to take, and took."""

    name: str
    size: int
    estimated: int
    taken: int

    @property
    def ratio(self) -> float:
        """What was taken over what was estimated."""
        return self.taken / self.estimated


def light(size: int, **more: Any) -> Work:
    """Light that comes to every voxel: hardly anything is absorbed, and no face lets it out."""
    from napari_gpubio.light.run import needed_memory, simulate
    from napari_gpubio.light.settings import LightSettings
    from napari_gpubio.optics.model import Domain, Medium
    from napari_gpubio.optics.sources import Isotropic

    medium = Medium(label=1, name="clear", mua_per_mm=1e-5, mus_per_mm=0.1, g=0.0, n=1.0)
    domain = Domain(labels=np.ones((size,) * 3, np.uint8), affine=np.eye(4), media=(medium,))
    source = Isotropic(position_mm=(size / 2,) * 3)
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
    from napari_gpubio.dose.settings import BySpacing, DvhSettings
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
    given, settings = Dose(values=values, affine=np.eye(4), unit="Gy"), DvhSettings(sampling=BySpacing(spacing_mm=0.5))
    return Work(
        lambda device: needed_memory(given, structures, settings, device=device),
        lambda device: dvh(given, structures, settings, device=device),
    )


def speckle(size: int, *, kind: Any = np.uint16, **more: Any) -> Work:
    """A stack of frames of 4 x 4 times as many pixels."""
    from napari_gpubio.speckle import needed_memory
    from napari_gpubio.speckle.run import contrast

    frames = np.random.default_rng(0).integers(100, 4000, (30, 4 * size, 4 * size)).astype(kind)
    settings = settings_with(**more)
    return Work(
        lambda device: needed_memory(frames, settings, device=device),
        lambda device: contrast(frames, settings, device=device),
    )


def tracking(size: int, method: str = "hamiltonian", *, whole: bool = True, **more: Any) -> Work:
    """A few geodesics or streamlines in tensors of a cube, or a ball."""
    from napari_gpubio.diffusion.model import TensorField
    from napari_gpubio.fibers.directions import Cone
    from napari_gpubio.fibers.run import needed_memory, track
    from napari_gpubio.fibers.settings import METHODS

    tensors = np.zeros((size, size, size, 6))
    tensors[...] = 1.7e-3, 3e-4, 3e-4, 0.0, 0.0, 0.0
    inside = ball(size)
    field = TensorField(tensors=tensors, affine=np.eye(4), mask=np.ones_like(inside) if whole else inside)
    arguments = field, [(size / 2,) * 3], Cone(count=4), METHODS[method](**more)
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: track(*arguments, device=device)
    )


def fods(size: int) -> Work:
    """A few streamlines in FODs of order 8."""
    from napari_gpubio.diffusion.fods.model import FodField
    from napari_gpubio.fibers.directions import FromFod
    from napari_gpubio.fibers.run import needed_memory, track

    coefficients = np.zeros((size, size, size, 45), np.float32)
    coefficients[..., 0], coefficients[..., 3] = 0.3, 0.3
    field = FodField(coefficients=coefficients, mask=np.ones((size,) * 3, bool), affine=np.eye(4))
    arguments = field, [(size / 2,) * 3], FromFod(count=4)
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: track(*arguments, device=device)
    )


def ball(size: int) -> Any:
    """A ball in a cube."""
    middle = np.arange(size) - (size - 1) / 2
    return sum(np.square(axis) for axis in np.ix_(middle, middle, middle)) < (0.4 * size) ** 2


def scan(size: int, volumes: int, *, kind: Any = np.float32, where: Any = 1, b0: int = 2) -> Any:
    """A noisy series of one tensor, in some voxels or all, with two shells."""
    from napari_gpubio.diffusion.fods.harmonics import half_sphere
    from napari_gpubio.diffusion.model import DiffusionScan

    bvals = np.repeat([0.0, 1000.0, 2000.0], [b0, (volumes - b0) // 2, (volumes - b0 + 1) // 2])
    directions = np.concatenate([np.zeros((b0, 3)), *(half_sphere(np.count_nonzero(bvals == b)) for b in (1e3, 2e3))])
    signals = 1000.0 * np.exp(-bvals * (4e-4 + 1e-3 * directions[:, 2] ** 2))
    noise = np.random.default_rng(0).normal(0.0, 10.0, (size, size, size, 1))
    return DiffusionScan(
        data=np.abs(signals * np.broadcast_to(where, noise.shape[:3])[..., np.newaxis] + noise).astype(kind),
        bvals=bvals,
        directions=directions,
        affine=np.diag([2.0, 2.0, 2.0, 1.0]),
    )


def tensors(size: int, *, volumes: int = 14, kind: Any = np.float32, whole: bool = True, **more: Any) -> Work:
    """Tensors of a whole scan, or of a brain in it, whose mask is to be found."""
    from napari_gpubio.diffusion.tensors.run import fit_tensors, needed_memory
    from napari_gpubio.diffusion.tensors.settings import FitSettings, OrdinaryLeastSquares

    mask = np.ones((size,) * 3, bool) if whole else None
    series = scan(size, volumes, kind=kind, where=1 if whole else ball(size))
    arguments = series, mask, FitSettings(estimator=OrdinaryLeastSquares(), **more)
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: fit_tensors(*arguments, device=device)
    )


def deconvolution(size: int, *, tissues: int = 1, own: bool = False, lmax: int = 2, **more: Any) -> Work:
    """FODs of a whole scan, as fast as can be, with the response of a tensor, those of tissues, or the scan's own."""
    from napari_gpubio.diffusion.fods.response import Response
    from napari_gpubio.diffusion.fods.run import deconvolve, needed_memory
    from napari_gpubio.diffusion.fods.settings import CsdSettings, MultiTissueSettings

    series, mask = scan(size, 32), np.ones((size,) * 3, bool)
    fiber = np.array([[3500.0, 0.0, 0.0], [2200.0, -600.0, 80.0], [1500.0, -700.0, 150.0]])
    responses = [Response(coefficients=fiber), Response(coefficients=np.array([[3500.0], [2400.0], [1700.0]]))]
    kind, quick = (MultiTissueSettings, {}) if tissues > 1 else (CsdSettings, {"iterations": 1})
    settings = kind(lmax=lmax, constraint_directions=60, **quick, **more)
    arguments = series, None if own else responses[:tissues], mask, settings
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: deconvolve(*arguments, device=device)
    )


def noise(size: int, *, kind: Any = np.float32, **more: Any) -> Work:
    """A scan without noise in every eighth voxel."""
    from napari_gpubio.diffusion.noise.run import denoise_scan, needed_memory
    from napari_gpubio.diffusion.noise.settings import NoiseSettings

    mask = np.zeros((size,) * 3, bool)
    mask[:, :, ::8] = True
    arguments = scan(size, 12, kind=kind), mask, NoiseSettings(window=3, precision="single", **more)
    return Work(
        lambda device: needed_memory(*arguments, device=device), lambda device: denoise_scan(*arguments, device=device)
    )


def connectome(size: int, *, share: int = 2, points: int = 8, way: str = "Radial") -> Work:
    """Fibers of a share of the voxels, between two regions; whatever the device, it is the CPU's work."""
    from napari_gpubio.diffusion.regions import Atlas
    from napari_gpubio.tractograms.connectome import settings
    from napari_gpubio.tractograms.connectome.run import connectome, needed_memory
    from napari_gpubio.tractograms.model import Tractogram

    labels = np.ones((size,) * 3, np.uint8)
    labels[size // 2 :] = 7
    count = size**3 // share
    line = np.linspace(0.1, 0.9, points)[:, np.newaxis] * [size - 1.0, size / 2.0, size / 2.0]
    fibers = Tractogram(
        points=np.tile(line.astype(np.float32), (count, 1)),
        offsets=np.arange(count + 1) * len(line),
        affine=np.eye(4),
        shape=labels.shape,
        per_fiber={"mean_fa": np.full(count, 0.5, np.float32)},
    )
    arguments = (
        fibers,
        Atlas(labels=labels, affine=np.eye(4)),
        settings.ConnectomeSettings(assignment=getattr(settings, way)()),
    )
    return Work(lambda _: needed_memory(*arguments), lambda _: connectome(*arguments))


def layers(size: int, **more: Any) -> Work:
    """A slab with many bins."""
    from napari_gpubio import layered

    slab = layered.LayeredMedium(layers=(layered.Layer(n=1.0, mua_per_mm=0.01, mus_per_mm=1.0, thickness_mm=100.0),))
    bins = {"radial_bins": 8 * size, "depth_bins": 8 * size, "dr_mm": 0.05, "dz_mm": 0.05}
    settings = layered.LayeredSettings(**{"photons": 160, **bins, **more})
    return Work(
        lambda device: layered.needed_memory(slab, settings, device),
        lambda device: layered.simulate(slab, settings, device=device),
    )


def guide(size: int, **volumes: float) -> Work:
    """The guide of a cube with two labels, or with volumes of coefficients that have these values."""
    from napari_gpubio.light.guide import diffusion_guide, guide_memory
    from napari_gpubio.optics.model import Domain, Medium
    from napari_gpubio.optics.sources import Pencil

    media = [Medium(label=n, name=f"{n}", mua_per_mm=0.01, mus_per_mm=1.0, g=0.0, n=1.2 + 0.1 * n) for n in (1, 2)]
    labels = np.ones((size,) * 3, np.uint8)
    labels[:, :, size // 2 :] = 2
    own = {name: np.full(labels.shape, value, np.float32) for name, value in volumes.items()}
    domain = Domain(labels=labels, affine=np.eye(4), media=tuple(media), **own)
    source = Pencil(position_mm=(size / 2, size / 2, 0.0))
    return Work(
        lambda device: guide_memory(domain, device=device),
        lambda device: diffusion_guide(domain, source, device=device),
    )


def replay(size: int, **more: Any) -> Work:
    """Photons that have come to every voxel before they were detected on two faces."""
    from napari_gpubio.light.run import simulate
    from napari_gpubio.light.settings import LightSettings
    from napari_gpubio.optics.detectors import FaceDetector
    from napari_gpubio.optics.model import Domain, Medium
    from napari_gpubio.optics.sources import Isotropic
    from napari_gpubio.probes.jacobians import replay as work

    medium = Medium(label=1, name="clear", mua_per_mm=1e-5, mus_per_mm=0.1, g=0.0, n=1.0)
    domain = Domain(labels=np.ones((size,) * 3, np.uint8), affine=np.eye(4), media=(medium,))
    source = Isotropic(position_mm=(size / 2,) * 3)
    settings, faces = LightSettings(photons=12_000), (FaceDetector(face="-k"), FaceDetector(face="+i"))
    made: dict[str, Any] = {}

    def result(device: str) -> Any:
        """Of the processor that traces the photons again; it is made before memory is measured, when estimated."""
        if device not in made:
            made[device] = simulate(domain, source, settings, detectors=faces, device=device)
        return made[device]

    return Work(
        lambda device: work.replay_memory(result(device), **more),
        lambda device: work.replay(result(device), device=device, **more),
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
    "tracking, adaptive metric": lambda size: tracking(size, whole=False, metric=Adaptive()),
    "tracking, FODs": fods,
    "tensors": tensors,
    "tensors, many volumes": lambda size: tensors(size, volumes=40),
    "tensors, a shell of whole numbers": lambda size: tensors(size, volumes=40, kind=np.int16, shells=(0, 1000)),
    "tensors, of a brain": lambda size: tensors(size, volumes=50, whole=False),
    "FODs": lambda size: deconvolution(size, lmax=6, precision="single"),
    "FODs, several tissues": lambda size: deconvolution(size, tissues=2),
    "FODs, no response": lambda size: deconvolution(size, own=True),
    "noise": noise,
    "noise, whole numbers": lambda size: noise(size, kind=np.int16),
    "noise, magnitudes": lambda size: noise(size, rician=True),
    "connectome": connectome,
    "connectome, end voxels": lambda size: connectome(size, way="EndVoxels"),
    "connectome, all voxels": lambda size: connectome(size, share=64, points=40, way="AllVoxels"),
    "layers": layers,
    "layers without a map": lambda size: layers(size, absorption="off", angle_bins=4 * size),
    "guide": guide,
    "guide of volumes": lambda size: guide(size, mua_per_mm=0.01, g=0.1),
    "replay": replay,
    "replay of times": lambda size: replay(size, of=("mua",), mean_time=True, detectors=[0]),
}

GPU_CASES = [name for name in CASES if not name.startswith("connectome")]


class Alone:
    """A process with one thread, in which cases are measured one after another."""

    def __init__(self) -> None:
        # what is freed goes back to the system at once, so that the most is that of the arrays
        alone = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
        command = [sys.executable, "-m", "tests.memory_samples"]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self._process = subprocess.Popen(command, cwd=ROOT, env=os.environ | alone, text=True, **pipes)

    def measured(self, name: str, sizes: Sequence[int]) -> list[Measured]:
        """Measure a case in some sizes, after it has compiled what it needs."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([name, *sizes]) + "\n")
        stdin.flush()
        if not (line := stdout.readline()):
            raise RuntimeError(f"{name}: the process has ended; its error is above")
        return [Measured(name, *row) for row in json.loads(line)]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


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
    estimated = work.estimated(device).total
    with cupy.cuda.using_allocator(counted):
        work.run(device)
    return Measured(name, size, estimated, most[0] - before)


def here(name: str, size: int) -> Measured:
    """Measure a case in this process."""
    work = CASES[name](size)
    estimated = work.estimated("cpu").total
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the most so far becomes what there is now
    before = _kilobytes("VmRSS")
    result = work.run("cpu")
    taken = 1024 * (_kilobytes("VmHWM") - before)
    del result
    return Measured(name, size, estimated, taken)


def _kilobytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


if __name__ == "__main__":
    for request in sys.stdin:
        case, *numbers = json.loads(request)
        here(case, WARM)
        sys.stdout.write(json.dumps([here(case, number)[1:] for number in numbers]) + "\n")
        sys.stdout.flush()
