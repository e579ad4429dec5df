"""Photons traced again: CPU and CUDA (through g++) have the same bits, and none goes another way than in its run."""

import dataclasses
import functools
import re
from collections import Counter

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.kernels.voxels import gpu as voxels_gpu
from napari_gpubio.light.run import simulate
from napari_gpubio.probes.jacobians.replay import replay
from napari_gpubio.probes.kernels.replay import cpu, gpu
from napari_gpubio.probes.kernels.replay import problem as problems
from napari_gpubio.probes.trajectories import trajectories
from tests.cuda_on_cpu import loader
from tests.light.test_photon_backends import DETECTORS, PENCIL, SOURCES, continuous, scene, settings
from tests.runs import check_same_methods, check_threads_change_nothing

pytestmark = pytest.mark.daily

EVERYTHING = {"of": ("mua", "mus", "musp"), "mean_time": True, "gates_ns": (0, 0.03, 0.2), "frequency_mhz": 200.0}
EXPLICIT = {f"{name}.rn.ftz.f32" for name in ("add", "mul", "sub")}  # never fused; those of a record are of this kind
FUSED_IN_MEAN_DECAY = 5
TWO = [0, 1]  # detectors that photons reach
GATED = {"halves": True, "exit_map": True, "time_gates_ns": (0.0, 0.04, 0.1, 0.5)}
FACES = ("cyclic", "cyclic", "mirror", "escape", "fresnel", "default")


def run(device, make=scene, source=PENCIL, photons=1000, detectors=DETECTORS, **changes):
    return simulate(make(), source, settings(photons, **changes), detectors=detectors, device=device)


@functools.cache
def by_cpu(photons=1000):
    return run("cpu", photons=photons)


def check_same(found, expected):
    """Everything is the same to the last bit."""
    assert found.channels == expected.channels
    for a, b in zip(found.parts, expected.parts, strict=True):
        for field in dataclasses.fields(b):
            np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name), err_msg=f"{b.name} {field}")


# -- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [scene, continuous])
@pytest.mark.parametrize("changes", [{}, GATED, {"roulette_threshold": 0.1, "faces": FACES}])
def test_derivatives_have_the_bits_of_their_backend(one_gpu, make, changes):
    results = [run(device, make, **changes) for device in ("cpu", "cuda")]
    check_same(*(replay(result, detectors=[0], **EVERYTHING) for result in results))


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)
def test_photons_of_every_source_go_the_same_way_again(one_gpu, source):
    for device in ("cpu", "cuda"):
        result = run(device, source=source, photons=400)
        reached = np.unique(result.detected.detector).tolist()
        assert replay(result, detectors=reached).complete


@pytest.mark.long
def test_a_fused_build_goes_the_same_way_with_and_without_a_record(one_gpu, monkeypatch):
    """A GPU fuses products with sums; what a replay adds to the kernel must not change which.

    `test_a_record_changes_no_operation_of_the_photons_way` looks at it more closely.
    """
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, fused=True))
    if not loader.can_fuse():
        pytest.skip("this processor has no fused multiply-add")
    result = run("cuda", photons=4000)
    assert not np.array_equal(result.detected.weight, by_cpu(4000).detected.weight)
    assert replay(result, detectors=TWO, **EVERYTHING).complete
    assert len(trajectories(result, detectors=TWO)) == 1000


@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_no_derivative(one_gpu, order):
    with loader.thread_order(order):
        check_same(replay(run("cuda"), detectors=TWO), replay(by_cpu(), detectors=TWO))


def test_numba_threads_change_no_derivative(request):
    check_threads_change_nothing(request, lambda: replay(by_cpu(), detectors=TWO), check_same)


@pytest.mark.parametrize("chunk", [1, 7, 300])
@pytest.mark.parametrize("slots", [1, 3, 16])
def test_chunks_and_slots_change_no_derivative(in_chunks_of, monkeypatch, chunk, slots):
    expected = replay(by_cpu(), detectors=TWO, mean_time=True)
    monkeypatch.setattr(problems.ReplayProblem, "slots", slots)
    in_chunks_of(chunk)
    check_same(replay(by_cpu(), detectors=TWO, mean_time=True), expected)


def test_gpus_change_no_derivative(fake_gpu, few_builds, in_chunks_of):
    pretended = fake_gpu(count=2)
    in_chunks_of(40)
    result = run("cuda:0")
    pretended.log.clear()
    found = replay(result, detectors=TWO, device="cuda:0,1")
    check_same(found, replay(by_cpu(), detectors=TWO))
    assert {where for where, name, *_ in pretended.log if name == "trace_photons"} == {0, 1}
    assert not any(pretended.used_bytes.values())


