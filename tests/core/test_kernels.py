"""From a .cu file to a kernel: splicing, caching, compiling for every GPU in use, registers and spills."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.files import atomic_write
from napari_gpubio.denoise import DenoiseSettings
from napari_gpubio.denoise.kernels.anlm.gpu import BUILDS
from napari_gpubio.denoise.kernels.anlm.gpu import defines_of as anlm_defines
from napari_gpubio.denoise.settings import Large, Small
from napari_gpubio.diffusion.kernels.csd.gpu import defines_of as csd_defines
from napari_gpubio.diffusion.kernels.mppca.gpu import defines_of as mppca_defines
from napari_gpubio.diffusion.kernels.peaks.gpu import defines_of as peak_defines
from napari_gpubio.fibers.kernels.fixels.gpu import defines_of as fixel_defines
from napari_gpubio.fibers.kernels.lifted.gpu import defines_of as lifted_defines
from napari_gpubio.fibers.kernels.rays.gpu import defines_of as ray_defines
from napari_gpubio.fibers.kernels.streamlines.gpu import defines_of as streamline_defines
from napari_gpubio.layered.kernels.layers import gpu as layered_gpu
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.kernels.voxels.gpu import defines_of
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Layer
from napari_gpubio.optics.sources import KINDS
from napari_gpubio.speckle.kernels.contrast.gpu import defines_of as speckle_defines
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.denoise.samples import problem_of
from tests.light.voxel_samples import source_of
from tests.speckle.kernel_builds import recipes_of

PACKAGE = Path(kernels.__file__).parents[1]
SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.cu"))
ARCHITECTURES = ("sm_90", "sm_75", "sm_80", "sm_120")
# The defines that an engine really compiles a file with; a file that is not named here is compiled with none.
BOTH_REALS = [("REAL=float",), ("REAL=double",)]
RAYS = [ray_defines(real) for real in (np.float32, np.float64)]
SOURCE_KINDS = sorted(
    {
        VoxelProblem(None, source_of(kind, pattern=pattern, focus_mm=focus), LightSettings()).kind
        for kind in KINDS
        for pattern in [np.ones((1, 1, 1) if kind == "volume" else (1, 1))]
        for focus in (0.0, 5.0)
    }
)
VOXELS = [
    (f"LABEL={label}", f"CONTINUOUS={continuous}", f"DETECT={detect}", f"GATED={gated}", "THIN=0", "SOURCE_KIND=0")
    for label in ("unsigned char", "unsigned short")
    for continuous in (0, 1)
    for detect in (0, 1)
    for gated in (0, 1)
]
VOXELS += [(*VOXELS[0][:-1], f"SOURCE_KIND={kind}") for kind in SOURCE_KINDS if kind]
VOXELS += [(*VOXELS[0][:-2], "THIN=1", "SOURCE_KIND=0")]
VOXELS += [(*VOXELS[0][:-1], "SEVERAL=1"), (*VOXELS[0][:-1], "SOURCE_KIND=4", "SHARED=1")]
VOXELS += [(*VOXELS[0], "SMOOTH=1")]
VOXELS += [(VOXELS[0][0], "CONTINUOUS=2", *VOXELS[0][2:]), (*VOXELS[0][:-1], "PHASE_TABLE=1", "SOURCE_KIND=0")]
VOXELS += [(*VOXELS[0][:-1], f"ANISOTROPY={model}", "SOURCE_KIND=0") for model in (1, 2, 3)]
REPLAYS = [(*defines, f"RECORD={record}") for defines in (VOXELS[2], VOXELS[7]) for record in ("SCORES", "TRAILS")]
LAYERS = [
    ("THREADS=256", f"CACHE={cache}", f"HISTORY={history}", f"ABSORPTION={absorption}", f"COLLECT={collect}")
    for cache in (0, 1)
    for history in (0, 1)
    for absorption, collect in ((0, 1), (1, 0), (1, 1))
    if absorption or not cache  # there is nothing to keep
]
ANLM = [
    anlm_defines(problem_of(np.ones((9, 9, 9)), settings, voxel_size_mm=sizes, calibration=(1.0,)), BUILDS[0])
    for settings, sizes in (
        (DenoiseSettings(), (1, 1, 1)),
        (DenoiseSettings(), (1, 1, 2)),
        (DenoiseSettings(patches=Small(), preselection="coupe"), (1, 1, 1)),
        (DenoiseSettings(patches=Large(), preselection="itk", center="largest"), (1, 1, 1)),
        (DenoiseSettings(noise_model="rician", preselection="none"), (1, 1, 1)),
    )
]
MPPCA = [mppca_defines(real, in_shared) for real in (np.float32, np.float64) for in_shared in (True, False)]
CSD = [csd_defines(count, real) for real in (np.float64, np.float32) for count in (45, 15, 28, 66, 91)]
STREAMLINES = [streamline_defines(lmax, real) for real in (np.float32, np.float64) for lmax in (8, 4, 12)]
FIXELS = [fixel_defines(real) for real in (np.float32, np.float64)]
LIFTED = [lifted_defines(lmax, real) for real in (np.float32, np.float64) for lmax in (6, 4, 8)]
SPECKLE = {
    name: [speckle_defines(recipe) for recipe in recipes_of(name)] for name in ("windows", "sequences", "direct")
}
SPECIALIZATIONS = {
    "denoise/kernels/anlm/anlm.cu": ANLM,
    "dose/kernels/histogram/dvh.cu": [("LABEL=unsigned char",), ("LABEL=unsigned short",)],
    "diffusion/kernels/csd/csd.cu": CSD,
    "fibers/kernels/fixels/fixels.cu": FIXELS,
    "fibers/kernels/lifted/lifted.cu": LIFTED,
    "diffusion/kernels/mppca/mppca.cu": MPPCA,
    "diffusion/kernels/peaks/peaks.cu": [peak_defines(lmax) for lmax in (8, 4, 12)],
    "fibers/kernels/rays/geodesic.cu": RAYS,
    "fibers/kernels/streamlines/streamlines.cu": STREAMLINES,
    "diffusion/kernels/tensors/tensors.cu": BOTH_REALS,
    "light/kernels/voxels/voxels.cu": VOXELS + REPLAYS,
    "probes/kernels/replay/fold.cu": [("LABEL=unsigned char",), ("LABEL=unsigned short",)],
    "layered/kernels/layers/layers.cu": LAYERS,
    **{f"speckle/kernels/contrast/{name}.cu": defines for name, defines in SPECKLE.items()},
}
# Compiled with ``strict=True`` by their engines.
STRICT = {
    "denoise/kernels/fluence/fluence.cu",
    "dose/kernels/histogram/dvh.cu",
    "probes/kernels/replay/fold.cu",
    "speckle/kernels/contrast/direct.cu",
    "speckle/kernels/contrast/sequences.cu",
    "speckle/kernels/contrast/windows.cu",
    "fibers/kernels/bootstrap/bootstrap.cu",
    "diffusion/kernels/csd/csd.cu",
    "fibers/kernels/fixels/fixels.cu",
    "fibers/kernels/lifted/lifted.cu",
    "diffusion/kernels/multitissue/constrained.cu",
    "diffusion/kernels/peaks/peaks.cu",
    "fibers/kernels/rays/geodesic.cu",
    "fibers/kernels/streamlines/streamlines.cu",
    "fibers/kernels/transport/transport.cu",
    "diffusion/kernels/tensors/tensors.cu",
    "tractograms/kernels/traversal/traversal.cu",
}
# Compiled with ``fast=True`` by an engine too.
FAST = {"denoise/kernels/anlm/anlm.cu", "light/kernels/voxels/voxels.cu", "layered/kernels/layers/layers.cu"}
# Files that mix float with double because they mean double.
DOUBLE_ON_PURPOSE = {
    "probes/kernels/replay/fold.cu",
    "speckle/kernels/contrast/direct.cu",
    "fibers/kernels/bootstrap/bootstrap.cu",
    "fibers/kernels/transport/transport.cu",
    "diffusion/kernels/tensors/tensors.cu",
    "tractograms/kernels/traversal/traversal.cu",
}
# Registers a kernel may use at most, on any architecture; 255 for one that is not named here. A tenth more than was
# measured with NVRTC 13.5, since compilers differ.
REGISTERS = {
    "fill_uniform": 32,
    **{f"pack {' '.join(defines)}": 56 for defines in RAYS},
    f"trace_linear {' '.join(RAYS[0])}": 157,
    f"trace_eudx {' '.join(RAYS[0])}": 112,
    f"trace_eudx {' '.join(RAYS[1])}": 195,
    "trace_vanaart_texture": 148,
    "fit_rows REAL=float": 144,
    "fit_rows REAL=double": 144,
    "compose_rows REAL=float": 64,
    "compose_rows REAL=double": 64,
    "eigen_rows REAL=float": 72,
    "eigen_rows REAL=double": 72,
    **{f"denoise_voxels {' '.join(defines)}": most for defines, most in zip(MPPCA, (80, 80, 104, 88), strict=True)},
    **{f"trace_photons {' '.join(defines)}": 64 for defines in VOXELS + REPLAYS},  # its launch bounds leave no more
    **{f"fold_batches {' '.join(defines)}": 80 for defines in VOXELS + REPLAYS},
    **{f"trace_layers {' '.join(defines)}": 64 for defines in LAYERS},  # so that four blocks share a processor
    **{f"trace_simply {' '.join(defines)}": 72 for defines in LAYERS},
    **{f"fill_spatial {' '.join(SPECKLE['windows'][n])}": most for n, most in ((0, 63), (1, 71), (2, 63))},
}
# Bytes a kernel may spill; none for one that is not named here. These are a few words around function calls.
SPILLS = {
    # So that two blocks share a processor, which is faster.
    **{f"find_least {' '.join(defines)}": 48 for defines in ANLM},
    **{f"average {' '.join(defines)}": 64 for defines in ANLM},
    **{f"tally_voxels LABEL=unsigned {label}": 24 for label in ("char", "short")},  # so that three blocks share one
    f"trace_vanaart {' '.join(RAYS[1])}": 16,  # 12 on sm_90, 4 on sm_120
    **{f"trace_photons {' '.join(defines)}": 32 for defines in VOXELS},
    **{f"deconvolve_rows {' '.join(defines)}": 56 for defines in CSD},  # with few coefficients: 36, by NVRTC 13.0 56
    **{f"trace_first_order {' '.join(defines)}": 120 for defines in STREAMLINES},
    **{f"trace_second_order {' '.join(defines)}": 40 for defines in STREAMLINES},
    **{f"trace_peaks {' '.join(defines)}": 68 for defines in STREAMLINES},  # by NVRTC 13.0; 40 by 13.5
    **{f"trace {' '.join(defines)}": 96 for defines in LIFTED},
    f"trace {' '.join(FIXELS[0])}": 72,  # of 128 registers, so that as many blocks share a processor
    # Few photons are traced again, and they wait for what they note: 96 on sm_120, 52 at most elsewhere.
    **{f"trace_photons {' '.join(defines)}": 96 for defines in REPLAYS},
    **{f"trace_simply {' '.join(defines)}": 24 for defines in LAYERS},  # 20 without the map on sm_80 and sm_90
    # Around the frames' edges and in builds with a dark frame; 36 at most.
    **{
        f"{name} {' '.join(defines)}": 40
        for name in ("fill_spatial", "fill_from_sums", "fill_temporal", "fill_directly")
        for builds in SPECKLE.values()
        for defines in builds
    },
}
# Each file is compiled in its first build, with --all in every one.
BUILDS = [
    pytest.param(source, defines, id=" ".join((source, *defines)), marks=[pytest.mark.long] * bool(number))
    for source in SOURCES
    for number, defines in enumerate(SPECIALIZATIONS.get(source, [()]))
]
# The first build of a file for each architecture, the others for one of them in turn: budgets hold for any.
TARGETS = [
    pytest.param(
        source,
        defines,
        architecture,
        id=" ".join((source, *defines, architecture)),
        marks=[pytest.mark.long] * (number > 0 or architecture != ARCHITECTURES[0]),
    )
    for source in SOURCES
    for number, defines in enumerate(SPECIALIZATIONS.get(source, [()]))
    for architecture in (ARCHITECTURES[number % len(ARCHITECTURES)],) * bool(number) or ARCHITECTURES
]


@pytest.fixture(autouse=True)
def _fresh_texts():
    kernels.source.cache_clear()
    yield
    kernels.source.cache_clear()


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder / "main.cu"


def test_nested_includes_are_spliced_in_once(tmp_path):
    main = write(
        tmp_path,
        main_cu='#include "a.cuh"\n#include "b.cuh"\n#include "a.cuh"  // again\nint main_text;\n',
        a_cuh='#pragma once\n#include "b.cuh"\nint a_text;\n',
        b_cuh="#pragma once\nint b_text;\n",
    )
    text = kernels.source(main)
    assert re.findall(r"\w+_text", text) == ["b_text", "a_text", "main_text"]
    assert "#include" not in text
    assert "#pragma once" not in text


def test_headers_of_core_are_found_changed_ones_are_seen_and_missing_ones_named(tmp_path):
    assert "struct Philox" in kernels.source(write(tmp_path, main_cu='#include "philox.cuh"\n'))
    for text in ("int one;\n", "int two;\n"):
        main = write(tmp_path, main_cu='#include "a.cuh"\n', a_cuh=text)
        kernels.source.cache_clear()  # as a new process would
        assert text in kernels.source(main)
    kernels.source.cache_clear()
    with pytest.raises(GpuBioError, match=r"'gone\.cuh' is missing"):
        kernels.source(write(tmp_path, main_cu='#include "gone.cuh"\n'))


def test_options():
    assert kernels.options() == ("-std=c++17",)
    assert kernels.options(defines=("REAL=float", "N=3")) == ("-std=c++17", "-DREAL=float", "-DN=3")
    assert "--fmad=false" in kernels.options(strict=True)
    assert kernels.options(defines=("N=3",), fast=True) == ("-std=c++17", "-DN=3", "--use_fast_math", "-DFAST_MATH")


def test_a_kernel_is_compiled_once_for_each_device(fake_gpu, tmp_path, monkeypatch):
    gpu = fake_gpu(count=2)
    compiled = []
    whole = gpu.module.RawModule
    monkeypatch.setattr(gpu.module, "RawModule", lambda **how: compiled.append(how) or whole(**how))
    path = write(tmp_path, main_cu='extern "C" __global__ void put(REAL* x) { x[threadIdx.x] = REAL(7); }\n')
    for index in (0, 1, 0):
        with gpu.module.cuda.Device(index):
            out = gpu.module.zeros(4, np.float64)
            kernels.kernel(path, "put", defines=("REAL=double",), strict=True)((1,), (4,), (out,))
            assert out.get().tolist() == [7, 7, 7, 7]
    assert [how["options"] for how in compiled] == [("-std=c++17", "-DREAL=double", "--fmad=false")] * 2


def test_voxels_are_compiled_as_the_engine_does():
    assert set(SPECIALIZATIONS) | STRICT | FAST <= set(SOURCES)

    def problem(itemsize=1, continuous=False, detectors=(), edges=(0.0, 5.0), *, table=None, **more):
        domain = SimpleNamespace(is_continuous=continuous, phase_function=table)
        other = {
            "has_own_g_or_n": False,
            "settings": LightSettings(time_gates_ns=edges),
            "kind": 0,
            "is_thin": False,
            "anisotropy": 0,
            "others": (),
            "shares": None,
            "surfaces": np.zeros(0),
        }
        rows = np.zeros(1, f"u{itemsize}")
        return SimpleNamespace(rows=rows, domain=domain, detectors=detectors, **{**other, **more})

    used = {
        defines_of(problem(itemsize, continuous, detectors, edges))
        for itemsize in (1, 2)
        for continuous in (False, True)
        for detectors in ((), ("one",))
        for edges in ((0.0, 5.0), (1.0, 5.0), (0.0, 1.0, 5.0))
    }
    used |= {defines_of(problem(kind=kind)) for kind in SOURCE_KINDS}
    used |= {defines_of(problem(anisotropy=model)) for model in (1, 2, 3)}
    used |= {defines_of(problem(is_thin=True)), defines_of(problem(others=("one",)))}
    used |= {defines_of(problem(continuous=True, has_own_g_or_n=True)), defines_of(problem(table="some"))}
    used |= {defines_of(problem(kind=4, shares=np.ones((1, 2)))), defines_of(problem(surfaces=np.ones(15)))}
    assert used == set(VOXELS)


def test_layers_are_compiled_as_the_engine_does(fake_gpu, monkeypatch):
    used = set()

    def noted(path, name, *, defines, fast):
        used.add((defines, fast))
        return kernels.kernel(path, name, defines=defines, fast=fast)

    fake_gpu()
    monkeypatch.setattr(layered_gpu, "kernel", noted)
    medium = LayeredMedium(layers=(Layer(mua_per_mm=0.5, mus_per_mm=1.0),))
    for settings in ({"absorption": "off"}, {"absorption": "drop"}, {"absorption": "collect"}):
        problem = LayeredProblem(medium, LayeredSettings(photons=100, **settings))
        for cache in (True, False):
            for history in (True, False):
                variant = layered_gpu.Variant(cache=cache, history=history, shape=(2, 2))
                layered_gpu.Run(problem, device=Device("cuda", (0,)), variant=variant).advance(0, 100)
    assert used == {(defines, True) for defines in LAYERS}


@pytest.mark.parametrize(("source", "defines"), BUILDS)
def test_gxx_does_not_warn_about_a_kernel(cuda_on_cpu, source, defines):
    if "cudaTextureObject_t" in kernels.source(PACKAGE / source):
        return  # no textures on a CPU
    module = cuda_on_cpu(PACKAGE / source, defines=defines)
    assert module.kernels
    kinds = set(re.findall(r"\[(-W\S+?)\]", module.warnings))
    if source in DOUBLE_ON_PURPOSE or "REAL=double" in defines:
        kinds -= {"-Wdouble-promotion"}  # elsewhere double by mistake costs a factor of 2 to 64
    assert not kinds, module.warnings


@pytest.mark.parametrize(("source", "defines", "architecture"), TARGETS)
def test_nvrtc_compiles_a_kernel_within_its_budget(source, defines, architecture):
    for fast in (False, True) if source in FAST else (False,):
        options = kernels.options(defines=defines, strict=source in STRICT, fast=fast)
        log = compile_with_nvrtc(kernels.source(PACKAGE / source), options, architecture)
        assert "warning" not in log
        usages = list(read_usage(log))
        assert usages, log
        for usage in usages:
            build = " ".join((usage.kernel, *defines))
            assert usage.registers <= REGISTERS.get(build, 255), usage
            assert usage.spilled_bytes <= SPILLS.get(build, 0), usage


@dataclass(frozen=True)
class Usage:
    """What ptxas reports of one kernel."""

    kernel: str
    registers: int
    spilled_bytes: int


def read_usage(log: str):
    """Find the kernels in ptxas' verbose log."""
    for entry in re.split(r"Compiling entry function ", log)[1:]:
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", entry)
        registers = re.search(r"Used (\d+) registers", entry)
        assert registers is not None, log
        yield Usage(re.match(r"'(\w+)'", entry)[1], int(registers[1]), max(map(int, spills), default=0))


