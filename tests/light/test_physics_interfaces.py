"""Light at faces: Snell, Fresnel, total reflection, specular loss; the rules of the outer faces."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Pencil, Planar
from tests.cuda_on_cpu.fake_cupy import FakeGpu
from tests.light.voxel_samples import (
    CLEAR,
    CYCLIC_SIDES,
    MAX_Z,
    OPEN,
    TISSUE,
    check_same_bits,
    check_z,
    fresnel,
    layers,
    make_domain,
    sliced,
    source_of,
)

ALL_ROUND = Detector(position_mm=(10, 10, 10), radius_mm=100.0)
PAIRS = [(1.0, 1.5), (1.5, 1.0), (1.37, 1.4), (1.2, 2.4)]


def run(device, domain, source, *, detectors=(ALL_ROUND,), **settings):
    chosen = LightSettings(**{"photons": 1600, **settings})
    return simulate(domain, source, chosen, detectors=detectors, device=device)


def two_media(axis, n1, n2, **more):
    """A clear block of 20 mm, n1 in its lower half along an axis and n2 in the upper one and outside."""
    labels = np.ones((20, 20, 20), np.uint8)
    labels[(slice(None),) * axis + (slice(10, None),)] = 2
    return make_domain(labels, Medium(label=1, n=n1), Medium(label=2, n=n2), outside_n=n2, **more)


def along(axis, forward, sine):
    """A direction in the plane of an axis and the next one: its cosine with the axis, and its sine on the next."""
    direction = np.zeros(3)
    direction[axis], direction[(axis + 1) % 3] = forward * np.sqrt(1 - sine**2), sine
    return direction


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("n1", "n2"), PAIRS)
@pytest.mark.parametrize("sine", [0.0, 0.2, 0.45])
def test_snell(device, axis, n1, n2, sine):
    """A ray through an interface: its direction behind it, and where it leaves, to a millionth."""
    start = np.full(3, 2.3)
    start[axis] = 0.2
    direction = along(axis, 1, sine)
    source = Pencil(position_mm=start, direction=direction)
    detected = run(device, two_media(axis, n1, n2), source, faces=("escape",) * 6).detected
    behind = along(axis, 1, sine * n1 / n2)
    passed = detected.path_mm[:, 1] > 0
    assert passed.mean() > 0.5
    np.testing.assert_allclose(detected.direction[passed], np.tile(behind, (passed.sum(), 1)), atol=1e-6)
    inside = (10 - start[axis]) / direction[axis]
    exit_at = start + inside * direction + 10 / behind[axis] * behind
    np.testing.assert_allclose(detected.position_mm[passed], np.tile(exit_at, (passed.sum(), 1)), atol=1e-5)
    np.testing.assert_allclose(detected.path_mm[passed], [[inside, 10 / behind[axis]]] * passed.sum(), rtol=1e-6)
    flight = (n1 * inside + n2 * 10 / behind[axis]) / 299.792458
    np.testing.assert_allclose(detected.time_ns[passed], flight, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("n1", "n2"), PAIRS)
@pytest.mark.parametrize("sine", [0.0, 0.5, 0.65])
def test_fresnel(device, axis, n1, n2, sine):
    """The share that an interface reflects; reflected light keeps its angle."""
    start = np.full(3, 3.3)
    start[axis] = 9.7
    direction = along(axis, 1, sine)
    domain = make_domain(
        two_media(axis, n1, n2).labels, Medium(label=1, n=n1), Medium(label=2, n=n2), outside_n=min(n1, n2)
    )
    escape = {"faces": ("escape",) * 6, "photons": 16_000}
    result = run(device, domain, Pencil(position_mm=start, direction=direction), **escape)
    back = result.detected.path_mm[:, 1] == 0
    expected = fresnel(direction[axis], n1, n2)
    check_z(back.mean() - expected, np.sqrt(max(expected * (1 - expected), 1e-9) / 16_000))
    mirrored = direction.copy()
    mirrored[axis] *= -1
    np.testing.assert_allclose(result.detected.direction[back], np.tile(mirrored, (back.sum(), 1)), atol=1e-6)
    assert len(result.detected) == 16_000  # nothing is lost between them


def test_nearly_grazing_light_is_reflected(device):
    sine, n1, n2 = np.sqrt(1 - 1e-4), 1.0, 1.5
    domain = make_domain(two_media(2, n1, n2).labels, Medium(label=1, n=n1), Medium(label=2, n=n2))
    source = Pencil(position_mm=(3, 3, 9.99), direction=along(2, 1, sine))
    result = run(device, domain, source, faces=("escape",) * 6, photons=16_000)
    expected = fresnel(0.01, n1, n2)
    assert 0.9 < expected < 0.97
    back = (result.detected.path_mm[:, 1] == 0).mean()
    check_z(back - expected, np.sqrt(expected * (1 - expected) / 16_000))


@pytest.mark.parametrize("sine", [0.67, 0.9, 0.999])
def test_total_reflection(device, sine):
    """Beyond the critical angle of 1.5 to 1, sin = 0.667, nothing passes."""
    domain = two_media(2, 1.5, 1.0)
    result = run(device, domain, Pencil(position_mm=(3, 3, 9.9), direction=along(2, 1, sine)), faces=("escape",) * 6)
    assert not result.fluence[:, :, 10:].any()
    assert result.detected.path_mm[:, 1].max() == 0


def test_light_is_trapped_between_total_reflections(device):
    """A plate guides light to its end: n = 1.5 in air, 45 degrees, n / c of the whole path."""
    domain = make_domain((41, 3, 4), Medium(label=1, n=1.5))
    source = Pencil(position_mm=(0.5, 1.5, 2.3), direction=(1, 0, 1))
    detected = run(device, domain, source, faces=("escape", "escape") + ("default",) * 4).detected
    np.testing.assert_allclose(detected.position_mm[:, 0], 41.0, atol=1e-5)
    np.testing.assert_allclose(detected.path_mm[:, 0], 40.5 * np.sqrt(2), rtol=1e-5)
    np.testing.assert_allclose(np.abs(detected.direction[:, [0, 2]]), np.sqrt(0.5), atol=1e-6)


def test_without_refraction_light_goes_straight_on(device):
    result = run(
        device, two_media(2, 1.5, 1.0), Pencil(position_mm=(3, 3, 0.5), direction=(0.6, 0, 0.8)), refraction=False
    )
    np.testing.assert_allclose(result.detected.direction, np.tile([0.6, 0, 0.8], (1600, 1)), atol=1e-6)
    assert result.energy.escaped.value == 1.0


# -- entering ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1.0, 1.33, 1.5, 2.5])
@pytest.mark.parametrize("sine", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("lift", [0.0, 2.0])
def test_specular_loss(device, n, sine, lift):
    """Fresnel's share where light enters from air, and Snell's direction within, without any chance."""
    domain = make_domain((20, 20, 20), Medium(label=1, mua_per_mm=0.1, n=n))
    direction = along(2, 1, sine)
    at_surface = np.array([4.4, 8.3, 0.0])
    source = Pencil(position_mm=at_surface - lift * direction, direction=direction)
    result = run(device, domain, source, photons=160, batches=4, faces=("escape",) * 6)
    expected = fresnel(direction[2], 1.0, n)
    assert result.energy.specular.value == pytest.approx(expected, abs=3e-6)
    assert result.energy.entered == pytest.approx(1 - expected, abs=3e-6)
    within = along(2, 1, sine / n)
    length = min(20 / within[2], 15.6 / max(within[0], 1e-9))  # to the far side, or to the next one
    np.testing.assert_allclose(result.detected.direction, np.tile(within, (160, 1)), atol=1e-6)
    np.testing.assert_allclose(result.detected.position_mm, np.tile(at_surface + length * within, (160, 1)), atol=1e-4)
    assert result.energy.absorbed.value == pytest.approx((1 - expected) * -np.expm1(-0.1 * length), abs=1e-5)


@pytest.mark.parametrize(
    ("domain", "settings"),
    [
        (make_domain((5, 5, 5), Medium(label=1, n=1.5), outside_n=1.5), {}),
        (make_domain((5, 5, 5)), {"specular": False}),
        (make_domain((5, 5, 5)), {"refraction": False}),
    ],
    ids=["immersion", "not specular", "no refraction"],
)
def test_light_enters_without_loss(device, domain, settings):
    result = run(device, domain, Pencil(position_mm=(2.5, 2.5, -1.0)), **settings)
    assert result.energy.specular.value == 0.0
    assert result.energy.entered == 1.0


@pytest.mark.parametrize("kind", ["cone", "lambertian", "planar"])
def test_specular_loss_of_a_beam_that_spreads(device, kind):
    """The mean of Fresnel's share over the directions of the source."""
    domain = make_domain((30, 30, 6), Medium(label=1, n=1.5))
    source = source_of(
        kind,
        position_mm=(15, 15, -1e-3),
        half_angle_deg=60.0,
        radius_mm=2.0,
        width_mm=4.0,
        height_mm=4.0,
    )
    result = run(device, domain, source, photons=16_000)
    u = (np.arange(2000) + 0.5) / 2000
    cosines = {"cone": 1 - 0.5 * u, "lambertian": np.sqrt(u), "planar": np.ones(1)}[kind]
    shares = np.array([fresnel(c, 1.0, 1.5) for c in cosines])
    error = max(shares.std() / np.sqrt(16_000), 1e-6)
    check_z(result.energy.specular.value - shares.mean(), error)


