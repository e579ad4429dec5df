"""Pulsatility of flow against time courses of known rate, shape and noise; statistics of many are in benchmarks."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastMaps, ContrastSettings, contrast, region_curves
from napari_gpubio.speckle.pulsatility import PulsatilitySettings, flow_pulsatility, region_pulsatility
from napari_gpubio.speckle.settings import InverseCorrelationTime, Spatial
from tests.speckle.choices import settings_with
from tests.speckle.pulse_samples import FINE, beat_phase, fluctuations, relative_flow

MEAN = 450.0


def course(rate_hz=1.2, fps=60.0, seconds=20.0, index=0.2, noise=0.0, kind="constant", shape="pulse", seed=0):
    """Times and flow of a region; noise is relative to the mean."""
    rng = np.random.default_rng(seed)
    times = np.arange(int(fps * seconds)) / fps
    phase = beat_phase(times, rate_hz, rng, kind)
    return times, MEAN * (relative_flow(phase, index, shape) + noise * rng.normal(size=len(times)))


def said(pulse, *words):
    return all(any(word in note for note in pulse.notes) for word in words)


@pytest.mark.parametrize("shape", ["sine", "pulse"])
@pytest.mark.parametrize(("rate_hz", "fps", "seconds"), [(1.2, 60.0, 20.0), (8.3, 120.0, 10.0)])
def test_rate_index_and_course_of_a_clean_beat(rate_hz, fps, seconds, shape):
    pulse = flow_pulsatility(*course(rate_hz, fps, seconds, shape=shape))
    assert pulse.rate_bpm == pytest.approx(60 * rate_hz, rel=1e-4)
    assert pulse.index == pytest.approx(0.2, rel=0.01)
    whole = relative_flow(FINE, 0.2, shape)
    assert pulse.resistivity == pytest.approx(np.ptp(whole) / whole.max(), rel=0.01)
    assert pulse.mean == pytest.approx(MEAN, rel=1e-3)
    assert pulse.beats in (int(rate_hz * seconds) - 1, int(rate_hz * seconds))
    assert pulse.course[0] == pulse.course.min()  # phase 0 is the foot of the beat
    expected = MEAN * relative_flow(pulse.phase + FINE[np.argmin(whole)], 0.2, shape)
    np.testing.assert_allclose(pulse.course, expected, atol=0.02 * 0.2 * MEAN)
    np.testing.assert_allclose(pulse.folded, np.interp(pulse.folded_phase, pulse.phase, pulse.course), rtol=0.02)
    assert pulse.notes == ()


@pytest.mark.parametrize("kind", ["drift", "breath", "beats"])
def test_a_rate_that_varies_is_followed(kind):
    """Folding by a constant rate would lose a part of the beat."""
    times, flow = course(kind=kind, noise=0.01)
    pulse = flow_pulsatility(times, flow)
    assert pulse.index == pytest.approx(0.2, rel=0.05)
    assert said(pulse, "the rate varies between")
    assert pulse.slowest_bpm + 3.0 < pulse.rate_bpm < pulse.fastest_bpm - 3.0
    constant = np.abs(np.exp(-2j * np.pi * pulse.rate_bpm / 60 * times) @ (flow - flow.mean())) / len(times)
    followed = np.abs(np.fft.fft(pulse.course - pulse.mean)[1]) / len(pulse.course)
    assert constant < 0.99 * followed


def test_indices_of_noisy_courses_are_unbiased_and_their_errors_true():
    """Two dozen courses whose noise is twice the beat; the extrema of their averaged samples lie 25 % too far apart."""
    pulses = [flow_pulsatility(*course(noise=0.08, seed=seed)) for seed in range(24)]
    index, error = (np.array([getattr(pulse, name) for pulse in pulses]) for name in ("index", "index_error"))
    folded = np.mean([np.ptp(pulse.folded) / pulse.mean for pulse in pulses])
    z = (index.mean() - 0.2) / (index.std() / np.sqrt(24))
    assert abs(z) < 4, z
    assert folded > 1.1 * 0.2
    assert 0.6 < error.mean() / index.std() < 1.4
    rates = np.array([pulse.rate_bpm for pulse in pulses])
    assert rates.mean() == pytest.approx(72.0, abs=0.1)
    assert 0.5 < np.mean([pulse.rate_error_bpm for pulse in pulses]) / rates.std() < 2.0


def varying(seed, spread=0.06, rate_hz=1.15, breath=False):
    """Ten seconds of a heart whose beats vary as those of a person at rest, at random or with breath, and its rate."""
    rng, times = np.random.default_rng(seed), np.arange(1200) / 120.0
    if breath:
        knots = np.arange(-2.0, 14.0, 0.01)
        rates = rate_hz * (1.0 + spread * np.sqrt(2.0) * np.sin(2 * np.pi * 0.25 * knots + rng.uniform(0, 2 * np.pi)))
        crossings = np.arange(25.0)
        starts = np.interp(crossings, np.cumsum(rates) * 0.01 + rng.uniform(), knots)
    else:
        starts = np.cumsum((1.0 + spread * rng.normal(size=25)) / rate_hz) - rng.uniform(1.0, 2.0)
    phase = np.interp(times, starts, np.arange(25.0))
    flow = MEAN * (relative_flow(phase, 0.4) + 0.02 * rng.normal(size=len(times)))
    inside = np.diff(starts[(starts >= 0.0) & (starts <= times[-1])])
    return times, flow, 60.0 / inside.mean(), 60.0 * (phase[-1] - phase[0]) / times[-1]


@pytest.mark.parametrize("breath", [False, True], ids=["beats", "breath"])
def test_natural_variation_of_the_heart_hides_no_beat(breath):
    """Of 20 courses at least 19 have the beat, and its error covers the rate: of whole beats, and of all phases."""
    found, whole, advance = 0, 0, 0
    for seed in range(20):
        times, flow, by_beats, by_phase = varying(seed, breath=breath)
        pulse = flow_pulsatility(times, flow)
        found += pulse.has_beat
        whole += abs(pulse.rate_bpm - by_beats) < 1.96 * pulse.rate_error_bpm
        advance += abs(pulse.rate_bpm - by_phase) < 1.96 * pulse.rate_error_bpm
        assert not pulse.has_beat or pulse.rate_error_bpm < 0.02 * pulse.rate_bpm
    assert min(found, whole, advance) >= 19


@pytest.mark.parametrize("kind", ["white", "red", "red and white", "1/f", "windows"])
def test_fluctuations_without_a_beat(kind):
    """At a limit of 5 % fewer than 10 of 60 (four standard errors) may have a beat; Fisher's test finds one in all
    of red noise."""
    rng, found = np.random.default_rng(3), 0
    settings = PulsatilitySettings(false_alarm=0.05)
    times = np.arange(1200) / 120.0
    for _ in range(60):
        flow = MEAN + fluctuations(kind, 1200, rng)
        pulse = flow_pulsatility(times, flow, settings, window_s=25 / 120 if kind == "windows" else 0.0)
        found += pulse.has_beat
        assert pulse.has_beat or (
            np.isnan(pulse.rate_bpm) and len(pulse.course) == 0 and said(pulse, "no beat between")
        )
    assert found < 10


def test_a_beat_in_red_noise_and_drift():
    rng = np.random.default_rng(1)
    times, flow = course(index=0.3)
    flow = flow + 60.0 * times / times[-1] + 2.0 * fluctuations("red", len(times), rng)
    pulse = flow_pulsatility(times, flow)
    assert pulse.rate_bpm == pytest.approx(72.0, abs=0.3)
    assert abs(pulse.index - 0.3 * MEAN / pulse.mean) < 4 * pulse.index_error
    assert said(pulse, "slow drift")


def test_dropped_frames_and_uneven_times():
    rng = np.random.default_rng(2)
    times, flow = course(seconds=30.0, noise=0.01)
    kept = np.sort(rng.choice(len(times), int(0.8 * len(times)), replace=False))
    kept = kept[(times[kept] < 10.0) | (times[kept] > 14.0)]
    pulse = flow_pulsatility(times[kept], flow[kept])
    assert pulse.rate_bpm == pytest.approx(72.0, abs=0.1)
    assert pulse.index == pytest.approx(0.2, rel=0.05)
    assert said(pulse, "samples are missing", "beats with missing samples were left out")
    late = times + rng.uniform(-0.3, 0.3, len(times)) / 60.0
    moved = MEAN * relative_flow(1.2 * late, 0.2)
    pulse = flow_pulsatility(late, moved)
    assert pulse.index == pytest.approx(0.2, rel=0.02)
    assert said(pulse, "ms apart")
    flow[5], flow[77] = np.inf, np.nan
    assert said(flow_pulsatility(times, flow), "2 of 1800 samples have no flow")


def test_a_beat_beyond_the_frame_rate_is_said_to_be_possible():
    pulse = flow_pulsatility(*course(rate_hz=9.0, fps=12.0, seconds=60.0, shape="sine"))
    assert pulse.rate_bpm == pytest.approx(180.0, abs=0.1)  # 12 - 9 Hz
    assert said(pulse, "beats up to 360 /min are looked for", "it may be a beat of 540 /min", "up to harmonic 1")
    assert not said(flow_pulsatility(*course(rate_hz=3.0, fps=60.0)), "it may be a beat of")


def test_another_rhythm_is_reported_and_a_narrower_band_chooses():
    times, flow = course(rate_hz=7.0, fps=120.0)
    flow = flow + 0.15 * MEAN * np.sin(2 * np.pi * 1.7 * times)
    assert flow_pulsatility(times, flow).rate_bpm == pytest.approx(102.0, abs=0.2)
    assert said(flow_pulsatility(times, flow), "another rhythm, at 420 /min")
    pulse = flow_pulsatility(times, flow, PulsatilitySettings(slowest_bpm=250.0))
    assert pulse.rate_bpm == pytest.approx(420.0, abs=0.2)
    assert pulse.index == pytest.approx(0.2, rel=0.08)


def test_a_peak_that_is_a_harmonic_of_the_beat():
    """Two peaks in each beat, nearly alike: the second harmonic has twenty times the power of the fundamental."""
    times = np.arange(1200) / 60.0
    angle = 2 * np.pi * 1.25 * times
    flow = MEAN * (1.0 + 0.1 * np.cos(2 * angle) + 0.022 * np.cos(angle))
    pulse = flow_pulsatility(times, flow + 5.0 * np.random.default_rng(0).normal(size=len(times)))
    assert pulse.rate_bpm == pytest.approx(75.0, abs=0.2)
    assert said(pulse, "the largest peak, at 150 /min, is harmonic 2 of this beat")


def test_few_beats():
    pulse = flow_pulsatility(*course(seconds=6.0))
    assert said(pulse, "beats were averaged; their standard errors are rough")
    assert not flow_pulsatility(*course(seconds=1.5)).has_beat
    assert said(flow_pulsatility(*course(seconds=0.2)), "in 12 samples; at least 16 are needed")


@pytest.mark.parametrize(("rate_hz", "fps", "seconds"), [(2.0, 16.0, 30.0), (2.0, 8.0, 40.0), (5.0, 30.0, 3.0)])
def test_samples_that_meet_each_beat_at_the_same_few_phases(rate_hz, fps, seconds):
    pulse = flow_pulsatility(*course(rate_hz, fps, seconds, noise=0.001, shape="sine"))
    assert pulse.rate_bpm == pytest.approx(60 * rate_hz, rel=0.005)
    assert pulse.index == pytest.approx(0.2, rel=0.05)


def test_flow_that_does_not_change_or_is_not_positive():
    times, flow = course()
    assert said(flow_pulsatility(times, np.full(len(times), 7.0)), "no beat in a flow of mean 7 and range 0 /s")
    assert said(flow_pulsatility(times, -flow), "no beat in a flow of mean -450")


def maps_of_flow(times, flow, **options):
    """Maps of 2 x 3 pixels whose mean of K² gives this SFI."""
    settings = settings_with(**options)
    k = np.sqrt(1.0 / (2e-3 * settings.index.exposure_ms * flow))
    return ContrastMaps(signed=np.repeat(k, 6).reshape(len(times), 2, 3).astype(np.float32), settings=settings)


def test_region_curves_know_their_times_and_what_pulsates():
    times, flow = course(fps=120.0, noise=0.002)
    (curve,) = region_curves(maps_of_flow(times, flow, exposure_ms=5.0), {"vessel": np.ones((2, 3))})
    pulse = region_pulsatility(curve, 120.0)
    assert (pulse.name, pulse.flow) == ("vessel", "sfi")
    assert pulse.index == pytest.approx(0.2, rel=0.01)
    (curve,) = region_curves(
        maps_of_flow(times, flow, exposure_ms=5.0),
        {"vessel": np.ones((2, 3))},
        flow=InverseCorrelationTime(exposure_ms=5.0),
    )
    by_time = region_pulsatility(curve, 120.0)
    assert by_time.flow == "ict"
    assert by_time.index == pytest.approx(np.ptp(by_time.course) / by_time.mean, rel=0.02)
    assert by_time.mean == pytest.approx(np.mean(curve.flow), rel=0.01)
    (curve,) = region_curves(
        maps_of_flow(times, flow, mode="temporal", frames=25, blocks=True), {"vessel": np.ones((2, 3))}
    )
    np.testing.assert_allclose(curve.times_s(120.0)[:2], [24 / 120, 49 / 120])


def test_windows_of_frames_that_smooth_the_beat_are_reported():
    times, flow = course(fps=120.0, shape="sine")
    smooth = np.convolve(flow, np.full(25, 0.04), "valid")
    (curve,) = region_curves(maps_of_flow(times[24:], smooth, mode="temporal", frames=25), {"vessel": np.ones((2, 3))})
    pulse = region_pulsatility(curve, 120.0)
    loss = np.sinc(1.2 * 25 / 120)
    assert pulse.index == pytest.approx(0.2 * loss, rel=0.02)
    assert said(pulse, f"too small by about {100 * (1 - loss):.2g} %", "beats up to 216 /min")
    with pytest.raises(InvalidInput, match="each map averages 2083 ms, which removes beats faster than 21"):
        region_pulsatility(curve, 12.0)


def test_a_real_recording_without_a_visible_beat(shared_data):
    """A finger at an unknown frame rate: its red noise has a peak of a tenth of all power, and no beat."""
    from PIL import Image

    frames = np.asarray(Image.open(shared_data / "speckle" / "temporal_1000x64x64_u8.png")).reshape(1000, 64, 64)
    maps = contrast(frames, ContrastSettings(mode=Spatial(window=7)), device="cpu")
    (curve,) = region_curves(maps, {"all": np.ones((64, 64))})
    for rate_hz in (20.0, 30.0, 60.0):
        pulse = region_pulsatility(curve, rate_hz)
        assert not pulse.has_beat
        assert pulse.false_alarm > 0.01


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flow_pulsatility([0.0, 1.0], [1.0]), r"times have shape \(2,\) and flow \(1,\)"),
        (lambda: flow_pulsatility([0.0, 0.0], [1.0, 1.0]), "do not increase everywhere"),
        (lambda: flow_pulsatility(*course(fps=1.0, seconds=60.0)), "a beat of 40 /min needs more than 1.33"),
        (lambda: PulsatilitySettings(slowest_bpm=200.0, fastest_bpm=100.0), "slowest beat is 200 /min"),
        (lambda: PulsatilitySettings(false_alarm=0.0), "false_alarm is 0; it must be greater than 0"),
        (lambda: region_pulsatility(None, 0.0), "frame rate is 0 frames/s"),
        (
            lambda: flow_pulsatility(np.append(np.arange(30) / 30, 1e5), np.arange(1.0, 32.0)),
            "31 samples, 0.0333 s apart, within 1e",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
