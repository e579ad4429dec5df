"""The simulated camera: its contrast is what it says, at every flow."""

import threading
from itertools import islice
from typing import Any

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import SimulatedCamera
from napari_gpubio.speckle.live.sources.simulated import (
    BACKGROUND_STEPS,
    CUTOFF,
    STEP_DECORRELATION,
    STEPS,
    VESSEL_STEPS,
    cover,
    exposure_contrast_squared,
    running_sums,
)
from tests.speckle.live.fakes import FakeClock
from tests.speckle.reference import error_of_k2

TILES, EDGE = 24, 64


@pytest.fixture(scope="module")
def sums() -> np.ndarray:
    """Running sums of independent tiles, without their modulus."""
    steps = [np.diff(running_sums(EDGE, seed), axis=0) for seed in range(TILES)]  # differences are exact modulo 2^16
    return np.array(
        [np.concatenate([np.zeros((1, EDGE, EDGE)), step.cumsum(axis=0, dtype=np.int64)]) for step in steps]
    )


def test_the_closed_form_is_the_double_sum() -> None:
    """K^2 = sum over pairs of steps of |g1|^2, over n^2."""
    for n in (1, 2, 8, 20, 63):
        lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        direct = np.exp(-2.0 * STEP_DECORRELATION * lags).sum() / n**2
        assert exposure_contrast_squared(n) == pytest.approx(direct, rel=1e-12)


def test_the_closed_form_tends_to_the_published_one_for_fine_steps() -> None:
    """(exp(-2x) - 1 + 2x) / (2 x^2), x = T / tau_c."""
    n, x = 100_000, 4.0
    published = (np.exp(-2 * x) - 1 + 2 * x) / (2 * x * x)
    assert exposure_contrast_squared(n, x / n) == pytest.approx(published, rel=1e-4)


@pytest.mark.parametrize("steps", [1, BACKGROUND_STEPS, VESSEL_STEPS, STEPS - 1])
def test_the_speckle_has_the_contrast_that_is_stated(sums: np.ndarray, steps: int) -> None:
    """Second moment over independent tiles, against its own standard error, which is what speckle has."""
    exposed = (sums[:, steps] - sums[:, 0]) / steps
    mean = exposed.mean()
    moments = (exposed**2).mean(axis=(1, 2)) / mean**2
    k2 = moments - 2 * exposed.mean(axis=(1, 2)) / mean + 1  # the linearized estimate: its mean is K^2, its error known
    error = k2.std(ddof=1) / np.sqrt(TILES)
    exact = exposure_contrast_squared(steps)
    assert abs(k2.mean() - exact) < 4 * error
    expected = exact * error_of_k2(exact, sums[:, 0].size, CUTOFF)
    assert error == pytest.approx(expected, rel=4 / np.sqrt(2 * (TILES - 1)))  # four of its own standard errors


def test_no_exposure_reaches_the_modulus(sums: np.ndarray) -> None:
    assert sums[:, -1].max() < 65536


def test_an_exposure_is_one_difference_of_the_wrapped_sums(sums: np.ndarray) -> None:
    wrapped = running_sums(EDGE, 3)
    np.testing.assert_array_equal(wrapped[40] - wrapped[9], sums[3, 40] - sums[3, 9])


def frames(camera: SimulatedCamera, n: int) -> np.ndarray:
    camera.open()
    return np.array([frame.pixels.copy() for frame in islice(camera.frames(threading.Event()), n)])


def test_flow_changes_the_vessel_and_nothing_else() -> None:
    """To four standard errors: a tile has so many pixels, and so many exposures that do not overlap in time."""
    camera = SimulatedCamera((128, 128), tile=128, clock=FakeClock())

    def close(k2: float, steps: int) -> Any:
        return pytest.approx(k2, rel=4 * error_of_k2(k2, 128 * 128 * (STEPS // steps), CUTOFF))

    measured = {}
    for flow in (0.5, 1.0, 2.0):
        camera.flow = flow
        images = frames(camera, 60).astype(float)
        vessel, beside = images[:, camera.vessel_rows], images[:, :48]
        measured[flow] = vessel.var() / vessel.mean() ** 2
        assert measured[flow] == close(camera.vessel_contrast_squared, round(flow * VESSEL_STEPS))
        assert beside.var() / beside.mean() ** 2 == close(camera.background_contrast_squared, BACKGROUND_STEPS)
        assert vessel.mean() == pytest.approx(600.0, rel=0.05)
    assert measured[0.5] > measured[1.0] > measured[2.0]


def test_frames_are_12_bits_and_change() -> None:
    camera = SimulatedCamera((100, 90), tile=64, clock=FakeClock())
    camera.flow = 0.05
    images = frames(camera, 8)
    assert images.dtype == np.uint16
    assert images.max() == 4095  # one pattern of mean 600 saturates here and there
    assert len({image.tobytes() for image in images}) == 8


def test_the_same_seed_gives_the_same_frames() -> None:
    one, other = (frames(SimulatedCamera((40, 50), tile=32, clock=FakeClock(), seed=4), 3) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_rate_number_and_end() -> None:
    camera = SimulatedCamera((8, 8), 50.0, n_frames=5, tile=16, clock=FakeClock())
    camera.open()
    came = list(camera.frames(threading.Event()))
    np.testing.assert_allclose([frame.arrived_s - 1000.0 for frame in came], np.arange(5) / 50.0)


@pytest.mark.parametrize(("wanted", "taken"), [(1.0, 1.0), (0.52, 0.5), (0.0, 0.05), (-3.0, 0.05), (99.0, 3.15)])
def test_flow_takes_the_nearest_that_it_can(wanted: float, taken: float) -> None:
    camera = SimulatedCamera((8, 8))
    camera.flow = wanted
    assert camera.flow == pytest.approx(taken)


def test_covering_is_periodic() -> None:
    tile = np.arange(15 * 15, dtype=np.uint16).reshape(15, 15)
    frame = np.zeros((47, 37), np.uint16)
    cover(frame[10:], tile, first_row=10)
    rows, columns = np.mgrid[10:47, 0:37]
    np.testing.assert_array_equal(frame[10:], tile[rows % 15, columns % 15])
    assert not frame[:10].any()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shape": (0, 5)}, r"shape \(0, 5\)"),
        ({"rate_hz": 0.0}, "give a positive number"),
        ({"exposure_ms": 0.0}, "exposure_ms is 0.0; it must be positive"),
        ({"mean_level": float("inf")}, "mean_level is inf"),
    ],
)
def test_what_makes_no_camera(options: dict, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        SimulatedCamera(**options)


def test_a_flow_is_a_number() -> None:
    with pytest.raises(InvalidInput, match="flow is nan"):
        SimulatedCamera((8, 8)).flow = float("nan")