def test_a_plate_reflects_back_and_forth(device):
    """Transmittance of a clear plate, all orders: (1 - R) / (1 + R)."""
    domain = make_domain((3, 3, 5), Medium(label=1, n=2.0))
    far = Detector(position_mm=(1.5, 1.5, 5.0), radius_mm=1.0, normal=(0, 0, 1))
    result = run(device, domain, Pencil(position_mm=(1.5, 1.5, -1.0)), detectors=[far], photons=16_000)
    r = fresnel(1.0, 1.0, 2.0)
    passed = (1 - r) / (1 + r)
    assert result.energy.specular.value == pytest.approx(r, abs=1e-6)
    share = passed / (1 - r)  # of the photons that entered
    check_z(result.detected.detected_weight - passed, (1 - r) * np.sqrt(share * (1 - share) / 16_000))


# -- outer faces ------------------------------------------------------------------------------------------------------


def columns(device, domain, source, faces, seed, photons=16_000):
    """Absorbed fraction of each layer, which has a label of its own."""
    result = run(device, domain, source, faces=faces, seed=seed, photons=photons, detectors=())
    assert result.energy.total == pytest.approx(1.0, abs=1e-6)
    return result.absorbed


def check_same_layers(a, b):
    assert set(a) == set(b)
    z = np.array([a[label].z_score(*b[label]) for label in a])
    assert np.abs(z).max() < MAX_Z, z