@pytest.mark.parametrize("which", [1, 3, 6, 9, 11, 12])
def test_a_failed_allocation_changes_no_derivative(fake_gpu, few_builds, monkeypatch, which):
    pretended, advance, failed = fake_gpu(), gpu.Run.advance, []
    result = run("cuda")

    def failing_once(self, start, count):
        if not failed:
            failed.append(count)
            pretended.fail_allocations(which)
        advance(self, start, count)

    monkeypatch.setattr(gpu.Run, "advance", failing_once)
    check_same(replay(result, detectors=TWO), replay(by_cpu(), detectors=TWO))
    assert failed


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


def test_a_photon_that_goes_another_way_is_an_error():
    """Of a list of another run, or of another kind of processor."""
    result = by_cpu()
    for name, change in (("weight", lambda w: np.nextafter(w, np.float32(1))), ("time_ns", lambda t: t + 1e-6)):
        rows = getattr(result.detected, name).copy()
        rows[5] = change(rows[5])
        changed = dataclasses.replace(result, detected=dataclasses.replace(result.detected, **{name: rows}))
        with pytest.raises(InvalidInput, match=rf"photon {result.detected.photon[5]} .*same path only on the kind"):
            replay(changed, detectors=TWO)
    photons = result.detected.photon.copy()
    photons[5] += np.uint64(1)
    changed = dataclasses.replace(result, detected=dataclasses.replace(result.detected, photon=photons))
    with pytest.raises(InvalidInput, match=f"photon {photons[5]} "):
        replay(changed, detectors=TWO)
    with pytest.raises(InvalidInput, match=f"photon {photons[5]} "):
        trajectories(changed)


@pytest.mark.parametrize("defines", [("CONTINUOUS=0", "GATED=0"), ("CONTINUOUS=1", "GATED=1")], ids=str)
def test_a_record_changes_no_operation_of_the_photons_way(defines):
    """What the compiler fuses decides about the last bits, and so about where a photon goes."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC: python -m pip install cuda-bindings")
    builds = []
    for record in ((), ("RECORD=SCORES",), ("RECORD=TRAILS",)):
        chosen = kernels.options(defines=("DETECT=1", "SOURCE_KIND=0", *defines, *record), fast=True)
        builds.append(operations_of(ptx_of(nvrtc, kernels.source(voxels_gpu._SOURCE), [*chosen, "-arch=sm_90"])))
    plain, scores, trails = builds
    fused, products = "fma.rn.ftz.f32", "mul.ftz.f32"  # a sum alone may stand in several branches
    assert plain[fused] > 20
    assert (scores[fused], scores[products]) == (plain[fused], plain[products])
    # four kinds of vertices inside voxels have something of their own: the decay of the weight; and a photon that is
    # truncated goes back to where it was at the end of the last gate
    assert trails[fused] - plain[fused] == 4 * FUSED_IN_MEAN_DECAY + 3


def ptx_of(nvrtc, text, options):
    """What the compiler makes of CUDA source text."""

    def done(answer):
        assert answer[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
        return answer[1] if len(answer) > 1 else None

    program = done(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    done(nvrtc.nvrtcCompileProgram(program, len(options), [word.encode() for word in options]))
    ptx = b" " * done(nvrtc.nvrtcGetPTXSize(program))
    done(nvrtc.nvrtcGetPTX(program, ptx))
    done(nvrtc.nvrtcDestroyProgram(program))
    return ptx.decode()


def operations_of(ptx):
    """How often each arithmetic operation on float32 is in the kernel that traces photons."""
    kernel = ptx[ptx.index("trace_photons") :]
    kernel = kernel[: kernel.index("fold_batches")] if "fold_batches" in kernel else kernel
    found = re.findall(r"^\s+(?:@\S+ )?((?:fma|mul|add|sub|div|rcp|sqrt|sin|cos)[a-z0-9.]*\.f32)\s", kernel, re.M)
    return Counter(name for name in found if name not in EXPLICIT)


# -- trajectories -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [scene, continuous])
@pytest.mark.parametrize("changes", [{}, {"roulette_threshold": 0.1, "faces": FACES, "time_gates_ns": (0.0, 0.05)}])
def test_trajectories_have_the_bits_of_their_backend(one_gpu, make, changes):
    expected, found = (
        trajectories(run(device, make, photons=300, **changes), 300, crossings=True, most_vertices=40)
        for device in ("cpu", "cuda")
    )
    for field in dataclasses.fields(expected):
        if field.name not in ("parameters", "domain"):
            np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name), err_msg=field.name)


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("make", [scene, continuous])
def test_photons_of_a_real_gpu_go_the_same_way_again(make):
    result = run("cuda", make, photons=1_000_000, **GATED)
    found = replay(result, detectors=TWO, **EVERYTHING)
    assert found.complete
    assert len(trajectories(result, detectors=TWO)) == 1000
