"""What pulsatility of regions is worth: false alarms without a beat, bias and errors with one, and time.

Run from anywhere::

    python benchmarks/pulsatility.py [--quick]
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import Array, Row, argument_parser, header, header_lines, line, publish, result_path, table

from napari_gpubio.speckle.pulsatility import PulsatilitySettings, RegionPulsatility, flow_pulsatility
from tests.speckle.pulse_samples import beat_phase, fluctuations, relative_flow

LIMITS = (0.01, 0.05)
NOISES = ("white", "red", "red and white", "1/f", "windows")
RECORDS = ((120.0, 5.0), (30.0, 20.0), (120.0, 60.0))  # frames/s, seconds
BEATS = ((1.2, 60.0, 20.0), (8.0, 120.0, 10.0))  # Hz, frames/s, seconds
INDEX, MEAN = 0.2, 450.0
SPREADS = (0.0, 0.05, 0.15, 0.4)  # of a sample, relative to max - min
HOW_TO_READ = (
    "*False alarms*: share of time courses without a beat in which one was found, at the stated limit. *Index*: "
    "(max - min) / mean, 0.2 in truth; *folded* is what the extrema of the samples averaged by phase give, without "
    "treatment. s.d. and standard error in % of the truth; *coverage* of 95 % intervals. A constant rate, one that "
    "rises by 10 %, one that follows breath by ± 5 %, and beats whose lengths vary by 4 % at random."
)


def false_alarms(count: int, rng: np.random.Generator) -> Iterator[Row]:
    for fps, seconds in RECORDS:
        times = np.arange(int(fps * seconds)) / fps
        for kind in NOISES:
            if kind == "windows" and fps < 100.0:
                continue  # 25 frames would average over a beat
            window_s = 25.0 / fps if kind == "windows" else 0.0
            chances = []
            for _ in range(count):
                flow = MEAN + fluctuations(kind, len(times), rng)
                # The largest limit tells the probability of every course that is within one of them.
                pulse = flow_pulsatility(times, flow, PulsatilitySettings(false_alarm=LIMITS[-1]), window_s=window_s)
                chances.append(pulse.false_alarm)
            rates = {str(limit): float(np.mean(np.array(chances) <= limit)) for limit in LIMITS}
            yield {"fluctuations": kind, "fps": fps, "seconds": seconds, "courses": count, "rates": rates}


def measured(rate_hz: float, fps: float, seconds: float, shape: str, kind: str, spread: float, count: int) -> Row:
    rng, times = np.random.default_rng(7), np.arange(int(fps * seconds)) / fps
    pulses: list[RegionPulsatility] = []
    misses: list[float] = []
    took = time.perf_counter()
    for _ in range(count):
        phase = beat_phase(times, rate_hz, rng, kind) + rng.uniform()
        flow = MEAN * (relative_flow(phase, INDEX, shape) + spread * INDEX * rng.normal(size=len(times)))
        pulse = flow_pulsatility(times, flow)
        if pulse.has_beat:
            pulses.append(pulse)
            misses.append(pulse.rate_bpm - 60.0 * float(phase[-1] - phase[0]) / float(times[-1] - times[0]))
    index, error = (np.array([getattr(pulse, name) for pulse in pulses]) for name in ("index", "index_error"))
    folded = [np.ptp(pulse.folded) / pulse.mean for pulse in pulses]
    return {
        "rate_hz": rate_hz, "fps": fps, "seconds": seconds, "shape": shape, "rate_kind": kind, "noise": spread,
        "courses": count, "found": len(pulses), "ms": 1e3 * (time.perf_counter() - took) / count,
        "bias_percent": percent(index.mean() / INDEX - 1.0),
        "folded_bias_percent": percent(np.mean(folded) / INDEX - 1.0),
        "sd_percent": percent(index.std() / INDEX), "error_percent": percent(error.mean() / INDEX),
        "coverage": float(np.mean(np.abs(index - INDEX) < 1.96 * error)),
        "rate_sd_bpm": float(np.std(misses)), "rate_error_bpm": float(np.mean([p.rate_error_bpm for p in pulses])),
        "harmonics": float(np.mean([pulse.harmonics for pulse in pulses])),
    }  # fmt: skip


def percent(share: Any) -> float:
    return float(100.0 * share)


def seconds_of(fps: float, seconds: float) -> Row:
    times: Array = np.arange(int(fps * seconds)) / fps
    flow = MEAN * (relative_flow(1.2 * times, INDEX) + 0.01 * np.random.default_rng(0).normal(size=len(times)))
    flow_pulsatility(times, flow)
    took = time.perf_counter()
    flow_pulsatility(times, flow)
    return {"fps": fps, "seconds": seconds, "took_s": time.perf_counter() - took}


def text_of(head: dict[str, Any], alarms: list[Row], beats: list[Row], times: list[Row]) -> str:
    first = [
        line(one["fluctuations"], f"{one['fps']:g} × {one['seconds']:g} s", one["courses"],
             *(f"{100 * rate:.1f} %" for rate in one["rates"].values()))
        for one in alarms
    ]  # fmt: skip
    second = [
        line(
            f"{60 * one['rate_hz']:g} /min", one["shape"], one["rate_kind"], f"{100 * one['noise']:g} %",
            f"{one['found']} of {one['courses']}", f"{one['bias_percent']:+.1f} %",
            f"{one['folded_bias_percent']:+.1f} %", f"{one['sd_percent']:.1f} / {one['error_percent']:.1f}",
            f"{100 * one['coverage']:.0f} %" if one["noise"] else "",
            f"{one['rate_sd_bpm']:.3f} / {one['rate_error_bpm']:.3f}",
            f"{one['ms']:.0f} ms",
        )
        for one in beats
    ]  # fmt: skip
    third = [line(f"{one['fps']:g} × {one['seconds']:g} s", f"{one['took_s']:.3f} s") for one in times]
    columns = ("beat", "shape", "rate", "noise / (max - min)", "found", "bias of the index", "bias if folded",
               "s.d. / standard error (%)", "coverage", "s.d. / standard error of the rate (1/min)",
               "time")  # fmt: skip
    parts = [
        "# Pulsatility of regions", "", *header_lines(head), "", HOW_TO_READ, "", "## False alarms", "",
        *table(("fluctuations", "record", "courses", *(f"at {100 * limit:g} %" for limit in LIMITS)), first), "",
        "## Beats", "", *table(columns, second), "", "## Time of one region", "", *table(("record", "time"), third),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the courses")
    arguments = parser.parse_args()
    head, few = header(arguments.quick), 10 if arguments.quick else 1
    alarms = list(false_alarms(2000 // few, np.random.default_rng(0)))
    beats = [
        measured(*beat, shape, kind, spread, 200 // few)
        for beat in BEATS
        for shape in ("sine", "pulse")
        for kind in ("constant", "drift", "breath", "beats")
        for spread in SPREADS
    ]
    times = [seconds_of(120.0, seconds) for seconds in (10.0, 60.0, 600.0)]
    everything = {**head, "false_alarms": alarms, "beats": beats, "times": times}
    publish(
        result_path(arguments.json, "pulsatility_cpu", head["date"]), everything, text_of(head, alarms, beats, times)
    )


if __name__ == "__main__":
    main()