STRONG = dataclasses.replace(TISSUE, mua_per_mm=0.4, mus_per_mm=3.0)


def test_a_cyclic_column_is_an_endless_slab(device):
    """A pencil in a column of one voxel, the illumination of a whole cyclic area, and a wide slab: the same depths."""
    media = sliced(STRONG, 6)
    column = columns(device, layers((1, 1, 6), *media), Pencil(position_mm=(0.5, 0.5, 0.0)), CYCLIC_SIDES, 1)
    area = Planar(position_mm=(2, 2.5, 0.0), width_mm=4.0, height_mm=5.0)
    check_same_layers(column, columns(device, layers((4, 5, 6), *media), area, CYCLIC_SIDES, 2))
    wide = layers((41, 41, 6), *media)
    check_same_layers(column, columns(device, wide, Pencil(position_mm=(20.5, 20.5, 0.0)), OPEN, 3, photons=8000))


def test_mirrors_are_as_good_as_cyclic_sides(device):
    """For a source in the middle; and a quarter of a domain with mirrors is the whole of it."""
    media = sliced(STRONG, 6)
    mirrors = ("mirror",) * 4 + ("default",) * 2
    middle = Pencil(position_mm=(2.5, 2.5, 0.0))
    five = layers((5, 5, 6), *media)
    check_same_layers(columns(device, five, middle, mirrors, 1), columns(device, five, middle, CYCLIC_SIDES, 2))
    whole = columns(device, layers((8, 8, 6), *media), Pencil(position_mm=(4, 4, 0.0)), OPEN, 3)
    quarter = ("mirror", "default") * 2 + ("default",) * 2
    corner = Pencil(position_mm=(1e-4, 1e-4, 0.0))
    check_same_layers(columns(device, layers((4, 4, 6), *media), corner, quarter, 4), whole)


def test_cyclic_faces_hand_light_over(device):
    """A ray that leaves at one side comes back at the other, voxel by voxel, through any axis."""
    domain = make_domain((4, 5, 6), CLEAR)
    source = Pencil(position_mm=(0.6, 0.7, 0.3), direction=(0.43, 0.61, 0.67))
    faces = ("cyclic",) * 6
    result = run(device, domain, source, faces=faces, time_gates_ns=(0.0, 300 / 299.792458), photons=160)
    assert result.energy.truncated.value == 1.0
    assert result.fluence.sum() == pytest.approx(300, abs=2.0)
    mean = result.fluence.mean()
    assert (result.fluence > 0).all()  # the ray fills the volume
    assert result.fluence.std() / mean < 0.5


def test_mirrors_keep_all_light(device):
    domain = make_domain((4, 4, 4), dataclasses.replace(TISSUE, mua_per_mm=0.1))
    result = run(device, domain, Pencil(position_mm=(2.1, 2.2, 2.3)), faces=("mirror",) * 6, time_gates_ns=(0, 50.0))
    assert result.energy.escaped.value == 0.0
    assert result.energy.absorbed.value == pytest.approx(1.0, abs=1e-3)


