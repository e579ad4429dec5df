"""Input files for MCX: what is written comes back, and what MCX cannot have is refused."""

import dataclasses
import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.mcx.io.cases import read_mcx, write_mcx
from napari_gpubio.mcx.io.jdata import encode_array
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import KINDS, EmittingVolume, Pattern, Rectangle, Source
from tests.light.voxel_samples import source_of
from tests.mcx.samples import case, irradiance_at

LABELS = np.random.default_rng(4).integers(0, 3, (4, 5, 6)).astype(np.uint8)
MEDIA = (
    Medium(label=1, name="skin", mua_per_mm=0.0191, mus_per_mm=8.25, g=0.92, n=1.37, source="a book"),
    Medium(label=3, mua_per_mm=0.1 / 3, mus_per_mm=1e-7, g=-0.5, n=1.5),
)


def domain(affine=None, labels=None, **fields) -> Domain:
    labels = np.where(LABELS == 2, 3, LABELS) if labels is None else labels
    if affine is None:
        affine = np.diag([0.3, 0.3, 0.3, 1.0])
        affine[:3, 3] = 0.15
    return Domain(labels=labels, affine=affine, media=MEDIA, **{"outside_n": 1.33} | fields)


def source(kind: str, **fields) -> Source:
    own = {
        "position_mm": (0.7, 0.8, -0.1), "direction": (0.2, -0.4, 1.0), "radius_mm": 0.35,
        "half_angle_deg": 17.0, "width_mm": 0.7, "height_mm": 1.1, "length_mm": 0.9, "inner_radius_mm": 0.1,
        "focus_mm": 0.0 if kind == "slit" else -3.0,
        "rayleigh_mm": 0.8, "columns": 4, "rows": 5, "cycles_across": 2.0, "cycles_up": -3.0,
        "phase_deg": 40.0, "phase_up_deg": 75.0, "modulation": 1.0 if kind == "fourier_2d" else 0.7,
        "angle_sd_deg": 8.0, "spread_along": 0.2, "spread_across": 0.4,
    }  # fmt: skip
    pattern = np.random.default_rng(2).random((3, 4)) if kind == "pattern" else None
    return source_of(kind, **own | {"pattern": pattern} | fields)


SETTINGS = LightSettings(
    photons=12345, seed=99, refraction=False, specular=False, exit_map=True, max_detected=77,
    time_gates_ns=(0.5, 1.0, 1.5), faces=("cyclic", "cyclic", "mirror", "escape", "fresnel", "default"),
)  # fmt: skip
DETECTORS = [Detector(position_mm=(0.5, 0.25, 0.0), radius_mm=0.2), Detector(position_mm=(1, 1, 1), radius_mm=0.1)]


def back(tmp_path, *case_) -> LightCase:
    write_mcx(tmp_path / "case.json", *case_)
    return read_mcx(tmp_path / "case.json")


def test_all_numbers_there_and_back(tmp_path):
    found = back(tmp_path, domain(), source("pencil"), SETTINGS, DETECTORS)
    np.testing.assert_array_equal(found.domain.labels, domain().labels)
    np.testing.assert_allclose(found.domain.affine, domain().affine, atol=1e-12)
    assert found.domain.outside_n == 1.33
    assert {m.label: m for m in found.domain.media if m.name != "unused"} == {m.label: m for m in MEDIA}
    assert found.settings == SETTINGS
    for a, b in zip(found.detectors, DETECTORS, strict=True):
        assert (*a.position_mm, a.radius_mm) == pytest.approx((*b.position_mm, b.radius_mm))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("fiber", "cylinder", "normal_cone", "volume")])
def test_sources_there_and_back(tmp_path, kind):
    given = source(kind)
    found = back(tmp_path, domain(), given, LightSettings(), ()).source
    assert found.kind == kind
    np.testing.assert_allclose(found.position_mm, given.position_mm, atol=1e-9)
    np.testing.assert_allclose(found.frame()[2], given.frame()[2], atol=1e-9)
    sizes = [f.name for f in dataclasses.fields(given) if isinstance(f.default, (int, float))]
    assert [getattr(found, s) for s in sizes] == pytest.approx([getattr(given, s) for s in sizes])
    if isinstance(given, Rectangle):
        np.testing.assert_allclose(found.frame(), given.frame(), atol=1e-9)
    if isinstance(given, Pattern):
        np.testing.assert_allclose(found.pattern, given.pattern)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("direction", [(0, 0, 1), (0, -1, 0), (-1, 0, 0)])
