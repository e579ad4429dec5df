"""The head phantom against anatomy and its own promises, and the benchmarks against the tables they come from."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import binary_dilation, distance_transform_edt, label, maximum_filter

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.light import benchmarks as published
from napari_gpubio.light.benchmarks import BENCHMARKS, benchmark
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.phantom import (
    default_detectors,
    default_source,
    head_phantom,
    load_head_phantom,
    write_head_phantom,
)
from napari_gpubio.optics.phantom.anatomy import hemisphere, pia
from napari_gpubio.optics.phantom.head import CSF, GRAY, SCALP, SKULL, WHITE, head_labels, labels_at
from napari_gpubio.optics.phantom.shapes import SULCI, Lattice
from napari_gpubio.optics.surface import label_at, nearest_surface
from napari_gpubio.optics.tissue import head_media

FINE_MM = 0.5
COUNTS = {0: 315683, SCALP: 104991, SKULL: 59964, CSF: 40366, GRAY: 52599, WHITE: 61437}
BLOCKS = {  # corners, world mm
    "left parietal": ((-70, -50, 20), (-25, 0, 80)),
    "right frontal": ((10, 20, 15), (65, 75, 70)),
}


@pytest.fixture(scope="module")
def head() -> Domain:
    return load_head_phantom()


@pytest.fixture(scope="module", params=BLOCKS)
def fine_block(request: pytest.FixtureRequest) -> np.ndarray:
    """Labels of a part of the vault in voxels of 0.5 mm."""
    axes = [np.arange(low, high, FINE_MM) for low, high in zip(*BLOCKS[request.param], strict=True)]
    return labels_at(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))


def litres(domain: Domain, *labels: int) -> float:
    return float(np.isin(domain.labels, labels).sum() * domain.voxel_volume_mm3 / 1e6)


def distance_to(where: np.ndarray) -> np.ndarray:
    """Distance of voxel centers to the border of a region, mm; half a voxel is taken off its nearest center."""
    return distance_transform_edt(~where) * FINE_MM - FINE_MM / 2


def touching(labels: np.ndarray, inner: int, outer: tuple[int, ...]) -> int:
    """Voxels of some labels that share a face with one of another."""
    return int((binary_dilation(labels == inner) & np.isin(labels, outer)).sum())


# -- the sample --------------------------------------------------------------------------------------------------------


def test_the_sample_is_what_the_code_makes(head: Domain) -> None:
    """At each fifth voxel along each axis."""
    voxels = 5 * np.moveaxis(np.indices([(size + 4) // 5 for size in head.shape]), 0, -1)
    assert (labels_at(apply_affine(head.affine, voxels)) != head.labels[::5, ::5, ::5]).mean() < 1e-4


@pytest.mark.long
def test_the_sample_is_the_file_that_the_code_writes(head: Domain, tmp_path: Path) -> None:
    write_head_phantom(tmp_path / "head.nii.gz")
    labels, affine = read_volume(tmp_path / "head.nii.gz")
    np.testing.assert_array_equal(affine, head.affine)
    # a distance may round to the other side of a threshold on another machine
    assert (labels != head.labels).mean() < 1e-4


def test_the_sample_stays_as_it_is(head: Domain) -> None:
    counts = np.bincount(head.labels.ravel())
    assert dict(enumerate(counts.tolist())) == COUNTS
    assert head.labels.dtype == np.uint8
    assert head.path == sample_path("head_phantom.nii.gz")
    assert sample_path("head_phantom.nii.gz").stat().st_size < 300_000


def test_the_property_table_is_filled(head: Domain) -> None:
    assert head.media == head_media(690)
    assert [medium.name for medium in head.media] == ["scalp", "skull", "CSF", "gray matter", "white matter"]
    assert all(medium.source for medium in head.media)
    assert load_head_phantom(wavelength_nm=830).media == head_media(830)
    with pytest.raises(InvalidInput, match="nm"):
        load_head_phantom(wavelength_nm=100)


def test_the_head_has_a_heads_size(head: Domain) -> None:
    tissue = np.argwhere(head.labels > 0)
    width, length, height = (np.ptp(tissue, axis=0) + 1) * head.voxel_sizes_mm
    assert 145 <= width <= 160
    assert 180 <= length <= 200
    assert 135 <= height <= 155
    assert tissue.min() > 0
    assert (tissue.max(axis=0) < np.array(head.shape) - 1).all()
    # an adult brain of 1.2 l is 167 mm long, this one 154 mm; adult CSF, with that of the sulci, is 0.15 to 0.35 l
    assert litres(head, GRAY, WHITE) == pytest.approx(1.2 * (154 / 167) ** 3, rel=0.05)
    assert 0.15 < litres(head, CSF) < 0.35
    assert 0.6 < litres(head, GRAY) / litres(head, WHITE) < 1.4


def test_layers_are_nested_without_leaks(head: Domain) -> None:
    labels = head.labels
    assert touching(labels, 0, (SKULL, CSF, GRAY, WHITE)) == 0
    assert touching(labels, SCALP, (CSF, GRAY, WHITE)) == 0
    assert touching(labels, SKULL, (GRAY, WHITE)) == 0
    for region in (labels == 0, labels > 0, labels >= SKULL, labels >= CSF, labels == SKULL):
        assert label(region)[1] == 1


def test_the_brain_is_one_piece_in_two_hemispheres(head: Domain) -> None:
    pieces, _ = label(head.labels >= GRAY)
    assert np.bincount(pieces.ravel())[1:].max() > 0.98 * (head.labels >= GRAY).sum()
    affine_x, affine_z = head.affine[0, 3], head.affine[2, 3]
    middle = round(-affine_x / 2)
    above_callosum = round((34 - affine_z) / 2)
    midline = head.labels[middle, :, above_callosum:]
    assert set(np.unique(midline)) == {0, SCALP, SKULL, CSF}
    for beside in (middle - 2, middle + 2):
        assert (head.labels[beside, :, above_callosum:] >= GRAY).sum() > 0.5 * (midline == CSF).sum()
    # the callosum, and below it the stem, join them
    assert (head.labels[middle] == WHITE).sum() * 4 > 500


# -- thicknesses -------------------------------------------------------------------------------------------------------
# Of what the code makes, which is what the sample is: that is for `test_the_sample_is_what_the_code_makes`.


@pytest.mark.long
def test_scalp_skull_and_fluid_have_their_thickness(fine_block: np.ndarray) -> None:
    skin = binary_dilation(fine_block == 0) & (fine_block == SCALP)
    scalp = distance_to(fine_block >= SKULL)[skin] + FINE_MM / 2
    assert np.percentile(scalp, [1, 99]) == pytest.approx([6, 6], abs=1.0)
    outer = binary_dilation(fine_block == SCALP) & (fine_block == SKULL)
    skull = distance_to(fine_block >= CSF)[outer] + FINE_MM / 2
    assert np.percentile(skull, [1, 99]) == pytest.approx([7, 7], abs=1.0)
    inner = binary_dilation(fine_block == CSF) & (fine_block == SKULL)
    gap = distance_to(fine_block >= GRAY)[inner] + FINE_MM / 2  # from center to center
    assert gap.min() >= 2.0
    assert 2.0 <= np.median(gap) <= 3.5


@pytest.mark.long
def test_the_cortex_follows_the_folds_with_one_thickness(fine_block: np.ndarray) -> None:
    inner = binary_dilation(fine_block == WHITE) & (fine_block == GRAY)
    thickness = distance_to(fine_block == CSF)[inner] + FINE_MM / 2
    assert np.median(thickness) == pytest.approx(2.9, abs=FINE_MM / 2)
    low, high = np.percentile(thickness, [5, 95])
    assert low > 2.3
    assert high < 4.0


@pytest.mark.long
def test_sulci_and_gyri_have_their_width(fine_block: np.ndarray) -> None:
    sulci = (fine_block == CSF) & (distance_to(fine_block == SKULL) > 5.0)
    assert 1.8 <= slab_width(sulci, fine_block == GRAY) <= 3.0  # on average; they are wider above and close below
    gyri = local_width(fine_block >= GRAY)
    crowns = gyri[(gyri > 6.0) & (gyri < 16.0)]  # more is the white matter between the walls of the block
    assert 8.0 <= np.median(crowns) <= 12.0


def slab_width(region: np.ndarray, walls: np.ndarray) -> float:
    """Width of a slab-like region, mm: twice its volume over the area where it touches its walls."""
    faces = 0
    for axis in range(3):
        for a, b in ((region, walls), (walls, region)):
            faces += (np.delete(a, -1, axis) & np.delete(b, 0, axis)).sum()
    area = faces * FINE_MM**2 / 1.5  # a plane of any direction has 1.5 times its area in faces, on average
    return float(2 * region.sum() * FINE_MM**3 / area)


def local_width(region: np.ndarray) -> np.ndarray:
    """Twice the distance to the border in the middle of a region, mm."""
    depth = distance_transform_edt(region) * FINE_MM
    middles = (maximum_filter(depth, 7) == depth) & region
    return 2 * depth[middles] - FINE_MM


@pytest.mark.parametrize("side", [1, -1])
def test_the_cortex_is_folded(side: int) -> None:
    """A human cortex has two to three times the area of its hull (Zilles et al., Anat. Embryol. 179, 173, 1988)."""
    folded = pia(side)
    hull = folded.lattice.surface(hemisphere(folded.lattice.points))
    assert 1.9 < folded.surface.n / len(hull) < 3.0  # both are crossings of the same lattice, so areas in one unit


def test_the_great_sulci_are_where_they_should_be() -> None:
    """Below the courses of the sulci of the convexity lies fluid; 6 mm below any other point it does in one of five."""
    knots = np.concatenate([np.array(sulcus.course)[1:-1] for sulcus in SULCI[:3]])
    uphill = knots - [20.0, -15.0, 5.0]
    below = knots - 6.0 * uphill / np.linalg.norm(uphill, axis=1, keepdims=True)
    in_fluid = np.concatenate([pia(side).depth_mm(below) < 0 for side in (1, -1)])
    assert in_fluid.mean() > 0.5


def test_the_two_sides_are_alike_and_not_the_same(head: Domain) -> None:
    middle = round(-head.affine[0, 3] / 2)
    reach = min(middle, head.shape[0] - 1 - middle)
    right, left = head.labels[middle + 1 : middle + reach], head.labels[middle - 1 : middle - reach : -1]
    within = (right >= CSF) & (left >= CSF)
    same = (right == left)[within].mean()
    assert 0.6 < same < 0.95
    np.testing.assert_array_equal(right == SKULL, left == SKULL)


# -- any voxel size ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voxel_mm", [pytest.param(3.0, marks=pytest.mark.long), 4.5])
def test_the_anatomy_does_not_depend_on_the_voxels(head: Domain, voxel_mm: float) -> None:
    coarse = head_phantom(voxel_mm)
    np.testing.assert_allclose(coarse.voxel_sizes_mm, voxel_mm)
    assert np.linalg.det(coarse.affine) > 0
    assert litres(coarse, SCALP) == pytest.approx(litres(head, SCALP), rel=0.03)
    assert litres(coarse, SKULL) == pytest.approx(litres(head, SKULL), rel=0.03)
    assert litres(coarse, GRAY, WHITE) == pytest.approx(litres(head, GRAY, WHITE), rel=0.03)
    origin = -coarse.affine[:3, 3] / voxel_mm
    np.testing.assert_allclose(origin, np.round(origin), atol=1e-9)


@pytest.mark.parametrize("voxel_mm", [0.1, 6.0, -2.0, float("nan")])
def test_a_bad_voxel_size_gets_a_sentence(voxel_mm: float) -> None:
    with pytest.raises(InvalidInput, match=r"voxel_mm is .*0\.25 to 5 mm"):
        head_phantom(voxel_mm)


def test_distances_on_a_lattice_are_exact() -> None:
    lattice = Lattice((-12.0, -12.0, -12.0), (12.0, 12.0, 12.0), 1.5)
    radius = np.linalg.norm(lattice.points, axis=-1)
    fine = Lattice(lattice.lowest, lattice.highest, 0.5)
    surface = fine.surface((fine.points**2).sum(axis=-1) - 64.0)  # a level whose slope is not 1
    assert np.abs(np.linalg.norm(surface, axis=-1) - 8.0).max() < 0.01
    distance = lattice.distance(surface, radius - 8.0)
    assert np.abs(distance - (radius - 8.0)).max() < 0.2
    np.testing.assert_allclose(lattice.value(distance, lattice.points[3:5, 4]), distance[3:5, 4])


# -- source and detectors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voxel_mm", [2.0, pytest.param(3.0, marks=pytest.mark.long)])
def test_the_source_emits_into_the_scalp_over_the_left_hand(voxel_mm: float) -> None:
    domain = load_head_phantom() if voxel_mm == 2.0 else head_phantom(voxel_mm)
    source = default_source(domain)
    position, direction = np.array(source.position_mm), np.array(source.direction)
    assert source.kind == "pencil"
    assert label_at(domain.labels, domain.affine, position) == 0
    assert label_at(domain.labels, domain.affine, position + 0.01 * direction) == SCALP
    assert np.linalg.norm(direction) == pytest.approx(1.0)
    assert position[0] < -40
    assert position[2] > 55
    assert abs(position[1] + 15) < 10
    along = [label_at(domain.labels, domain.affine, position + t * direction) for t in np.arange(0.5, 30, 0.5)]
    assert [found for n, found in enumerate(along) if n == 0 or found != along[n - 1]][:4] == [1, 2, 3, 4]


def test_detectors_lie_on_the_scalp_at_their_separations(head: Domain) -> None:
    source = np.array(default_source(head).position_mm)
    detectors = default_detectors(head)
    assert [detector.name for detector in detectors] == ["10 mm", "20 mm", "30 mm", "40 mm"]
    for detector, separation in zip(detectors, (10, 20, 30, 40), strict=True):
        place = np.array(detector.position_mm)
        assert np.linalg.norm(nearest_surface(head.labels, head.affine, place) - place) < 1e-6
        chord = float(np.linalg.norm(place - source))
        around = 2 * 85 * np.arcsin(chord / (2 * 85))  # the vault's radius of curvature is 70 to 100 mm
        assert around == pytest.approx(separation, abs=1.0)


@pytest.mark.parametrize("separation", [0.0, -5.0, 1000.0, float("nan")])
def test_a_bad_separation_gets_a_sentence(head: Domain, separation: float) -> None:
    with pytest.raises(InvalidInput, match="separation"):
        default_detectors(head, [separation])


# -- benchmarks --------------------------------------------------------------------------------------------------------

VOXELS = {  # of each label, from 1; counts of lattice points in balls and cylinders are an independent program's
    "cube60": (216000,),
    "cube60b": (216000,),
    "cube60planar": (216000,),
    "cubesph60b": (216000 - 14328, 14328),
    "diffusion60": (216000,),
    "spherebox": (216000 - 4224, 4224),
    "sphshells": (150248, 14648, 46880, 4224),
    "skinvessel": (800000, 251400, 6468600, 480000),
    "onecube": (1,),
    "twocube": (8,),
    "B1": (10**6,),
    "B2": (10**6 - 64000, 64000),
    "B3": (10**6 - 64000, 64000),
    "skin7": (64, 256, 320, 256, 5184, 640, 18880),
}


@pytest.mark.parametrize("name", VOXELS)
def test_benchmarks_are_built_as_published(name: str) -> None:
    case = benchmark(name)
    domain = case.domain
    assert case.name == name
    assert tuple(np.bincount(domain.labels.ravel())[1:]) == VOXELS[name]
    place = [0.3, 0.1, 0.05]
    np.testing.assert_allclose(domain.world_to_grid(place), place, atol=1e-12)
    assert not case.settings.specular
    assert case.settings.refraction == (name not in ("cube60", "spherebox", "skinvessel"))  # MCX refracts by default
    assert case.settings.time_gates_ns[-1] == (50.0 if name == "skinvessel" else 5.0)
    assert case.reference is not None
    assert 0 < case.reference.error < 0.01 * case.reference.absorbed
    assert case.reference.source
    x, y, z = case.source.position_mm
    assert label_at(domain.labels, domain.affine, (x, y, max(z, 0.0))) > 0  # the source lights the tissue
    assert case.source.direction == (0.0, 0.0, 1.0)
    assert all(detector.position_mm[2] == 0.0 for detector in case.detectors)


def test_there_are_no_other_benchmarks() -> None:
    assert set(BENCHMARKS) == {*VOXELS, "head"}
    with pytest.raises(InvalidInput, match=r"'cube61'; choose one of cube60"):
        benchmark("cube61")


def test_the_planar_source_covers_what_mcx_lights() -> None:
    source = benchmark("cube60planar").source
    width, height, down = source.frame()
    corner = np.array(source.position_mm) - width * source.width_mm / 2 - height * source.height_mm / 2
    np.testing.assert_allclose(corner, [10, 10, -10])
    np.testing.assert_allclose(corner + width * source.width_mm + height * source.height_mm, [50, 50, -10])
    np.testing.assert_allclose(down, [0, 0, 1])


def test_skin_is_the_published_table(shared_data: Path) -> None:
    anchors = json.loads((shared_data / "light" / "anchors.json").read_text())
    table, case = anchors["skin7_600nm"], benchmark("skin7")
    depth = np.bincount(case.domain.labels[0, 0])[1:] * case.domain.voxel_sizes_mm[2]
    for medium, mm, (n, mua, mus, g, cm) in zip(case.domain.media, depth, table["layers"], strict=True):
        assert (medium.n, medium.g) == (n, g)
        assert medium.mua_per_mm == pytest.approx(mua / 10)
        assert medium.mus_per_mm == pytest.approx(mus / 10)
        assert mm == pytest.approx(10 * cm)
    assert case.settings.faces == ("cyclic",) * 4 + ("default",) * 2
    assert case.reference is not None
    expected = anchors["skin_as_voxels"]["expected_A_l_over_1_minus_Rsp"]
    np.testing.assert_allclose(list(case.reference.by_label.values()), expected, rtol=1e-6)
    assert sum(case.reference.by_label.values()) == pytest.approx(case.reference.absorbed, abs=3e-5)
    assert case.reference.absorbed == pytest.approx(table["A"][0] / (1 - table["Rsp"]))


def test_absorption_expected_agrees_with_mcx(shared_data: Path) -> None:
    mcx = json.loads((shared_data / "light" / "anchors.json").read_text())["mcx"]
    for name, (value, tolerance) in mcx["absorbed"].items():
        assert benchmark(name).reference.absorbed == pytest.approx(value, abs=tolerance)
    for name in ("cube60b", "skinvessel", "spherebox"):
        low, high = mcx["absorbed_range"][name]
        assert low < benchmark(name).reference.absorbed < high


def test_the_head_benchmark_has_the_properties_of_the_atlas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "head_labels", lambda voxel_mm: head_labels(4.0 * voxel_mm))  # 1 mm takes seconds
    case = benchmark("head")
    np.testing.assert_allclose(case.domain.voxel_sizes_mm, 4.0)
    values = [(m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in case.domain.media]
    assert values[2] == (0.0004, 0.009, 0.89, 1.37)
    assert values[4] == (0.08, 40.9, 0.84, 1.37)
    assert case.settings.photons == 10**8
    assert label_at(case.domain.labels, case.domain.affine, case.source.position_mm) == 0
    assert case.reference is None
