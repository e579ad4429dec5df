"""``python -m napari_gpubio.light.phantom [file]`` makes ``sample_data/head_phantom.nii.gz`` anew."""

import sys
from pathlib import Path

from napari_gpubio.light.phantom.head import SAMPLE, write_head_phantom

SOURCE_TREE = Path(__file__).resolve().parents[3]


def main(arguments: list[str]) -> None:
    """Write the sample to a file, or to the source tree's own."""
    path = Path(arguments[0]) if arguments else SOURCE_TREE / "sample_data" / SAMPLE
    write_head_phantom(path)
    sys.stdout.write(f"{path} ({path.stat().st_size / 1e3:.0f} kB)\n")


if __name__ == "__main__":
    main(sys.argv[1:])
