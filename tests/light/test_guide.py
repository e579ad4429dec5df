"""Diffusion on voxels, and the guide that it gives: against closed forms, sparse solvers and the Monte Carlo engine."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import spsolve

from napari_gpubio import light, optics
from napari_gpubio.core import by_planes, jit
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.reading import noted
from napari_gpubio.core.steps import Step, drive, with_step
from napari_gpubio.light import guide
from napari_gpubio.light.guide import diffusion_guide
from napari_gpubio.optics import theory
from napari_gpubio.optics.kernels.diffusion.cpu import CpuSolver
from napari_gpubio.optics.kernels.diffusion.gpu import GpuSolver
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import KINDS

TISSUE = Medium(label=1, mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=1.37)
BLOOD = dataclasses.replace(TISSUE, label=2, mua_per_mm=0.45)


# -- the solver -------------------------------------------------------------------------------------------------------


def equations(shape, seed=0):
    """Sinks and conductances over several decades, with voxels that are cut off, and a source."""
    rng = np.random.default_rng(seed)
    outside = rng.random(shape) < 0.1
    sink = np.where(outside, 0, 10.0 ** rng.uniform(-3, 0, shape))
    faces = []
    for axis in range(3):
        face = 10.0 ** rng.uniform(-1, 2, shape)
        closed = outside | np.roll(outside, -1, axis)
        face[closed] = 0
        np.moveaxis(face, axis, 0)[-1] = 0
        faces.append(face.astype(np.float32))
    return sink.astype(np.float32), tuple(faces), np.where(outside, 0, rng.random(shape))


def solved_sparsely(sink, faces, source):
    number = np.arange(sink.size).reshape(sink.shape)
    matrix = diags_array(np.where(sink.ravel() > 0, sink.ravel(), 0).astype(float))
    for axis, face in enumerate(faces):
        low, high = (np.moveaxis(number, axis, 0)[part].ravel() for part in (slice(-1), slice(1, None)))
        c = np.moveaxis(face, axis, 0)[:-1].ravel().astype(float)
        rows, columns = np.concatenate([low, high, low, high]), np.concatenate([low, high, high, low])
        matrix = matrix + coo_array((np.concatenate([c, c, -c, -c]), (rows, columns)), shape=(sink.size,) * 2)
    alone = (matrix.diagonal() == 0).astype(float)
    return spsolve((matrix + diags_array(alone)).tocsc(), source.ravel()).reshape(sink.shape)


@pytest.mark.parametrize("shape", [(13, 10, 7), (1, 9, 30), (16, 16, 16), (3, 2, 2)])
def test_the_solver_against_a_sparse_one(shape):
    sink, faces, source = equations(shape)
    expected = solved_sparsely(sink, faces, source)
    np.testing.assert_allclose(CpuSolver(sink, faces).solve(source), expected, rtol=1e-6, atol=1e-9 * expected.max())


def test_threads_do_not_matter(monkeypatch):
    sink, faces, source = equations((30, 40, 40))
    several = CpuSolver(sink, faces).solve(source)
    monkeypatch.setattr(jit, "thread_count", lambda: 1)
    np.testing.assert_array_equal(CpuSolver(sink, faces).solve(source), several)


def test_the_kernels_in_cuda_solve_the_same(fake_gpu):
    cupy = fake_gpu().module
    sink, faces, source = equations((13, 10, 7))
    given = cupy.asarray(sink), tuple(cupy.asarray(face) for face in faces)
    found = cupy.asnumpy(GpuSolver(*given).solve(cupy.asarray(source)))
    np.testing.assert_allclose(found, CpuSolver(sink, faces).solve(source), rtol=1e-9, atol=1e-12 * found.max())


# -- the guide --------------------------------------------------------------------------------------------------------


def cube(side=31, *, media=(TISSUE,), labels=None, voxel=(1.0, 1.0, 1.0), **more):
    labels = np.ones((side,) * 3, np.uint8) if labels is None else labels
    return Domain(labels=labels, affine=np.diag([*voxel, 1.0]), media=media, **more)


def beam(domain, kind="pencil", **more):
    x, y, _ = (np.array(domain.shape) - 1) / 2 * domain.voxel_sizes_mm
    return KINDS[kind](position_mm=(x, y, -domain.voxel_sizes_mm[2]), direction=(0, 0, 1), **more)


def test_a_point_source_in_an_infinite_medium():
    """The decay is that of transport, 1.1 % below mu_eff here, and so is the level, 4 % above."""
    domain = cube(61, media=(dataclasses.replace(TISSUE, mua_per_mm=0.05, n=1.0),), outside_n=1.0)
    source = optics.Isotropic(position_mm=(30, 30, 30))
    guide = diffusion_guide(domain, source, device="cpu")
    r = np.arange(6, 18)
    found = guide[30 + r, 30, 30]
    ratio = found / theory.fluence_infinite(r.astype(float), domain.media[0])
    assert ratio[0] == pytest.approx(1.04, abs=0.01)
    assert -np.polyfit(r, np.log(r * found), 1)[0] == pytest.approx(0.3892, rel=5e-3)


@pytest.mark.parametrize(("mua", "voxel", "most"), [(0.02, 1.0, 0.02), (1.0, 1.0, 0.02), (1.0, 2.0, 0.04)])
def test_the_decay_is_that_of_the_transport_equation(mua, voxel, most):
    """kappa is .2454 / mm at mu_a .02 and 1.9150 / mm at mu_a 1 (mu_s' 1 / mm), where mu_eff would be 2.45."""
    medium = dataclasses.replace(TISSUE, mua_per_mm=mua, n=1.0)
    domain = cube(labels=np.ones((3, 3, 60), np.uint8), media=(medium,), voxel=(1.0, 1.0, voxel))
    settings = light.LightSettings(faces=("mirror",) * 4 + ("escape",) * 2)
    guide = diffusion_guide(domain, beam(domain, "planar", width_mm=3.0, height_mm=3.0), settings, device="cpu")
    depth = slice(20, 30) if mua < 1 else slice(int(8 / voxel), int(12 / voxel) + 1)
    decay = -np.diff(np.log(guide[1, 1, depth].astype(float))).mean() / voxel
    expected = {0.02: 0.2454, 1.0: 1.9150}[mua]
    assert decay == pytest.approx(expected, rel=most)


def with_vessel(side=40):
    labels = np.ones((side,) * 3, np.uint8)
    x, _, z = np.indices(labels.shape)
    labels[(x - side / 2) ** 2 + (z - 10) ** 2 < 2.6] = 2
    return cube(labels=labels, media=(TISSUE, BLOOD))


def test_beside_the_engine_the_ratio_varies_slowly_also_inside_a_vessel():
    domain = with_vessel()
    settings = light.LightSettings(photons=60_000)
    result = light.simulate(domain, beam(domain), settings, device="cpu")
    guide = diffusion_guide(domain, beam(domain), settings, device="cpu")
    known = (result.fluence > 0) & (result.fluence_error < 0.15 * result.fluence)
    ratio = {label: np.median((result.fluence / guide)[known & (domain.labels == label)]) for label in (1, 2)}
    assert (known & (domain.labels == 2)).sum() > 60
    assert 0.8 < ratio[1] < 1.15
    assert ratio[2] == pytest.approx(ratio[1], rel=0.12), "diffusion by mu_eff alone would be 25 % off in there"


def test_fluence_steps_with_the_square_of_the_index():
    labels = np.ones((20, 20, 20), np.uint8)
    labels[:, :, 10:] = 2
    dense = dataclasses.replace(TISSUE, label=2, mua_per_mm=1e-6, n=1.6)
    domain = cube(labels=labels, media=(dataclasses.replace(TISSUE, mua_per_mm=1e-6), dense))
    settings = light.LightSettings(faces=("mirror",) * 6)
    inside = optics.Isotropic(position_mm=(9.5, 9.5, 5.0))
    guide = diffusion_guide(domain, inside, settings, device="cpu").astype(float)
    assert guide[:, :, 19].mean() / guide[:, :, 0].mean() == pytest.approx((1.6 / 1.37) ** 2, rel=0.02)
    plain = dataclasses.replace(settings, refraction=False)
    level = diffusion_guide(domain, inside, plain, device="cpu")
    assert level[:, :, 19].mean() == pytest.approx(level[:, :, 0].mean(), rel=0.02)


def test_a_mirror_stands_for_the_other_half():
    whole = with_vessel(20)
    half = dataclasses.replace(whole, labels=whole.labels[:, 10:])
    source = optics.Isotropic(position_mm=(9.5, 9.5, 4.0))
    here = dataclasses.replace(source, position_mm=(9.5, 0.0 - 0.499, 4.0))
    mirror = light.LightSettings(faces=("default", "default", "mirror", "default", "default", "default"))
    full = diffusion_guide(whole, source, device="cpu")[:, 10:]
    found = diffusion_guide(half, here, mirror, device="cpu")
    far = np.indices(full.shape)[1] > 2
    np.testing.assert_allclose(found[far] / full[far], 2.0, rtol=0.01, err_msg="all of the light is in one half")


def test_coefficients_by_voxel_are_those_of_the_labels():
    domain = with_vessel(16)
    mua = np.where(domain.labels == 2, BLOOD.mua_per_mm, TISSUE.mua_per_mm)
    continuous = dataclasses.replace(
        domain,
        mua_per_mm=mua,
        mus_per_mm=np.full(domain.shape, 10.0),
        media=(TISSUE, dataclasses.replace(TISSUE, label=2)),
    )
    expected = diffusion_guide(domain, beam(domain), device="cpu")
    np.testing.assert_allclose(diffusion_guide(continuous, beam(domain), device="cpu"), expected, rtol=1e-4)


def test_g_and_n_voxel_by_voxel_are_those_of_labels():
    clear = dataclasses.replace(BLOOD, g=0.5, n=1.5)
    domain = dataclasses.replace(with_vessel(20), media=(TISSUE, clear))
    own = {name: np.choose(domain.labels - 1, [getattr(m, name) for m in domain.media]) for name in ("g", "n")}
    mixed = dataclasses.replace(domain, media=(TISSUE, BLOOD), **own)
    expected = diffusion_guide(domain, beam(domain), device="cpu")
    np.testing.assert_allclose(diffusion_guide(mixed, beam(domain), device="cpu"), expected, rtol=1e-4)


def test_a_phase_function_counts_by_its_mean_cosine():
    table = TabulatedPhaseFunction(cosines=[0.8, 1.0])
    domain = with_vessel(12)
    expected = diffusion_guide(domain, beam(domain), device="cpu")
    media = tuple(dataclasses.replace(medium, g=0.0) for medium in domain.media)
    tabulated = dataclasses.replace(domain, media=media, phase_function=table)
    np.testing.assert_allclose(diffusion_guide(tabulated, beam(domain), device="cpu"), expected, rtol=1e-4)


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "cone", "half_angle_deg": 30.0},
        {"kind": "gaussian", "radius_mm": 3.0},
        {"kind": "pattern", "width_mm": 8.0, "height_mm": 8.0, "pattern": np.eye(3)},
        {"kind": "lambertian", "radius_mm": 2.0},
    ],
    ids=lambda source: source["kind"],
)
def test_any_source_lights_all_tissue_and_nothing_outside(source):
    labels = np.ones((14, 15, 16), np.uint8)
    labels[:, :, 12:] = 0
    domain = cube(labels=labels, voxel=(1.0, 1.0, 1.5))
    guide = diffusion_guide(domain, beam(domain, **source), device="cpu")
    assert guide.dtype == np.float32
    assert (guide[labels > 0] > 0).all()
    assert not guide[labels == 0].any()


