"""How fast is every speed case in this version beside another one: a folder with the package of each, in turn.

Each process times all cases of `napari-gpubio bench`; versions alternate, so that a busy machine slows both. Least
times are compared. Needs NumPy, SciPy and Numba, and CuPy on a GPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import Row, argument_parser, header, header_lines, line, publish, result_path, table

from napari_gpubio.core.device import choose_device

HERE = Path(__file__).parents[1]
SLOWER = 1.03  # beyond which a ratio is marked


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("old", type=Path, help="folder in which the other version's napari_gpubio lies")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--engine", default="", help="one engine; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="how often each version is timed")
    options = parser.parse_args()
    device, times = choose_device(options.device), dict[str, dict[str, list[float]]]()
    for _ in range(options.rounds):
        for version, folder in (("old", options.old), ("new", HERE)):
            for case, seconds in _timed(folder, options.device, options.engine):
                times.setdefault(case, {"old": [], "new": []})[version].append(seconds)
    rows = [_row(case, **both) for case, both in times.items() if all(both.values())]
    facts = header(quick=False)
    text = ["# This version beside another one", "", *header_lines(facts), f"Device: {device.describe()}.", ""]
    text += table(("case", "old, ms", "new, ms", "new / old", "scatter of old"), [_line(row) for row in rows])
    path = result_path(options.json, "versions", facts["date"], device)
    publish(path, {**facts, "rounds": options.rounds, "rows": rows}, "\n".join(text) + "\n")


def _timed(folder: Path, device: str, engine: str) -> list[tuple[str, float]]:
    """The cases of a version and their seconds, in a process of its own."""
    command = [sys.executable, "-m", "napari_gpubio.cli", "bench", "--json", "--device", device]
    command += [engine] if engine else []
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return [(row["case"], row["seconds"]) for row in found["rows"]]


def _row(case: str, old: list[float], new: list[float]) -> Row:
    least = {"old": min(old), "new": min(new)}
    return {"case": case, **least, "ratio": least["new"] / least["old"], "scatter": max(old) / least["old"]}


def _line(row: Row) -> str:
    mark = " (slower)" if row["ratio"] > SLOWER else ""
    old, new = (f"{1e3 * row[version]:.4g}" for version in ("old", "new"))
    return line(row["case"], old, new, f"{row['ratio']:.3f}{mark}", f"{row['scatter']:.2f}")


if __name__ == "__main__":
    main()
