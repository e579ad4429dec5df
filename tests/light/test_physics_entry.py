"""Light that enters through the smoothed surface of labels: specular loss and refraction, whichever step it meets."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.trust import findings
from napari_gpubio.mcx.io.cases import write_mcx
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.smooth_surface import entered_surface
from napari_gpubio.optics.sources import KINDS, Isotropic, Line, Pencil
from napari_gpubio.optics.surface import above_surface, inward_normal, nearest_surface
from napari_gpubio.probes.forward.work import inside_at
from tests.light.voxel_samples import check_same_bits, fresnel, grid_affine, make_domain, turned_affine

N, RADIUS = 1.37, 13.0
NORMAL = fresnel(1.0, 1.0, N)
BLACK = Medium(label=1, mua_per_mm=1.0, n=N)
FEW = LightSettings(photons=64, batches=2)
pytestmark = pytest.mark.usefixtures("few_builds")


def ball(affine=None, medium=BLACK, inner=0.0, **more):
    """A sphere of voxels, or a shell of it, and its center."""
    affine = grid_affine((1.0, 0.8, 1.2)) if affine is None else affine
    steps = affine[:3, :3]
    shape = np.ceil(2 * RADIUS / np.linalg.norm(steps, axis=0)).astype(int) + 6
    center = affine[:3, 3] + steps @ ((shape - 1) / 2)
    away = np.linalg.norm(np.moveaxis(np.indices(shape), 0, -1) @ steps.T + affine[:3, 3] - center, axis=-1)
    return make_domain((away <= RADIUS) & (away >= inner), medium, affine=affine, **more), center


def directions(count, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, 3))
    return vectors / np.linalg.norm(vectors, axis=1)[:, None]


def onto(center, outward, degrees=0.0, kind="pencil", **more):
    """A source that shines onto a point of the sphere, at an angle from the normal."""
    side = np.cross(outward, directions(1, 9)[0])
    direction = np.sin(np.deg2rad(degrees)) * side / np.linalg.norm(side) - np.cos(np.deg2rad(degrees)) * outward
    start = center + RADIUS * outward - 6.0 * direction
    return KINDS[kind](position_mm=tuple(start), direction=tuple(direction), **more)


def lost(domain, source, device="cpu", settings=FEW):
    return simulate(domain, source, settings, device=device).energy.specular.value


@pytest.mark.parametrize("affine", [None, turned_affine()], ids=["straight", "turned"])
@pytest.mark.parametrize("kind", ["pencil", "disk", "gaussian"])
def test_light_along_the_normal_loses_the_same_everywhere(device, affine, kind):
    domain, center = ball(affine)
    for outward in directions(5):
        assert lost(domain, onto(center, outward, kind=kind), device) == pytest.approx(NORMAL, rel=0.02)


def test_what_touches_the_surface_counts_as_outside():
    """A click, and a place on a face itself."""
    domain, center = ball()
    for outward in directions(20, 1):
        place = nearest_surface(domain.labels, domain.affine, center + 20.0 * outward)
        normal = inward_normal(domain.labels, domain.affine, place)
        for start in (place, above_surface(domain.affine, place, normal)):
            source = Pencil(position_mm=tuple(start), direction=tuple(normal))
            assert lost(domain, source) == pytest.approx(NORMAL, rel=1e-4)
        inside = inside_at(domain, place + 2.0 * normal, normal)
        assert lost(domain, dataclasses.replace(source, position_mm=tuple(inside), entry="smooth")) == 0.0


@pytest.mark.parametrize("degrees", [20.0, 45.0])
def test_oblique_light_is_reflected_and_refracted_as_by_the_sphere(device, degrees):
    domain, center = ball(medium=dataclasses.replace(BLACK, mua_per_mm=0.3))
    expected = fresnel(np.cos(np.deg2rad(degrees)), 1.0, N)
    for outward in directions(5, 2):
        source = onto(center, outward, degrees, entry="smooth")
        result = simulate(domain, source, FEW, device=device)
        assert result.energy.specular.value == pytest.approx(expected, rel=0.2)
        place = np.argwhere(result.fluence > 0) @ domain.affine[:3, :3].T
        weights = result.fluence[result.fluence > 0]
        place -= np.average(place, axis=0, weights=weights)
        ray = np.linalg.eigh((place * weights[:, None]).T @ place)[1][:, -1]
        sine = np.linalg.norm(np.cross(ray, outward))
        assert np.rad2deg(np.arcsin(sine) - np.arcsin(np.sin(np.deg2rad(degrees)) / N)) == pytest.approx(0.0, abs=4.0)


def test_a_wide_beam_meets_each_place_of_a_sphere_at_its_angle():
    domain, center = ball()
    source = onto(center, directions(1, 3)[0], kind="disk")
    start = center - 30.0 * np.array(source.direction)
    source = dataclasses.replace(source, radius_mm=0.9 * RADIUS, position_mm=tuple(start))
    cosines = np.sqrt(1.0 - 0.81 * (np.arange(200) + 0.5) / 200)
    expected = np.mean([fresnel(cosine, 1.0, N) for cosine in cosines])
    assert expected > 1.2 * NORMAL
    assert lost(domain, source, settings=LightSettings(photons=4000)) == pytest.approx(expected, rel=0.07)


def test_only_what_is_meant_enters_through_the_smoothed_surface():
    domain, center = ball()
    outward = directions(1, 4)[0]
    entered = {
        (degrees, entry): bool(VoxelProblem(domain, onto(center, outward, degrees, entry=entry), FEW).surfaces.size)
        for degrees in (0.0, 30.0)
        for entry in ("auto", "smooth", "faces")
    }
    assert [key for key, smooth in entered.items() if smooth] == [(0.0, "auto"), (0.0, "smooth"), (30.0, "smooth")]
    source = onto(center, outward)
    for settings in (dataclasses.replace(FEW, specular=False), dataclasses.replace(FEW, refraction=False)):
        assert not VoxelProblem(domain, source, settings).surfaces.size
    away = dataclasses.replace(source, direction=tuple(outward))
    for other in (away, source.changed_to(Isotropic)):
        assert entered_surface(domain.labels, domain.affine, other) is None
    with pytest.raises(InvalidInput, match="entry is 'round'"):
        Pencil(entry="round")
    with pytest.raises(TypeError, match="entry"):
        Line(entry="smooth")  # it emits in all directions


def test_boxes_and_flat_surfaces_keep_their_faces(device):
    box = make_domain((12, 13, 14), BLACK)
    hollow = np.ones((40, 40, 14), np.uint8)
    hollow[2:5, 2:5, 8:] = 0  # no box, but flat where the light enters
    for domain, middle in ((box, (1.2, 6.4, -2.0)), (make_domain(hollow, BLACK), (28.2, 27.7, -2.0))):
        for direction in ((0, 0, 1), (0.5, -0.1, 1)):
            source = Pencil(position_mm=middle, direction=direction, entry="smooth")
            exact = simulate(domain, dataclasses.replace(source, entry="faces"), FEW, device=device)
            check_same_bits(simulate(domain, source, FEW, device=device), exact)


def test_each_of_several_sources_has_its_own_surface(device):
    domain, center = ball()
    outward = directions(3, 8)
    kinds = ((0.0, "auto"), (0.0, "faces"), (40.0, "smooth"))
    ways = [onto(center, at, degrees, entry=entry) for at, (degrees, entry) in zip(outward, kinds, strict=True)]
    alone = [lost(domain, source) for source in ways]
    assert alone[0] < 0.025 < alone[1]
    together = lost(domain, ways, device, dataclasses.replace(FEW, photons=20_000))
    assert together == pytest.approx(np.mean(alone), rel=0.02)


def test_a_shell_one_voxel_thin():
    domain, center = ball(grid_affine(1.0), inner=RADIUS - 1.0)
    for outward in directions(5, 6):
        place = nearest_surface(domain.labels, domain.affine, center + 20.0 * outward)
        normal = inward_normal(domain.labels, domain.affine, place)
        source = Pencil(position_mm=tuple(above_surface(domain.affine, place, normal)), direction=tuple(normal))
        assert lost(domain, source) == pytest.approx(NORMAL, rel=0.01)


def test_a_result_goes_on_through_the_surface_that_it_began_with():
    domain, center = ball()
    source = onto(center, directions(1, 7)[0])
    problems = [VoxelProblem(domain, dataclasses.replace(source, entry=entry), FEW) for entry in ("auto", "faces")]
    assert problems[0].key != problems[1].key


def test_a_great_loss_is_reported():
    domain, center = ball()
    text = "of the light is reflected where it enters; at normal incidence it is at most 2.4%"
    for degrees, expected in ((0.0, False), (75.0, True)):
        result = simulate(domain, onto(center, directions(1, 8)[0], degrees, entry="smooth"), FEW)
        assert (result.energy.specular.value > 0.1) == expected
        assert any(text in one.sentence and one.status == "warning" for one in findings(result)) == expected


@pytest.mark.parametrize("entry", ["smooth", "faces"])
def test_a_file_of_mcx_says_where_it_reflects_light_otherwise(tmp_path, entry):
    domain, center = ball(grid_affine(1.0))
    beam = Pencil(position_mm=center - [0, 0, RADIUS + 2], direction=(0.1, 0.2, 1.0), entry=entry)
    with noted() as found:
        write_mcx(tmp_path / "ball.json", domain, beam, FEW)
    assert [text for text in found if "smoothed surface" in text] == found
    assert len(found) == (entry == "smooth")