def test_the_guide_says_how_far_it_is():
    domain, settings, steps = cube(16), light.LightSettings(photons=100, halves=True), []
    result = light.simulate(domain, beam(domain), settings, device="cpu")
    found = drive(guide.with_guide_steps(result, device="cpu"), steps.append).guide
    np.testing.assert_array_equal(found, diffusion_guide(domain, beam(domain), settings, device="cpu"))
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert done[0] == 0
    assert len(set(done)) > 5
    assert 80 <= done[-1] <= 100


@pytest.mark.parametrize("by_voxel", [False, True])
def test_planes_one_by_one_give_the_same_and_a_step_each(monkeypatch, by_voxel):
    monkeypatch.setattr(guide, "_MAX_LEVELS", 4)
    labels = with_vessel(12).labels.copy()
    labels[:, 9:] = 0
    rng = np.random.default_rng(0)
    limits = {"mua_per_mm": (0.01, 0.1), "mus_per_mm": (1, 10), "g": (0, 0.9), "n": (1.3, 1.5)} if by_voxel else {}
    own = {name: rng.uniform(*pair, labels.shape) for name, pair in limits.items()}
    domain = cube(labels=labels, media=(TISSUE, BLOOD), **own)
    settings = light.LightSettings(faces=("mirror", "escape") * 3)

    def made():
        steps = []
        parts = guide._parts(domain, optics.Pencil(position_mm=(6, 6, 4)), settings, "cpu")
        found = drive(with_step(parts, lambda share: Step(int(100 * share), 100)), steps.append)
        return (found, *guide.conductances(domain, settings)[1]), len(steps)

    whole, few = made()
    monkeypatch.setattr(by_planes, "SLAB", 1)
    planes, many = made()
    np.testing.assert_array_equal(planes, whole)
    passes = 19 if by_voxel else 17  # over all planes
    assert many - few >= passes * (len(labels) - 1)


def test_a_result_whose_guide_does_not_fit_is_kept(monkeypatch):
    monkeypatch.setattr(guide, "guide_memory", lambda *_, **__: Memory(scratch=1 << 60))
    domain, settings = cube(8), light.LightSettings(photons=100, halves=True)
    with noted() as notes:
        result = drive(guide.guided_steps(light.simulate_steps(domain, beam(domain), settings, device="cpu")))
    assert (result.complete, result.guide) == (True, None)
    assert notes[0].startswith("the result has no guide for a denoiser: the simulation needs about")


def test_the_guide_on_a_gpu_is_that_of_the_cpu(fake_gpu):
    domain = with_vessel(12)
    expected = diffusion_guide(domain, beam(domain), device="cpu")
    fake_gpu()
    np.testing.assert_allclose(diffusion_guide(domain, beam(domain), device="cuda"), expected, rtol=1e-4)