def test_a_mirror_reflects_like_light_from_the_mirror_image(device):
    """A ray back from a mirror: the same voxels of one column twice."""
    domain = make_domain((3, 3, 8), Medium(label=1, mua_per_mm=0.2, n=1.0))
    result = run(device, domain, Pencil(position_mm=(1.5, 1.5, 0.0)), faces=("default",) * 5 + ("mirror",))
    edges = np.arange(9.0)
    there = -np.diff(np.exp(-0.2 * edges)) / 0.2
    back = np.exp(-1.6) * there[::-1]
    np.testing.assert_allclose(result.fluence[1, 1], there + back, rtol=1e-5)
    assert result.energy.escaped.value == pytest.approx(np.exp(-3.2), rel=1e-5)


@pytest.mark.parametrize(("rule", "refraction", "reflects"), [
    ("default", True, True), ("default", False, False), ("escape", True, False), ("fresnel", False, True),
])  # fmt: skip
def test_what_a_face_does_at_a_step_of_the_index(device, rule, refraction, reflects):
    """Escape or Fresnel, as set, or as the refraction within the tissue is."""
    domain = make_domain((3, 3, 4), Medium(label=1, n=2.0))
    source = Pencil(position_mm=(1.5, 1.5, 0.5))
    faces = ("escape",) * 5 + (rule,)
    result = run(device, domain, source, faces=faces, refraction=refraction, photons=16_000)
    back = (result.detected.direction[:, 2] < 0).mean()
    expected = fresnel(1.0, 2.0, 1.0) if reflects else 0.0
    check_z(back - expected, np.sqrt(max(expected * (1 - expected), 1e-12) / 16_000))


def light_along_a_face(device, backend=False):
    """Rays that run exactly in a face between voxels, at a mirror, at the surface and at a step of the index."""
    block = make_domain((10, 10, 10), dataclasses.replace(TISSUE, mus_per_mm=0.0))
    step = make_domain(two_media(0, 1.37, 1.5).labels[5:15, :10, :10], *two_media(0, 1.37, 1.5).media)
    mirror = ("mirror",) + ("default",) * 5
    for domain, x, faces in ((block, 0.0, mirror), (block, 0.0, OPEN), (block, 10.0 - 1e-9, OPEN), (step, 5.0, OPEN)):
        for z, direction in ((0.0, (0, 0, 1)), (-1e-3, (0, 0, 1)), (9.9, (0, 0, -1))):
            source = Pencil(position_mm=(x, 5.5, z), direction=direction)
            result = simulate(domain, source, LightSettings(photons=160, faces=faces), device=device)
            assert abs(result.energy.total - 1) < 1e-6, result.energy
            assert result.energy.missed.value == 0, (x, z, result.energy)
            assert result.energy.specular.value < 0.05, (x, z, result.energy)
            if backend:
                check_same_bits(result, simulate(domain, source, result.settings, device="cpu"))


def light_along_a_face_of_a_pretended_gpu():
    with FakeGpu().installed():
        light_along_a_face("cuda", backend=True)


def check_it_ends(call):
    """In a process of its own, since a photon that never ends could not be stopped."""
    command = f"from tests.light import test_physics_interfaces as tests; tests.{call}"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("device", [
    pytest.param("cpu", marks=pytest.mark.long), pytest.param("cuda", marks=pytest.mark.gpu)
])  # fmt: skip
def test_light_along_a_face_comes_to_an_end(device):
    """On the CPU also where there is no g++ for the next one, which sees the same."""
    check_it_ends(f"light_along_a_face({device!r})")


def test_light_along_a_face_has_the_bits_of_its_backend_and_comes_to_an_end(cuda_on_cpu):
    check_it_ends("light_along_a_face_of_a_pretended_gpu()")


def test_the_order_of_labels_means_nothing(device):
    """The same media under other labels: the same bits."""
    a, b = dataclasses.replace(TISSUE, label=1), dataclasses.replace(TISSUE, label=2, n=1.5, mua_per_mm=0.1)
    labels = layers((6, 6, 6), a, b).labels
    swapped = make_domain(labels, a, b)
    renamed = make_domain(labels.astype(int) * 7, dataclasses.replace(b, label=14), dataclasses.replace(a, label=7))
    source = Pencil(position_mm=(3.2, 3.1, 0.0))
    found, expected = (run(device, domain, source) for domain in (renamed, swapped))
    assert found.absorbed == {7: expected.absorbed[1], 14: expected.absorbed[2]}
    np.testing.assert_array_equal(found.gates, expected.gates)
