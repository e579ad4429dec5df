"""No light is lost or made in layers, with roulette and without."""

import dataclasses

import numpy as np
import pytest

from tests.light.layered_samples import ENDLESS_MM, GIOVANELLI, GLASS, NUMBERS, SKIN, VAN_DE_HULST, medium, run
from tests.light.layered_truth import COARSE, adding_doubling, check_within
from tests.light.voxel_samples import check_z

MUCH_GLASS = medium(GLASS, (1.37, 0.1, 3.0, 0.8, 1.0), (1.6, *GLASS[1:]), (1.45, 0.3, 1.0, 0.0, 1.0), GLASS)
ENERGY_MEDIA = {
    "skin": SKIN,
    "van de Hulst": VAN_DE_HULST,
    "Giovanelli": GIOVANELLI,
    "much glass": MUCH_GLASS,
    "one strong absorber": medium((1.4, 5.0, 5.0, 0.9, 10.0)),
    "other indices around": dataclasses.replace(MUCH_GLASS, n_above=2.0, n_below=1.8),
}


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize("name", ENERGY_MEDIA)
def test_energy_is_conserved(device, name, threshold):
    result = run(device, ENERGY_MEDIA[name], 5000, roulette_threshold=threshold, **COARSE)
    assert result.total == pytest.approx(1.0, abs=1e-6)
    if result.roulette.error > 0:
        check_within(result.roulette, 0.0)
    else:
        assert result.roulette.value == 0.0


def test_roulette_changes_no_mean(device):
    with_and_without = [run(device, SKIN, 20_000, roulette_threshold=t, batches=32, **COARSE) for t in (0.1, 0.0)]
    for name in NUMBERS[:3]:
        found, expected = (getattr(result, name) for result in with_and_without)
        check_within(found, *expected)
    a, b = (result.A_l for result in with_and_without)
    check_z(a.value - b.value, np.hypot(a.error, b.error))


def test_roulette_is_fair(device):
    """Where nearly every packet ends in it: nothing gained, nothing lost, and the reflectance is that of the slab."""
    result = run(device, medium((1.0, 1.0, 1.0, 0.0, 20.0)), 200_000, roulette_threshold=0.1, **COARSE)
    assert result.roulette.error < 5e-4
    check_within(result.roulette, 0.0)
    expected = adding_doubling(24, 0.5, 40.0, 0.0, 1.0, 1.0)[0]
    check_within(result.diffuse_reflectance, expected, 1e-5)
    check_within(result.absorbed, 1 - expected, 1e-5)


@pytest.mark.parametrize("threshold", [0.0, 1e-4])
def test_an_endless_absorber_lets_no_packet_wander_for_ever(device, threshold):
    """A weight of zero ends; a random walk in a half-space would have no mean number of steps."""
    layers = medium((1.0, 3.0, 1.0, 0.0, ENDLESS_MM))
    result = run(device, layers, 10_000, roulette_threshold=threshold, **COARSE)
    assert result.total == pytest.approx(1.0, abs=1e-6)
    assert result.parameters["seconds"] < 20  # not how fast, but whether they end: without weight they take far longer