def test_a_volume_there_and_back(tmp_path, direction, mirrored):
    """Every cell emits as much at the same place of the grid, however its axes lie."""
    given = domain(np.diag([-0.3 if mirrored else 0.3, 0.3, 0.3, 1.0]))
    emission = np.random.default_rng(3).random((2, 3, 4))
    box = EmittingVolume(
        position_mm=given.grid_to_world((0.6, 0.6, 0.9)), direction=direction, pattern=emission,
        width_axis=(0, 0, 1) if direction != (0, 0, 1) else (0, 1, 0), width_mm=0.6, height_mm=0.9, length_mm=1.2,
    )  # fmt: skip
    found = back(tmp_path, given, box, LightSettings(), ())

    def places(source, volume):
        cells = np.argwhere(np.ones(source.pattern.shape))
        sizes = (source.width_mm, source.height_mm, source.length_mm)
        from_middle = ((cells + 0.5) / source.pattern.shape - 0.5) * sizes
        at = volume.world_to_grid(np.asarray(source.position_mm) + from_middle @ source.frame())
        return {tuple(np.round(place, 6) + 0.0): value for place, value in zip(at, source.pattern.ravel(), strict=True)}

    assert places(found.source, found.domain) == pytest.approx(places(box, given))
    tilted = dataclasses.replace(box, direction=(0.2, -0.4, 1.0))
    with pytest.raises(InvalidInput, match="cells of one voxel along the axes"):
        write_mcx(tmp_path / "case.json", given, tilted, LightSettings())


def irradiance(source: Source, point: np.ndarray) -> float:
    """Of a rectangle with fringes, over its mean."""
    u, v, _ = source.frame()
    across = (point - source.position_mm) @ u / source.width_mm + 0.5
    up = (point - source.position_mm) @ v / source.height_mm + 0.5
    assert -1e-6 < min(across, up) < max(across, up) < 1 + 1e-6
    turns = source.cycles_across * across + source.phase_deg / 360, source.cycles_up * up
    if source.kind == "fourier":
        return 1 + source.modulation * np.cos(2 * np.pi * sum(turns))
    return 1 + np.sin(2 * np.pi * turns[0]) * np.sin(2 * np.pi * (turns[1] + source.phase_up_deg / 360))


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("fields", [
    {"kind": "fourier", "cycles_up": 0.7}, {"kind": "fourier_2d", "modulation": 1.0, "phase_up_deg": 25.0}
])  # fmt: skip
def test_fringes_there_and_back(tmp_path, mirrored, fields):
    """Each point of the rectangle keeps its irradiance, also where the second edge comes to run backwards."""
    affine = np.diag([-0.3 if mirrored else 0.3, 0.3, 0.3, 1.0])
    volume = domain(affine)
    given = source(cycles_across=1.5, position_mm=volume.grid_to_world((0.7, 0.8, -0.1)), **fields)
    found = back(tmp_path, volume, given, LightSettings(), ())
    u, v, _ = given.frame()
    for x, y in ((-0.3, -0.5), (0.3, -0.4), (-0.2, 0.5), (0.1, 0.2)):
        point = np.array(given.position_mm) + x * u + y * v
        there = found.domain.grid_to_world(volume.world_to_grid(point))
        assert irradiance(found.source, there) == pytest.approx(irradiance(given, point), abs=1e-6)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("sector", [None, (20.0, 110.0)])
def test_wedges_there_and_back(tmp_path, mirrored, sector):
    affine = np.diag([-0.3 if mirrored else 0.3, 0.3, 0.3, 1.0])
    volume = domain(affine)
    given = source("radial_line", position_mm=volume.grid_to_world((0.7, 0.8, -0.1)), sector_deg=sector)
    found = back(tmp_path, volume, given, LightSettings(), ()).source
    assert (found.kind, found.length_mm) == ("radial_line", pytest.approx(0.9))
    if sector is None:
        assert found.sector_deg is None
        return
    u, v, _ = given.frame()
    middle = volume.direction_to_grid(np.cos(np.radians(65)) * u + np.sin(np.radians(65)) * v)
    np.testing.assert_allclose(found.frame()[0], middle, atol=1e-9)
    assert found.sector_deg == pytest.approx((-45, 45))


def test_media_voxel_by_voxel_there_and_back(tmp_path):
    inside = LABELS > 0
    random = np.random.default_rng(6)
    given = domain(mua_per_mm=random.random((4, 5, 6)), g=random.random((4, 5, 6)))
    found = back(tmp_path, given, source("pencil"), LightSettings(), ()).domain
    np.testing.assert_array_equal(found.labels > 0, inside)
    for name, of_label in (("mus_per_mm", {1: 8.25, 3: 1e-7}), ("n", {1: 1.37, 3: 1.5})):
        expected = np.vectorize(of_label.get)(np.where(inside, given.labels, 1))
        np.testing.assert_allclose(getattr(found, name)[inside], expected[inside], rtol=1e-6)
    for name in ("mua_per_mm", "g"):
        np.testing.assert_array_equal(getattr(found, name), getattr(given, name))


