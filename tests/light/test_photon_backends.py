"""CUDA photons against their CPU backend: bit for bit with g++ in place of a GPU, and within errors on a real one."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.light.kernels.voxels import cpu, gpu
from napari_gpubio.light.kernels.voxels import problem as problems
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import FACE_RULES, LightSettings
from napari_gpubio.optics.detectors import FACES, Detector, FaceDetector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.scattering_tensors import SCATTERING_MODELS
from napari_gpubio.optics.sources import (
    KINDS,
    AllRound,
    Disk,
    Fourier,
    Gaussian,
    Lambertian,
    Planar,
    RadialLine,
    Slit,
)
from tests.cuda_on_cpu import loader
from tests.light.voxel_samples import check_same_bits, check_z, make_domain, source_of, turned_affine

pytestmark = pytest.mark.daily

MIB = 2**20
GPU = Device("cuda", (0,))
SHAPE, VOXEL_MM = (9, 10, 11), (1.0, 0.7, 1.3)
MIDDLE = (4.5, 3.5, 7.0)
MEDIA = (
    Medium(label=1, mua_per_mm=0.03, mus_per_mm=2.0, g=0.8, n=1.37),
    Medium(label=2, mua_per_mm=0.3, mus_per_mm=0.5, g=-0.3, n=1.5),
    Medium(label=3, mua_per_mm=0.0, mus_per_mm=3.0, g=0.0, n=1.2),
    Medium(label=4, mua_per_mm=8.0, mus_per_mm=0.0, g=1.0, n=1.37),
)
DETECTORS = (
    Detector(position_mm=(4.5, 3.5, 0.0), radius_mm=3.0),
    Detector(position_mm=(9.0, 3.5, 7.0), radius_mm=3.0, normal=(1, 0, 0)),
    Detector(position_mm=(4.5, 3.5, 14.3), radius_mm=2.0, normal=(0, 0.1, -1)),
)
EVERYTHING = {"halves": True, "exit_map": True, "time_gates_ns": (0.01, 0.04, 0.1, 0.5)}


def scene(*, wide_labels=False, **more):
    """Four media and holes, in anisotropic voxels."""
    random = np.random.default_rng(7)
    labels = random.choice([0, 1, 1, 1, 1, 2, 3, 4], size=SHAPE)
    labels[3:6, 4:6, :2] = 1
    media = MEDIA
    if wide_labels:
        labels = labels * 300
        media = tuple(dataclasses.replace(m, label=300 * m.label) for m in MEDIA)
        unused = tuple(dataclasses.replace(MEDIA[0], label=i) for i in range(2, 300))
        labels[0, 0] = np.arange(2, 13)
        labels[:, 0, 0], labels[:, -1] = np.arange(20, 29), np.arange(30, 129).reshape(9, 11)
        labels[:, -2] = np.arange(130, 229).reshape(9, 11)
        labels[-1, :8, :8] = np.arange(229, 293).reshape(8, 8)
        media += unused
    return make_domain(labels, *media, voxel_mm=VOXEL_MM, **more)


def continuous(**more):
    random = np.random.default_rng(8)
    return scene(mua_per_mm=random.random(SHAPE) ** 4, mus_per_mm=3 * random.random(SHAPE), **more)


def fibrous(model="product", **more):
    """Tensors in two thirds of the voxels, each with another direction."""
    random = np.random.default_rng(10)
    axes = random.normal(size=(*SHAPE, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    tensors = 2.5 * np.eye(3) - 2.2 * axes[..., :, None] * axes[..., None, :]
    return scene(
        mus_tensor_per_mm=tensors * (random.random(SHAPE) < 2 / 3)[..., None, None], scattering_model=model, **more
    )


def own_g_and_n(**more):
    """All four properties voxel by voxel, refraction at every face."""
    random = np.random.default_rng(10)
    given = {"g": 2 * random.random(SHAPE) - 1, "n": 1 + random.choice([0.0, 0.3, 0.5], size=SHAPE)}
    return continuous(**given | more)


def thick(**more):
    """Light is scattered in every voxel."""
    domain = scene(**more)
    return domain.with_optics(
        [dataclasses.replace(medium, mus_per_mm=6 * medium.mus_per_mm) for medium in domain.media]
    )


def with_table(**more):
    """A phase function of its own: forward and backward peaks, and a gap between."""
    table = TabulatedPhaseFunction(cosines=[-1.0, -0.9, -0.9, 0.2, 0.8, 0.95, 1.0, 1.0])
    return scene(phase_function=table, **more)


def sources():
    """Every kind, oblique, within the tissue or in front of it; then parts of a disk, and a beam with a focus."""
    sizes = {"radius_mm": 1.5, "length_mm": 4.0, "width_mm": 3.0, "height_mm": 5.0, "half_angle_deg": 35.0}
    image = np.random.default_rng(9).random((4, 6)) ** 3
    for kind in KINDS:
        inside = issubclass(KINDS[kind], AllRound)
        yield source_of(
            kind, position_mm=(4.6, 3.4, 0.9 if inside else -1.0), direction=(0.1, -0.2, 1.0),
            pattern={"pattern": image, "volume": image.reshape(4, 2, 3)}.get(kind), **sizes,
        )  # fmt: skip
    before = {"position_mm": (4.6, 3.4, -1.0), "direction": (0.1, -0.2, 1.0)}
    yield Lambertian(radius_mm=1.5, inner_radius_mm=0.5, sector_deg=(-30.0, 200.0), **before)
    yield Gaussian(radius_mm=1.5, focus_mm=4.0, **before)
    yield Slit(width_mm=3.0, spread_along=0.2, spread_across=0.6, **before)
    yield RadialLine(sector_deg=(-40.0, 90.0), **before | {"position_mm": (4.6, 3.4, 0.9)})
    skewed = {"width_axis": (1.0, 0.2, 0.0), "height_axis": (0.5, 1.0, 0.3)}
    yield Fourier(width_mm=3.0, height_mm=4.0, **before | skewed)
    yield Planar(width_mm=3.0, height_mm=4.0, focus_mm=20.0, **before | skewed)


SOURCES = tuple(sources())
PENCIL = SOURCES[0]
ALL_SOURCES = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)


def settings(photons=400, **changes):
    return LightSettings(photons=photons, **{"batches": 4, "seed": 11, **changes})


def check_backends(domain, source, chosen, detectors=DETECTORS, device="cuda"):
    """Both backends give the same tallies, squares, energy, photons and exits; returns the result."""
    expected = simulate(domain, source, chosen, detectors=detectors, device="cpu")
    found = simulate(domain, source, chosen, detectors=detectors, device=device)
    check_same_bits(found, expected)
    assert found.launched == chosen.photons
    assert abs(found.energy.total - 1.0) < 1e-6
    return found


def on(device, photons=1000, **more):
    chosen = settings(photons, batches=8, **EVERYTHING)
    return simulate(scene(), PENCIL, chosen, detectors=DETECTORS, device=device, **more)


@functools.cache
def by_cpu(photons=1000):
    """All tallies of the scene, on the CPU in one go."""
    return on("cpu", photons)


# -- kernels through g++ ----------------------------------------------------------------------------------------------


@ALL_SOURCES
def test_every_source_has_the_bits_of_its_backend(one_gpu, source):
    result = check_backends(scene(), source, settings(**EVERYTHING))
    assert result.energy.absorbed.value > 0.1
    assert len(result.detected) > 5


@pytest.mark.parametrize("rule", FACE_RULES)
@pytest.mark.parametrize("refraction", [True, False])
def test_every_face_has_the_bits_of_its_backend(one_gpu, rule, refraction):
    chosen = settings(faces=(rule,) * 6, refraction=refraction, exit_map=True)
    result = check_backends(scene(), PENCIL, chosen)
    assert result.energy.absorbed.value > 0.3


def test_mixed_faces_have_the_bits_of_their_backend(one_gpu):
    faces = ("cyclic", "cyclic", "mirror", "escape", "fresnel", "default")
    for refraction in (True, False):
        check_backends(scene(), PENCIL, settings(faces=faces, refraction=refraction))


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 0.1, 1.0])
def test_roulette_has_the_bits_of_its_backend(one_gpu, threshold):
    for specular in (True, False):
        result = check_backends(scene(), PENCIL, settings(roulette_threshold=threshold, specular=specular))
        assert (result.energy.roulette.value != 0) == (threshold > 0)
        assert (result.energy.specular.value > 0.02) == specular


QUICK_BUILDS = (
    ((), scene, True, {}),
    (DETECTORS, continuous, False, EVERYTHING),
    (DETECTORS, thick, False, {}),
    ((), thick, False, EVERYTHING),
)


@pytest.mark.parametrize(
    ("detectors", "make", "wide_labels", "gates"),
    [
        *QUICK_BUILDS,
        *(
            pytest.param(detectors, make, wide, gates, marks=pytest.mark.long)
            for detectors in ((), DETECTORS)
            for make in (scene, continuous, thick)
            for wide, gates in ((False, {}), (False, EVERYTHING), (True, {}))
            if (detectors, make, wide, gates) not in QUICK_BUILDS
        ),
    ],
)
def test_every_build_has_the_bits_of_its_backend(fake_gpu, wide_labels, make, detectors, gates):
    fake_gpu()
    domain, chosen = make(wide_labels=wide_labels), settings(**gates)
    problem = VoxelProblem(domain, PENCIL, chosen, detectors)
    assert problem.rows.dtype == (np.uint16 if wide_labels else np.uint8)
    assert problem.is_thin == (make is not thick and not wide_labels)  # most of many labels scatter much
    result = check_backends(domain, PENCIL, chosen, detectors)
    assert (len(result.detected) > 0) == bool(detectors)


def entering(source, entry):
    """A source whose light enters in a way, if it comes from outside."""
    has_entry = "entry" in {one.name for one in dataclasses.fields(source)}
    return dataclasses.replace(source, entry=entry) if has_entry else source


@pytest.mark.parametrize("numbers", [(0,), (3, 4), (10,), (0, 0, 1)], ids=str)
def test_a_smoothed_surface_has_the_bits_of_its_backend(one_gpu, numbers):
    """A point, beams whose place on the surface differs, all angles; and several sources, of which one meets faces."""
    entries = ["smooth", "smooth", "faces"]
    given = [entering(SOURCES[n], entry) for n, entry in zip(numbers, entries, strict=False)]
    source = given if len(given) > 1 else given[0]
    assert VoxelProblem(scene(), given[0], settings(), others=given[1:]).surfaces.any()
    result = check_backends(scene(), source, settings(2000, **EVERYTHING))
    faces = [entering(one, "faces") for one in given]
    exact = simulate(scene(), faces, settings(2000, **EVERYTHING), device="cpu")
    assert result.energy.specular.value != exact.energy.specular.value > 0


@pytest.mark.parametrize("model", SCATTERING_MODELS)
def test_every_scattering_model_has_the_bits_of_its_backend(one_gpu, model):
    result = check_backends(fibrous(model), SOURCES[1], settings(**EVERYTHING))
    assert len(result.detected) > 5


@pytest.mark.parametrize("model", SCATTERING_MODELS)
def test_tensors_that_are_their_label_s_scattering_have_the_bits_of_the_label(one_gpu, model):
    """On both backends, in a whole volume and, with other tensors where no light comes, in a part of it."""
    domain = make_domain(np.repeat([[[1] * 9 + [0] + [2] * 3]], 5, 0).repeat(6, 1), MEDIA[0], MEDIA[1])
    coefficient = MEDIA[0].musp_per_mm if model == "product" else MEDIA[0].mus_per_mm
    tensors = np.where(domain.labels == 1, coefficient, 0.0)[..., None] * [1, 1, 1, 0, 0, 0]
    partly = np.where((domain.labels == 2)[..., None], [1.0, 2.0, 3.0, 0.5, 0.0, 0.0], tensors)
    chosen = settings(1000, refraction=False, **EVERYTHING)
    source = dataclasses.replace(PENCIL, position_mm=(2.5, 3.2, -1.0))
    expected = simulate(domain, source, chosen, detectors=DETECTORS[:1], device="cpu")
    assert expected.absorbed[2].value == 0
    for given, built in ((tensors, 0), (partly, 1 + SCATTERING_MODELS.index(model))):
        for device in ("cpu", "cuda"):
            with_tensors = domain.with_tensors(given, model)
            assert VoxelProblem(with_tensors, source, chosen).anisotropy == built
            found = simulate(with_tensors, source, chosen, detectors=DETECTORS[:1], device=device)
            found = dataclasses.replace(found, state=dataclasses.replace(found.state, key=expected.state.key))
            check_same_bits(found, expected)


@pytest.mark.parametrize("make", [own_g_and_n, with_table])
def test_own_g_n_and_phase_function_have_the_bits_of_their_backend(one_gpu, make):
    for refraction in (True, False):
        result = check_backends(make(), PENCIL, settings(refraction=refraction, **EVERYTHING))
        assert result.energy.absorbed.value > 0.1
    mixed = ("cyclic", "cyclic", "mirror", "escape", "fresnel", "default")
    check_backends(make(), PENCIL, settings(faces=mixed))


@pytest.mark.parametrize("name", ["g", "n"])
def test_only_g_or_only_n_has_the_bits_of_its_backend(one_gpu, name):
    check_backends(scene(**{name: getattr(own_g_and_n(), name)}), PENCIL, settings())


def test_faces_that_detect_have_the_bits_of_their_backend(one_gpu):
    """Each has what escapes through it and no detector before it in the list has; nothing escapes unlisted."""
    faces = tuple(FaceDetector(face=face) for face in FACES)
    full = make_domain(SHAPE, MEDIA[0], voxel_mm=VOXEL_MM)
    result = check_backends(full, PENCIL, settings(1000), (DETECTORS[0], *faces))
    found = result.detected
    assert found.detected_weight == pytest.approx(result.energy.escaped.value, rel=1e-5)
    ends = np.array(SHAPE) * VOXEL_MM
    for detector, face in enumerate(FACES, 1):
        place = found.of(detector).position_mm[:, "ijk".index(face[1])]
        assert len(place) > 5
        np.testing.assert_allclose(place, ends["ijk".index(face[1])] if face[0] == "+" else 0.0, atol=1e-5)
    check_backends(scene(), PENCIL, settings(), faces)


@pytest.mark.parametrize("gates", [(0.0, 5.0), (0.02, 0.03), (0.0, 0.01, 0.011, 0.5), (0.02, 0.04, 0.08)])
@pytest.mark.parametrize("halves", [False, True])
def test_time_gates_have_the_bits_of_their_backend(one_gpu, gates, halves):
    result = check_backends(continuous(), PENCIL, settings(time_gates_ns=gates, halves=halves))
    assert result.gates.shape == (*SHAPE, len(gates) - 1)
    assert all(result.gates[..., g].any() for g in range(len(gates) - 1))
    assert (result.energy.truncated.value > 0) == (gates[-1] < 0.4)


@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_nothing(one_gpu, order):
    with loader.thread_order(order):
        check_backends(scene(), PENCIL, settings(**EVERYTHING))


def test_turned_and_left_handed_volumes_have_the_bits_of_their_backend(one_gpu):
    domain = make_domain(scene().labels, *MEDIA, affine=turned_affine())
    position, direction = domain.grid_to_world((4.5, 10.2, -1.0)), domain.direction_to_world((0.1, -0.2, 1.0))
    source = Disk(position_mm=position, direction=direction)
    result = check_backends(domain, source, settings(), detectors=())
    assert result.energy.missed.value == 0.0


def test_light_that_misses_has_the_bits_of_its_backend(one_gpu):
    wide = Disk(position_mm=(4.5, 3.5, -1.0), radius_mm=9.0)
    result = check_backends(scene(), wide, settings())
    assert 0.2 < result.energy.missed.value < 0.9


@pytest.mark.parametrize("seed", [0, 2**32 + 5, 2**63 + 1])
def test_seeds_of_64_bits_have_the_bits_of_their_backend(one_gpu, seed):
    check_backends(scene(), PENCIL, settings(photons=100, seed=seed))


def test_photons_beyond_2_to_the_32_have_the_bits_of_their_backend(one_gpu):
    """Their indices need the second word; so do those of the batches' first photons."""
    start, count = 2**33 - 50, 100
    problem = VoxelProblem(scene(), PENCIL, settings(photons=2**34, **EVERYTHING), DETECTORS, batch_size=start)
    parts = []
    for one in (cpu.Run(problem), gpu.Run(problem, device=GPU)):
        for batch in (1, 2):
            one.advance(batch * start, count)
        parts.append(one.snapshot())
        one.close()
    (expected, found) = (part.to_arrays() for part in parts)
    assert set(expected) == set(found)
    for name in ("open_1_path", "open_2_path", "open_1_energy", "open_2_energy", "open_2_done", "exits"):
        np.testing.assert_array_equal(found[name], expected[name])
    assert sorted(found["detected_photons"]) == sorted(expected["detected_photons"])
    assert min(expected["detected_photons"]) > 2**32


