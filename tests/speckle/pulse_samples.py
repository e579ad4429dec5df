"""Time courses of flow that beat, of known rate, shape and noise, for tests and benchmarks."""

import numpy as np

FINE = np.arange(4000) / 4000.0


def waveform(phase, kind="pulse"):
    """A sine, or a systolic peak with a dicrotic wave; phase in periods."""
    phase = np.mod(phase, 1.0)
    if kind == "sine":
        return np.cos(2.0 * np.pi * phase)
    waves = ((1.0, 0.2, 0.07), (0.45, 0.45, 0.1), (0.25, 0.7, 0.15))
    around = (-1.0, 0.0, 1.0)
    return sum(a * np.exp(-0.5 * ((phase - at - k) / width) ** 2) for a, at, width in waves for k in around)


def relative_flow(phase, pulsatility, kind="pulse"):
    """Flow of mean 1, with a pulsatility index."""
    whole = waveform(FINE, kind)
    return 1.0 + pulsatility * (waveform(phase, kind) - whole.mean()) / np.ptp(whole)


def beat_phase(times_s, rate_hz, rng, kind="constant"):
    """Phase of a beat of a rate that is constant, drifts by 10 %, follows breath, or changes from beat to beat."""
    if kind == "drift":
        return rate_hz * (times_s + 0.05 * times_s**2 / times_s[-1])
    if kind == "breath":
        return rate_hz * (times_s + 0.05 / (2 * np.pi * 0.25) * np.sin(2 * np.pi * 0.25 * times_s))
    if kind == "beats":
        lengths = (1.0 + 0.04 * rng.normal(size=int(1.5 * rate_hz * times_s[-1]) + 5)) / rate_hz
        return np.interp(times_s, np.concatenate([[0.0], np.cumsum(lengths)]), np.arange(len(lengths) + 1.0))
    return rate_hz * times_s


def fluctuations(kind, count, rng):
    """Fluctuations without a beat: white noise, red noise, both, 1/f noise, or a moving average over 25 samples."""
    white = rng.normal(size=count)
    if kind == "red":
        return np.cumsum(white)
    if kind == "red and white":
        from scipy.signal import lfilter

        return lfilter([1.0], [1.0, -0.95], rng.normal(size=count + 500))[500:] + 2.0 * white
    if kind == "1/f":
        spectrum = np.fft.rfft(rng.normal(size=2 * count))
        spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
        spectrum[0] = 0.0
        return np.fft.irfft(spectrum)[:count]
    if kind == "windows":
        return np.convolve(rng.normal(size=count + 24), np.full(25, 0.04), "valid")
    return white
