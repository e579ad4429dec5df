"""
The pulse in a vessel
=====================

Flow of 40 simulated beats, and the beat-averaged course with its standard error.
"""

import matplotlib.pyplot as plt
import numpy as np

from napari_gpubio.speckle.pulsatility import PulsatilitySettings, flow_pulsatility

rng = np.random.default_rng(3)
times = np.arange(480) / 80.0
rate = 7.0 + 0.4 * np.sin(2 * np.pi * 0.35 * times)  # beats a second, with breath
phase = np.cumsum(rate) / 80.0 % 1
flow = 900 * (1 + 0.35 * np.exp(-((phase - 0.25) ** 2) / 0.012) + 0.12 * np.exp(-((phase - 0.6) ** 2) / 0.02))
flow += rng.normal(0, 60, len(times))
pulse = flow_pulsatility(times, flow, PulsatilitySettings(slowest_bpm=300, fastest_bpm=800), name="artery")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), width_ratios=(1.6, 1))
left.plot(times[:200], flow[:200], lw=1)
left.set(xlabel="time (s)", ylabel="flow index (1/s)", title="flow of a region")
band = 2 * pulse.course_error
right.fill_between(pulse.phase, pulse.course - band, pulse.course + band, alpha=0.25)
right.plot(pulse.phase, pulse.course, lw=2)
right.plot(pulse.folded_phase, pulse.folded, ".", color="gray")
right.set(xlabel="phase of the beat", title=f"{pulse.rate_bpm:.0f} beats/min, index {pulse.index:.2f}")
figure.tight_layout()