@pytest.mark.parametrize(
    "make", [continuous, *(pytest.param(make, marks=pytest.mark.long) for make in (scene, fibrous))]
)
def test_the_kernels_have_no_undefined_behavior(one_gpu, monkeypatch, capfd, make):
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    for source in SOURCES if make is continuous else SOURCES[:3]:
        check_backends(make(), source, settings(photons=40, **EVERYTHING))
    assert "runtime error" not in capfd.readouterr().err


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("model", SCATTERING_MODELS)
def test_scattering_models_on_a_real_gpu_agree_within_errors(model):
    check_real_gpu(fibrous(model), PENCIL)


@pytest.mark.gpu
@ALL_SOURCES
def test_a_real_gpu_agrees_within_errors(source):
    check_real_gpu(scene(), source)


MAX_Z = 5.0  # of hundreds that are looked at; errors come from 16 batches, and one of a thousand is beyond 4


def check_real_gpu(domain, source):
    """The production build rounds differently, so photons part; what they leave behind must not."""
    results = [
        simulate(domain, source, LightSettings(photons=n, seed=n, **EVERYTHING), detectors=DETECTORS, device=device)
        for n, device in ((100_000, "cpu"), (1_000_000, "cuda"))
    ]
    for name in ("absorbed", "escaped", "specular", "missed", "truncated"):
        a, b = (getattr(result.energy, name) for result in results)
        if a.error > 0:
            assert abs(b.z_score(*a)) < MAX_Z, name
    for label in results[0].absorbed:
        assert abs(results[1].absorbed[label].z_score(*results[0].absorbed[label])) < MAX_Z
    a, b = (result.fluence[4, 5, 0] for result in results)
    check_z(a - b, np.hypot(*(result.fluence_error[4, 5, 0] for result in results)))


