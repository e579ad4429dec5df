"""MCX files that are written: read back they are the same, and what MCX cannot have is refused."""

import json
import sys

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io.mcx.cases import read_mcx, write_mcx
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.source import KINDS, Source
from tests.light.full_disk import full_disk
from tests.light.mcx_cases import irradiance_at

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
        "kind": kind, "position_mm": (0.7, 0.8, -0.1), "direction": (0.2, -0.4, 1.0), "radius_mm": 0.35,
        "half_angle_deg": 17.0, "width_mm": 0.7, "height_mm": 1.1, "length_mm": 0.9,
    }  # fmt: skip
    pattern = np.random.default_rng(2).random((3, 4)) if kind == "pattern" else None
    return Source(**own | {"pattern": pattern} | fields)


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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("fiber", "cylinder")])
def test_sources_there_and_back(tmp_path, kind):
    given = source(kind)
    found = back(tmp_path, domain(), given, LightSettings(), ()).source
    assert found.kind == kind
    np.testing.assert_allclose(found.position_mm, given.position_mm, atol=1e-9)
    np.testing.assert_allclose(found.frame()[2], given.frame()[2], atol=1e-9)
    assert [getattr(found, s) for s in KINDS[kind]] == pytest.approx([getattr(given, s) for s in KINDS[kind]])
    if kind in ("planar", "pattern"):
        np.testing.assert_allclose(found.frame(), given.frame(), atol=1e-9)
    if given.pattern is not None:
        np.testing.assert_allclose(found.pattern, given.pattern)


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


def test_many_labels(tmp_path):
    labels = np.zeros((3, 4, 5), np.uint16)
    labels[1], labels[2] = 1, 3000
    media = (Medium(label=1), Medium(label=3000, mua_per_mm=0.5))
    given = Domain(labels=labels, affine=np.eye(4), media=media)
    found = back(tmp_path, given, source("pencil"), LightSettings(), ())
    np.testing.assert_array_equal(found.domain.labels, labels)
    assert found.domain.medium(3000).mua_per_mm == 0.5


def anisotropic() -> Domain:
    return domain(np.diag([0.3, 0.3, 0.5, 1.0]))


def labeled(label: int) -> Domain:
    media = (Medium(label=label),)
    return Domain(labels=np.full((2, 2, 2), label), affine=np.eye(4), media=media)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((anisotropic(), source("pencil"), LightSettings(), ()), "0.3 x 0.3 x 0.5 mm; MCX has cubic voxels only"),
        ((domain(), source("fiber"), LightSettings(), ()), "no source like 'fiber'"),
        ((domain(), source("cylinder"), LightSettings(), ()), "no source like 'cylinder'"),
        ((domain(), source("pencil"), LightSettings(time_gates_ns=(0, 1, 3)), ()), "gates of one width only"),
        ((domain(), source("pencil"), LightSettings(), [Detector(position_mm=(0, 0, 0), normal=(0, 0, 1))]), "no flat"),
        ((domain(mua_per_mm=np.ones((4, 5, 6))), source("pencil"), LightSettings(), ()), "voxel by voxel"),
        ((labeled(4000), source("pencil"), LightSettings(), ()), "highest label is 4000"),
        ((labeled(3990), source("pencil"), LightSettings(), DETECTORS * 10), "20 detectors"),
    ],
)
def test_what_mcx_cannot_have(tmp_path, given, words):
    with pytest.raises(InvalidInput, match=words):
        write_mcx(tmp_path / "case.json", *given)
    assert not list(tmp_path.iterdir())


def test_the_name_must_be_json(tmp_path):
    with pytest.raises(InvalidInput, match=r"case.txt does not end in .json"):
        write_mcx(tmp_path / "case.txt", domain(), source("pencil"), LightSettings())


@pytest.mark.skipif(sys.platform == "win32", reason="a process's files have no limit there")
def test_a_full_disk_leaves_the_older_file(tmp_path):
    path = tmp_path / "case.json"
    path.write_text("old")
    labels = np.random.default_rng(0).integers(1, 3, (30, 30, 30))
    big = Domain(labels=labels, affine=np.eye(4), media=(Medium(label=1), Medium(label=2)))
    with full_disk(), pytest.raises(InvalidInput, match="could not be written"):
        write_mcx(path, big, source("pencil"), LightSettings())
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["case.json"]