def compile_with_nvrtc(text: str, options: tuple[str, ...], architecture: str) -> str:
    """Compile to machine code, as CuPy would on that GPU, and return the compiler's log (kept for the next run)."""
    nvrtc = pytest.importorskip(
        "cuda.bindings.nvrtc", reason="no NVRTC: python -m pip install cuda-bindings nvidia-cuda-nvrtc"
    )
    words = [f"--gpu-architecture={architecture}", "-ftz=true", "--ptxas-options=-v", *options]
    key = hashlib.sha256("\0".join([text, *words, str(nvrtc.nvrtcVersion())]).encode()).hexdigest()
    kept = loader.cache_folder() / f"nvrtc-{key[:24]}.log"
    if not kept.is_file():
        with atomic_write(kept) as part:
            part.write_text(nvrtc_log(nvrtc, text, words), encoding="utf-8")
    return kept.read_text(encoding="utf-8")


def nvrtc_log(nvrtc, text: str, options: list[str]) -> str:
    """Compile for real."""

    def done(answer):
        assert answer[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS, nvrtc.nvrtcGetErrorString(answer[0])[1].decode()
        return answer[1] if len(answer) > 1 else None

    program = done(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [word.encode() for word in options])
    log = b" " * done(nvrtc.nvrtcGetProgramLogSize(program))
    done(nvrtc.nvrtcGetProgramLog(program, log))
    done(nvrtc.nvrtcDestroyProgram(program))
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    return log.decode().strip("\0 \n")


def test_the_budget_check_sees_spills():
    # 300 numbers alive at once do not fit in the 64 registers that a block of 1024 threads leaves to each.
    text = """extern "C" __global__ void __launch_bounds__(1024) greedy(const float* a, float* b, int n) {
        float s[300] = {};
        for (int k = 0; k < n; ++k) {
            #pragma unroll
            for (int i = 0; i < 300; ++i) s[i] = s[i] * s[(i + 1) % 300] + a[k * 300 + i];
        }
        #pragma unroll
        for (int i = 0; i < 300; ++i) b[i] = s[i];
    }"""
    (usage,) = read_usage(compile_with_nvrtc(text, (), "sm_90"))
    assert usage.kernel == "greedy"
    assert usage.registers <= 64
    assert usage.spilled_bytes > 0


# -- structs -----------------------------------------------------------------------------------------------------------

STRUCT_TEXT = """
struct Work {
    const float* __restrict__ x;  // read
    float *y;
    int first, count;
    unsigned char kind;
    float frame[3];
    unsigned long long seed;
};
extern "C" __global__ void fill(Work work, int extra) {
    int i = threadIdx.x;
    if (i < work.count) work.y[work.first + i] = work.x[i] * work.frame[2] + float(work.seed) + work.kind + extra;
}
"""
WORK = kernels.struct_layout(
    {
        "x": kernels.POINTER, "y": kernels.POINTER, "first": np.int32, "count": np.int32, "kind": np.uint8,
        "frame": (np.float32, 3), "seed": np.uint64,
    }
)  # fmt: skip


def work_of(x, y, **changes):
    values = {"first": 1, "count": 3, "kind": 7, "frame": (0, 0, 2), "seed": 100, **changes}
    return kernels.struct(WORK, x=x, y=y, **values)


def test_a_struct_has_the_layout_of_the_source():
    assert struct_in(STRUCT_TEXT, "Work") == WORK
    with pytest.raises(LookupError, match="no struct Walk"):
        struct_in(STRUCT_TEXT, "Walk")


def test_a_kernel_takes_a_struct(cuda_on_cpu):
    x, y = np.arange(3, dtype=np.float32), np.zeros(5, np.float32)
    fill = loader.compile_text(STRUCT_TEXT).get_function("fill")
    fill((1,), (32,), (work_of(x, y), np.int32(1000)))
    np.testing.assert_array_equal(y, [0, 1107, 1109, 1111, 0])


def test_the_fields_of_a_struct_are_checked():
    with pytest.raises(TypeError, match="seed"):
        kernels.struct(WORK, x=None, y=None, first=0, count=0, kind=0, frame=(0, 0, 0))
    assert work_of(None, None)["x"] == 0


def test_arrays_in_a_struct_are_watched(fake_gpu):
    fake_gpu()
    import cupy

    fill = cupy.RawModule(code=STRUCT_TEXT, options=(), backend="nvrtc").get_function("fill")
    x, y = cupy.arange(3, dtype=np.float32), cupy.zeros(4, np.float32)
    fill((1,), (32,), (work_of(x, y), np.int32(0)))
    assert y.get().tolist() == [0, 107, 109, 111]
    with pytest.raises(loader.LaunchError, match="outside"):
        fill((1,), (32,), (work_of(x, y, first=2), np.int32(0)))
    with pytest.raises(TypeError, match="y points at no living device array"):
        fill((1,), (32,), (work_of(x, np.zeros(4, np.float32)), np.int32(0)))
