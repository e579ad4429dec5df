"""Probes: what they must have, registration by landmarks and matrices, and the way to the scalp."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.surface import above_surface
from napari_gpubio.probes.forward import Head, Pair, Probe, place, register
from napari_gpubio.probes.forward.model import TabulatedTissue, head_tissues, labels_named
from napari_gpubio.probes.forward.settings import PencilOptode
from tests.probes.forward.samples import block, medium, probe

LANDMARKS = {"Nz": (0.0, 90.0, -30.0), "LPA": (-75.0, 0.0, -40.0), "RPA": (75.0, 0.0, -40.0), "Cz": (0.0, 0.0, 90.0)}
TURN = np.array([[0.0, -1.0, 0.0], [0.6, 0.0, -0.8], [0.8, 0.0, 0.6]])
SHIFT = np.array([5.0, -7.0, 12.0])


@pytest.fixture(scope="module")
def ball():
    """A ball of 30 mm with a cavity of label 0 in its middle, in voxels of 2 mm."""
    index = np.stack(np.meshgrid(*[np.arange(-18, 19)] * 3, indexing="ij"), -1)
    distance = 2.0 * np.linalg.norm(index, axis=-1)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = -36.0
    labels = ((distance < 30) & (distance > 8)).astype(np.uint8)
    return Domain(labels=labels, affine=affine, media=(medium(0.02),))


def on_ball(radius):
    directions = np.array([[0.0, 0.0, 1.0], [0.6, 0.0, 0.8], [0.0, 0.6, 0.8]])
    places = radius * directions
    return Probe(
        sources=("S1",), source_positions_mm=places[:1], detectors=("D1", "D2"), detector_positions_mm=places[1:]
    )


def test_optodes_lose_what_normal_incidence_does_wherever_they_are(ball):
    rng = np.random.default_rng(3)
    places = rng.normal(size=(12, 3))
    places *= 32.0 / np.linalg.norm(places, axis=1)[:, None]
    spread = Probe(
        sources=tuple("ABCDEFGHIJK"),
        source_positions_mm=places[:11],
        detectors=("D1",),
        detector_positions_mm=places[11:],
    )
    placed = place(spread, ball)
    for point, direction in zip(placed.probe.positions_mm, placed.directions, strict=True):
        source = PencilOptode().source(tuple(above_surface(ball.affine, point, direction)), tuple(direction))
        lost = simulate(ball, source, LightSettings(photons=16, batches=2), device="cpu").energy.specular.value
        assert lost == pytest.approx((0.37 / 2.37) ** 2, rel=1e-3)


# -- probes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": (), "source_positions_mm": np.zeros((0, 3))}, "no sources"),
        ({"source_positions_mm": np.zeros((2, 2))}, r"2 sources and positions of shape \(2, 2\)"),
        ({"detector_positions_mm": [(0, 0, np.nan), (0, 0, 0)]}, "detector D1 is at .*nan"),
        ({"detectors": ("D1", "D1")}, "two detectors are named 'D1'"),
        ({"pairs": ((0, 5),)}, "source 0 and detector 5, counted from 0; there are 2 sources and 2 detectors"),
        ({"pairs": ()}, "list of pairs is empty"),
    ],
)
def test_what_is_no_probe_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        probe(**changes)


def test_without_a_list_all_pairs_are_measured():
    assert probe(pairs=None).all_pairs == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert probe(pairs=((1, 0), (1, 0))).pairs == (Pair(1, 0),)
    assert probe().pair_name(Pair(1, 0)) == "S2D1"


def test_labels_without_a_tissue_are_refused():
    labels = np.array([[[1, 7]]], np.uint8)
    with pytest.raises(InvalidInput, match="no tissue for label 7"):
        Head(labels=labels, affine=np.eye(4), tissues={1: medium(0.02)})
    with pytest.raises(InvalidInput, match="there is no preset 'bone'"):
        Head(labels=labels, affine=np.eye(4), tissues={1: "bone", 7: medium(0.02)})
    head = Head(labels=labels, affine=np.eye(4), tissues={1: medium(0.02), 7: "skull (Strangman 2003)"})
    with pytest.raises(InvalidInput, match=r"skull \(Strangman 2003\) is known at 690, 830 nm, not at 850 nm"):
        head.at(850)
    assert head.at(760).medium(7).label == 7


def test_presets_differ_between_wavelengths():
    tissues = head_tissues("Cassano 2019")
    head = Head(labels=np.full((2, 2, 2), 4, np.uint8), affine=np.eye(4), tissues=tissues, names={4: "cortex"})
    assert head.at(760).medium(4).mua_per_mm != head.at(850).medium(4).mua_per_mm
    assert labels_named(head.at(760), ("Cortex", 4, "4")) == (4,)


def test_tables_by_wavelength():
    tissues = TabulatedTissue.of_tables({760.0: (medium(0.01), medium(0.02, 2)), 850.0: (medium(0.03),)})
    assert tissues[1].medium(850, 1).mua_per_mm == 0.03
    with pytest.raises(InvalidInput, match="label 2 has properties at 760 nm, not at 850 nm"):
        tissues[2].medium(850, 2)


# -- registration -----------------------------------------------------------------------------------------------------


def in_own_frame(positions, scale=1.0):
    return (np.asarray(positions) - SHIFT) @ TURN / scale


@pytest.mark.parametrize("scale", [1.0, 0.9])
def test_landmarks_take_a_probe_to_the_head(scale):
    own = {name.upper(): tuple(in_own_frame(place, scale)) for name, place in LANDMARKS.items()}
    given = on_ball(30.0)
    moved = given.moved(in_own_frame(given.positions_mm, scale), landmarks_mm=own)
    back = register(moved, landmarks_mm=LANDMARKS, scale=scale != 1.0)
    np.testing.assert_allclose(back.positions_mm, given.positions_mm, atol=1e-9)
    np.testing.assert_allclose(back.landmarks_mm["NZ"], LANDMARKS["Nz"], atol=1e-9)
    assert "Registered by nz, lpa, rpa, cz" in back.notes[-1]
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = TURN * scale, SHIFT
    np.testing.assert_allclose(register(moved, affine=matrix).positions_mm, given.positions_mm, atol=1e-9)


def test_landmarks_that_do_not_fit_are_refused():
    given = on_ball(30.0)
    own = dataclasses.replace(given, landmarks_mm=LANDMARKS)
    with pytest.raises(InvalidInput, match="three with the same names"):
        register(own, landmarks_mm={"Nz": (0, 90, -30), "Iz": (0, -90, -30)})
    with pytest.raises(InvalidInput, match="the probe has the landmarks none"):
        register(given, landmarks_mm=LANDMARKS)
    tenth = {name: tuple(np.array(place) / 10) for name, place in LANDMARKS.items()}
    with pytest.raises(InvalidInput, match=r"mm from its place after registration.*check their unit"):
        register(own, landmarks_mm=tenth)
    line = {name: (x, 0.0, 0.0) for x, name in enumerate(("Nz", "LPA", "RPA"))}
    with pytest.raises(InvalidInput, match="lie on a line"):
        register(dataclasses.replace(given, landmarks_mm=line), landmarks_mm=line)
    with pytest.raises(InvalidInput, match="give one of both"):
        register(own)


# -- the scalp --------------------------------------------------------------------------------------------------------


def test_optodes_move_to_the_nearest_surface_and_look_inwards(ball):
    placed = place(on_ball(35.0), ball)
    radii = np.linalg.norm(placed.probe.positions_mm, axis=1)
    np.testing.assert_allclose(radii, 30.0, atol=2.0)
    toward = -placed.probe.positions_mm / radii[:, None]
    assert (np.sum(placed.directions * toward, axis=1) > 0.98).all()
    assert any("moved to the scalp by up to" in note for note in placed.probe.notes)


def test_a_cavity_is_no_scalp(ball):
    inside = place(on_ball(14.0), ball)
    assert (np.linalg.norm(inside.probe.positions_mm, axis=1) > 25).all()


def test_optodes_far_off_are_refused_with_their_distance_and_can_be_projected(ball):
    far = on_ball(52.0)
    with pytest.raises(InvalidInput, match=r"3 of 3 optodes are off the scalp: S1 by 2\d\.\d mm.*project=True"):
        place(far, ball)
    placed = place(far, ball, project=True)
    np.testing.assert_allclose(np.linalg.norm(placed.probe.positions_mm, axis=1), 30.0, atol=2.0)
    assert any("projected onto it" in note for note in placed.probe.notes)
    assert place(far, ball, farthest_mm=30.0).moved_mm.max() < 25


def test_a_probe_in_another_unit_or_frame_is_reported():
    labels = np.zeros((60, 60, 60), np.uint8)
    labels[5:55, 5:55, 5:55] = 1
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    affine[:3, 3] = -118.0
    cube = Domain(labels=labels, affine=affine, media=(medium(0.02),))
    with pytest.raises(InvalidInput, match="positions in cm would fit"):
        place(on_ball(100.0).moved(np.array([[0, 0, 10.0], [3, 0, 10.0], [0, 3, 10.0]])), cube)
    with pytest.raises(InvalidInput, match="another coordinate system: register the probe"):
        place(on_ball(30.0), cube)


def test_a_probe_at_the_scalp_stays(ball):
    on_it = place(on_ball(30.0), ball).probe
    again = place(on_it, ball)
    np.testing.assert_allclose(again.probe.positions_mm, on_it.positions_mm, atol=1e-9)
    assert block().at(760).voxel_volume_mm3 == 1.0