def test_coefficients_of_one_label_there_and_back(tmp_path):
    given = domain(labels=np.where(LABELS > 0, 3, 0), mus_per_mm=np.full((4, 5, 6), 2.0))
    found = back(tmp_path, given, source("pencil"), LightSettings(), ()).domain
    assert json.loads((tmp_path / "case.json").read_text())["Domain"]["MediaFormat"] == "muamus_float"
    assert (found.g, found.n, found.medium(1).g, found.medium(1).n) == (None, None, -0.5, 1.5)
    np.testing.assert_array_equal(found.mus_per_mm, given.mus_per_mm)


@pytest.mark.parametrize(("inner", "expected"), [
    ([], None),
    ([0.5, 0.9], [-1, 0.5, 0.9, 1]),
    ([0.0], [-1, 0, 1]),
    ([-1.0, -1.0, 0.25], [-1, -1, -1, 0.25, 1]),
])  # fmt: skip
def test_the_table_of_a_phase_function_gets_its_ends(read, inner, expected):
    for node in (inner, encode_array(inner)) if inner else (inner,):
        found = read(case(Domain={"InverseCDF": node})).domain.phase_function
        assert (found is None) == (expected is None)
        if expected:
            assert found.cosines.tolist() == expected


def test_a_phase_function_there_and_back(tmp_path):
    table = TabulatedPhaseFunction.from_density(lambda c: 1 + c**2, points=50)
    given = domain(phase_function=table)
    found = back(tmp_path, given, source("pencil"), LightSettings(), ()).domain.phase_function
    np.testing.assert_array_equal(found.cosines, table.cosines)


def test_faces_that_detect_there_and_back(tmp_path, read):
    """MCX asks whether the face detects before it looks for a detector there."""
    found = read(case(Session={"BCFlags": "r___a_001010"}))
    assert found.settings.faces == ("fresnel", "default", "default", "escape", "default", "default")
    assert [d.face for d in found.detectors[:2]] == ["+j", "-k"]
    assert len(found.detectors) == 6
    again = back(tmp_path, found.domain, found.source, found.settings, found.detectors)
    assert again.detectors == found.detectors
    assert json.loads((tmp_path / "case.json").read_text())["Session"]["BCFlags"] == "r___a_001010"


@pytest.mark.parametrize("direction", [(0, 0, 1), (0, 0, -1), (0.2, -0.4, 1.0), (1, 0, 0)])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("kind", ["disk", "lambertian"])
def test_sectors_there_and_back(tmp_path, direction, mirrored, kind):
    """The edges of the sector and its middle lie where they were in the grid."""
    affine = np.diag([-0.3 if mirrored else 0.3, 0.3, 0.3, 1.0])
    volume = domain(affine)
    given = source(kind, position_mm=volume.grid_to_world((0.7, 0.8, -0.1)), direction=direction, sector_deg=(20, 110))
    found = back(tmp_path, volume, given, LightSettings(), ()).source

    def places(angles, frame):
        return np.array([np.cos(a) * frame[0] + np.sin(a) * frame[1] for a in np.radians(angles)])

    start, stop = found.sector_deg
    ours = places((20, 65, 110), volume.direction_to_grid(given.frame()))
    theirs = places((start, (start + stop) / 2, stop), found.frame())
    np.testing.assert_allclose(theirs if np.allclose(theirs[0], ours[0], atol=1e-6) else theirs[::-1], ours, atol=1e-9)
    assert (found.kind, found.inner_radius_mm) == (kind, pytest.approx(0.1))


@pytest.mark.parametrize(("fields", "words"), [
    ({"kind": "normal_cone"}, "MCX has no source like 'normal_cone'; it has pencil"),
    ({"kind": "fourier_2d", "modulation": 0.5}, "modulation is 0.5; MCX has 1"),
    ({"kind": "fourier", "modulation": 0.0}, "modulation is 0; write it as Planar"),
])  # fmt: skip
def test_sources_that_mcx_lacks(tmp_path, fields, words):
    with pytest.raises(InvalidInput, match=words):
        write_mcx(tmp_path / "case.json", domain(), source(**fields), LightSettings())


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_turned_volume_keeps_its_light(tmp_path, mirrored):
    """MCX has no affine: what is kept is where the light is in the grid."""
    turn, _ = np.linalg.qr(np.random.default_rng(8).normal(size=(3, 3)))
    turn[:, 0] *= np.sign(np.linalg.det(turn)) * (-1 if mirrored else 1)
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * 0.3, (5, -7, 9)
    given, volume = source("pattern"), domain(affine)
    found = back(tmp_path, volume, given, LightSettings(), DETECTORS)
    u, v, _ = given.frame()
    for x, y in ((-0.3, -0.4), (0.3, -0.4), (-0.3, 0.4), (0.1, 0.2)):
        point = np.array(given.position_mm) + x * u + y * v
        there = found.domain.grid_to_world(volume.world_to_grid(point))
        assert irradiance_at(found.source, there) == pytest.approx(irradiance_at(given, point))
    direction = volume.direction_to_grid(given.frame()[2])
    np.testing.assert_allclose(found.domain.direction_to_grid(found.source.frame()[2]), direction, atol=1e-9)
    for a, b in zip(found.detectors, DETECTORS, strict=True):
        here = volume.world_to_grid(b.position_mm)
        np.testing.assert_allclose(found.domain.world_to_grid(a.position_mm), here, atol=1e-9)


