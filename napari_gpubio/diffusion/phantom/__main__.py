"""``python -m napari_gpubio.diffusion.phantom [folder]`` makes the files of ``sample_data/brain_phantom`` anew."""

import sys
from pathlib import Path

from napari_gpubio.diffusion.phantom.files import write_brain_phantom
from napari_gpubio.diffusion.phantom.sample import FOLDER, SAMPLE, brain_phantom

SOURCE_TREE = Path(__file__).resolve().parents[3]


def main(arguments: list[str]) -> None:
    """Write the sample to a folder, or to the source tree's own."""
    folder = Path(arguments[0]) if arguments else SOURCE_TREE / "sample_data" / FOLDER
    write_brain_phantom(folder, brain_phantom(**SAMPLE))
    files = ", ".join(f"{path.name} ({path.stat().st_size / 1e3:.0f} kB)" for path in sorted(folder.iterdir()))
    sys.stdout.write(f"{folder}: {files}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