@pytest.mark.gpu
def test_a_strict_build_on_a_real_gpu_follows_the_photons_of_the_cpu(monkeypatch):
    """Sums, products, quotients and roots are rounded as on the CPU; those of ``fastmath`` are made of them."""

    def strict(path, name, *, defines=(), fast=False):
        return kernels.kernel(path, name, defines=defines, strict=True)

    monkeypatch.setattr(gpu, "kernel", strict)
    expected, found = (on(device, 10_000).detected for device in ("cpu", "cuda"))
    same = np.intersect1d(expected.photon, found.photon)
    assert len(same) >= 0.999 * len(expected)
    a, b = (photons.position_mm[np.isin(photons.photon, same)] for photons in (expected, found))
    assert (np.linalg.norm(a - b, axis=1) < 1e-4).mean() >= 0.999


@pytest.mark.gpu
@pytest.mark.parametrize("chunk", [100, 7919])
def test_chunks_change_nothing_on_a_real_gpu(monkeypatch, in_chunks_of, chunk):
    """Every bit is the same for one build on one kind of GPU."""
    expected = on("cuda", 20_000)
    in_chunks_of(chunk)
    monkeypatch.setattr(problems, "SLOT_BYTES", 0)
    check_same_bits(on("cuda", 20_000), expected)
