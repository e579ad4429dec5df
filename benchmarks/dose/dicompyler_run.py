"""Histograms by dicompyler-core, in an interpreter that has it; started by `dose.peers`.

Reads a list of jobs from standard input, ``[rtss, rtdose, number]``, and writes what it finds to standard output: the
values of each histogram, or why there are none.
"""

import json
import sys
import time
from importlib import metadata
from typing import Any

from dicompylercore import dvhcalc

DOSES = ("D99", "D95", "D50", "D5", "D2", "D1", "D0.03cc", "D2cc")


def values_of(rtss: str, rtdose: str, number: int) -> dict[str, Any]:
    """Volume (cc), doses (Gy), and the cumulative curve in bins of 1 cGy."""
    begun = time.perf_counter()
    try:
        found = dvhcalc.get_dvh(rtss, rtdose, number)
        values = {name: float(found.statistic(name).value) for name in DOSES}
        values |= {"volume_cc": float(found.volume), "Dmean": float(found.mean), "largest": float(found.max)}
        values["curve"] = [float(volume) for volume in found.absolute_volume(found.volume).counts]
    except Exception as error:  # noqa: BLE001 - one that fails is reported
        return {"failed": f"{type(error).__name__}: {error}"}
    return values | {"seconds": time.perf_counter() - begun}


if __name__ == "__main__":
    answers = [values_of(*job) for job in json.load(sys.stdin)]
    json.dump({"version": metadata.version("dicompyler-core"), "found": answers}, sys.stdout)