def test_the_file_is_what_mcx_takes(tmp_path):
    write_mcx(tmp_path / "case.json", domain(), source("line"), SETTINGS, DETECTORS)
    root = json.loads((tmp_path / "case.json").read_text())
    assert root["Domain"]["OriginType"] == 1
    assert root["Domain"]["MediaFormat"] == "byte"
    assert [row["mua"] for row in root["Domain"]["Media"]] == [0, 0.0191, 0, 0.1 / 3]
    assert root["Shapes"]["_ArraySize_"] == root["Domain"]["Dim"] == [4, 5, 6]
    assert root["Session"]["BCFlags"] == "cmrca_"
    assert "MinEnergy" not in root["Session"]
    assert all(len(row) == 2 for row in root["Optode"]["Detector"])
    assert (root["Optode"]["Source"]["Type"], root["Optode"]["Source"]["Dir"][3]) == ("slit", "_NaN_")
    np.testing.assert_allclose([root["Forward"][key] for key in ("T0", "T1", "Dt")], [0.5e-9, 1.5e-9, 0.5e-9])


def labeled(label: int) -> Domain:
    """Voxels of labels 1 and another one."""
    labels = np.ones((2, 3, 4), np.uint16)
    labels[1] = label
    return Domain(labels=labels, affine=np.eye(4), media=(Medium(label=1), Medium(label=label, mua_per_mm=0.5)))


def test_many_labels(tmp_path):
    found = back(tmp_path, labeled(3000), source("pencil"), LightSettings(), ())
    np.testing.assert_array_equal(found.domain.labels, labeled(3000).labels)
    assert json.loads((tmp_path / "case.json").read_text())["Domain"]["MediaFormat"] == "short"
    assert found.domain.medium(3000).mua_per_mm == 0.5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"domain": domain(np.diag([0.3, 0.3, 0.5, 1.0]))}, "0.3 x 0.3 x 0.5 mm; MCX has cubic voxels only"),
        ({"source": source("fiber")}, "no source like 'fiber'"),
        ({"source": source("cylinder")}, "no source like 'cylinder'"),
        ({"settings": LightSettings(time_gates_ns=(0, 1, 3))}, "gates of one width only"),
        ({"detectors": [Detector(position_mm=(0, 0, 0), normal=(0, 0, 1))]}, "no flat"),
        ({"domain": domain(phase_function=TabulatedPhaseFunction(cosines=[-1, 1]))}, "2 cosines from -1 to 1"),
        ({"domain": domain(phase_function=TabulatedPhaseFunction(cosines=[0, 1]))}, "2 cosines from 0 to 1"),
        ({"domain": labeled(4000)}, "highest label is 4000"),
        ({"domain": labeled(3990), "detectors": DETECTORS * 10}, "20 detectors"),
        ({"patterns": np.ones((2, 3, 4))}, "kind 'pencil', and patterns lie on a rectangle"),
        ({"source": [source("planar")] * 2, "patterns": np.ones((2, 3, 4))}, "2 sources, and a stack of patterns"),
    ],
)
def test_what_mcx_cannot_have(tmp_path, given, words):
    with pytest.raises(InvalidInput, match=words):
        write_mcx(
            tmp_path / "case.json",
            **{"domain": domain(), "source": source("pencil"), "settings": LightSettings(), **given},
        )
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_can_be_written(tmp_path):
    found = back(tmp_path, domain(outside_n=np.float32(1.33)), source("pencil"), LightSettings(), ())
    assert found.domain.outside_n == pytest.approx(1.33)


@pytest.mark.parametrize("start", [-90.0, -200.0, 20.0])
def test_sectors_are_written_at_positive_azimuths(tmp_path, start):
    """MCX takes a sector without a positive azimuth for a full disk."""
    given = source("disk", direction=(0, 0, 1), width_axis=(1, 0, 0), sector_deg=(start, start + 80))
    write_mcx(tmp_path / "case.json", domain(), given, LightSettings())
    edges = json.loads((tmp_path / "case.json").read_text())["Optode"]["Source"]["Param1"][2:]
    assert min(edges) >= 0
    assert np.degrees(edges) == pytest.approx([start % 360, start % 360 + 80])
