"""How much memory every engine takes, beside what it says before, on the CPU and on a GPU.

On the CPU it is the most memory of a process that does nothing else, less what it had before (Linux); on a GPU the most
that CuPy's pool had in use. Needs NumPy, SciPy and Numba only.
"""

from collections.abc import Iterator

from common import Row, argument_parser, header, header_lines, line, publish, result_path, table

from napari_gpubio.core.device import choose_device
from tests.memory_samples import CASES, GPU_CASES, MIB, Alone, Measured, on_gpu

SIZES = (64, 128, 192)  # voxels along an axis; frames of speckle have 4 x 4 times as many pixels


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="voxels along an axis")
    parser.add_argument("--cases", default="", help="only those whose names have this in them")
    options = parser.parse_args()
    device, sizes = choose_device(options.device), [int(size) for size in options.sizes.split(",")]
    facts = header(quick=False)
    rows, known = [], GPU_CASES if device.is_gpu else CASES
    for measured in _measured([name for name in known if options.cases in name], sizes, options.device):
        rows.append(_row(measured))
        print(_line(rows[-1]), flush=True)
    text = ["# Memory, estimated before and taken", "", *header_lines(facts), f"Device: {device.describe()}.", ""]
    text += table(("case", "size", "estimated, MB", "taken, MB", "taken / estimated"), [_line(row) for row in rows])
    path = result_path(options.json, "memory", facts["date"], device)
    publish(path, {**facts, "rows": rows}, "\n".join(text) + "\n")


def _measured(names: list[str], sizes: list[int], device: str) -> Iterator[Measured]:
    for name in names:
        if device == "cpu":
            alone = Alone()
            yield from alone.measured(name, sizes)
            alone.close()
        else:
            yield from (on_gpu(name, size, device) for size in sizes)


def _row(measured: Measured) -> Row:
    return {**measured._asdict(), "ratio": measured.ratio}


def _line(row: Row) -> str:
    estimated, taken = (f"{row[name] / MIB:.1f}" for name in ("estimated", "taken"))
    return line(row["name"], row["size"], estimated, taken, f"{row['ratio']:.2f}")


if __name__ == "__main__":
    main()
