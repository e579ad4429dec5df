"""Runs of the verbs that can be interrupted: their input, their words, and a fingerprint of what they write."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.tractograms.io.tractograms import write_tractogram
from robustness.writers import fingerprint

LONGEST = 20.0  # times what a campaign at random moments takes, for kills at the program's own times of saving


@dataclass(frozen=True, slots=True)
class Verb:
    """A run of a verb.

    Parameters
    ----------
    prepare
        Makes its input in a folder, for a run so many times as long, and returns its words.
    out
        Its file, or folder.
    read
        Fingerprint of the numbers in that.
    goes_on
        Whether the same words go on with what a kill has left; else they begin anew, and Ctrl-C leaves what was done.
    """

    prepare: Callable[[Path, float], list[str]]
    out: str
    read: Callable[[Path], str]
    goes_on: bool = True


def _connectome(folder: Path, longer: float) -> list[str]:
    from napari_gpubio.core.files import sample_path
    from napari_gpubio.tractograms.io import read_tractogram
    from napari_gpubio.tractograms.model import Tractogram

    fibers = read_tractogram(sample_path("brain_phantom/bundles.trk"))
    write_tractogram(folder / "brain.tck", Tractogram.join([fibers] * int(200 * longer)))
    atlas = str(sample_path("brain_phantom/atlas.nii.gz"))
    return ["connectome", "brain.tck", atlas, "--assignment", "all voxels", "--npz", "out.npz"]


def _read_connectome(path: Path) -> str:
    from napari_gpubio.tractograms.connectome import Connectome

    found = Connectome.load(path)
    if not found.complete:
        raise RuntimeError("the connectome is not complete")
    return fingerprint(found.labels, found.voxels, found.pairs, found.fibers, *found.numbers.values())


def _photons(longer: float) -> int:
    """Photons of a run so many times as long, most of which is its start if it is short."""
    return int(20_000 * longer**1.7)


def _light(folder: Path, longer: float) -> list[str]:
    from napari_gpubio.core.volumes import write_volume
    from napari_gpubio.light.benchmarks import benchmark
    from napari_gpubio.optics.io import write_table

    case = benchmark("cube60")
    write_volume(folder / "cube.nii.gz", case.domain.labels, case.domain.affine)
    write_table(folder / "cube.csv", case.domain.media)
    place = map(str, (*case.source.position_mm, "--direction", *case.source.direction))
    photons = str(_photons(longer))
    words = ["light", "cube.nii.gz", "--media", "cube.csv", "--position-mm", *place, "--photons", photons]
    return [*words, "--halves", "--detector-face=-k", "--run-out", "out.npz", "--device", "cpu"]


def _read_light(path: Path) -> str:
    from napari_gpubio.light.io import load_result

    found = load_result(path)
    if not found.complete:
        raise RuntimeError("the result is not complete")
    photons = found.detected.photon, found.detected.path_mm, found.detected.weight  # in order; in the state, in any
    state = sorted(found.state.to_arrays().items())
    tallies = [array for name, array in state if not name.startswith("detected")]
    return fingerprint(found.gates, found.gates_error, found.half_fluences, str(found.energy), *photons, *tallies)


_MCX = {
    "Session": {"ID": "case", "RNGSeed": 1, "DoSaveVolume": False, "DoPartialPath": False},
    "Forward": {"T0": 0, "T1": 5e-9, "Dt": 5e-9},
    "Domain": {"OriginType": 1, "LengthUnit": 1, "Media": [[0, 0, 1, 1], [0.005, 1, 0.01, 1.37]], "Dim": [60, 60, 60]},
    "Shapes": [{"Grid": {"Tag": 1, "Size": [60, 60, 60]}}],
}


def _mcx(folder: Path, photons: int, source: dict[str, Any]) -> list[str]:
    content = {**_MCX, "Session": _MCX["Session"] | {"Photons": photons}, "Optode": {"Source": source}}
    (folder / "case.json").write_text(json.dumps(content), encoding="utf-8")
    return ["mcx", "case.json", "--out", "out", "--device", "cpu"]


def _light_each(folder: Path, longer: float) -> list[str]:
    places = [[29, 29, 0], [9, 29, 0], [49, 29, 0]]
    words = _mcx(folder, _photons(longer), {"Type": "pencil", "Pos": places, "Dir": [[0, 0, 1]] * 3})
    return [*words, "--source-number", "-1"]


def _light_patterns(folder: Path, longer: float) -> list[str]:
    pattern = {"Nx": 2, "Ny": 2, "Data": [1, 0, 0, 1, 0, 1, 1, 0]}  # two values of each pixel
    corner = {"Pos": [20, 20, 0], "Dir": [0, 0, 1], "Param1": [20, 0, 0, 2], "Param2": [0, 20, 0, 2]}
    return _mcx(folder, _photons(longer), {"Type": "pattern", **corner, "Pattern": pattern, "SrcNum": 2})


def _read_several(path: Path) -> str:
    from napari_gpubio.light.io import load_result

    found = [load_result(one) for one in sorted(path.glob("run_*.npz"))]
    if not found or not all(result.complete for result in found):
        raise RuntimeError("a result is not complete")
    return fingerprint(*(part for result in found for part in (result.gates, result.gates_error, str(result.energy))))


def _forward(folder: Path, longer: float) -> list[str]:
    from napari_gpubio.core.volumes import write_volume

    labels = np.ones((44, 30, 18), np.uint8)
    labels[:, :, 5:] = 2
    write_volume(folder / "head.nii.gz", labels, np.eye(4))
    optodes = "S1 source 14 15 0|S2 source 14 19 0|D1 detector 25 15 0|D2 detector 29 15 0"
    rows = ["name type x y z", *optodes.split("|")]
    (folder / "sub-1_optodes.tsv").write_text("\n".join(row.replace(" ", "\t") for row in rows) + "\n")
    (folder / "sub-1_coordsystem.json").write_text('{"NIRSCoordinateUnits": "mm"}')
    words = [
        *("forward", "sub-1_optodes.tsv", "--head", "head.nii.gz"),
        *("--wavelengths-nm", "760", "850", "--device", "cpu"),
    ]
    tissues = ["--presets", "1", "skin (Cassano 2019)", "--presets", "2", "gray matter (Cassano 2019)"]
    return [*words, *tissues, "--photons", str(int(1_000 * longer)), "--groups", "4", "--out", "out.npz"]


def _read_forward(path: Path) -> str:
    with np.load(path) as found:
        if any(name.startswith("state") for name in found.files):
            raise RuntimeError("the model is not complete")
        return fingerprint(*(found[name] for name in sorted(found.files) if name != "about"))


def _track(folder: Path, longer: float) -> list[str]:
    from napari_gpubio.core.files import sample_path

    del folder
    words = ["track", str(sample_path("brain_phantom/dwi.nii.gz")), "--seeds", "white-matter", "--device", "cpu"]
    words += ["--least-fa", "0.6"]
    return [*words, "--directions", "principal", "--per-voxel", str(int(longer)), "--out", "out.tck"]


def _read_track(path: Path) -> str:
    from napari_gpubio.tractograms.io import read_tractogram

    found = read_tractogram(path)
    return fingerprint(found.points, found.offsets)


VERBS = {
    "connectome --npz": Verb(_connectome, "out.npz", _read_connectome),
    "light --run-out": Verb(_light, "out.npz", _read_light),
    "mcx, sources": Verb(_light_each, "out", _read_several),
    "mcx, patterns": Verb(_light_patterns, "out", _read_several),
    "forward --out": Verb(_forward, "out.npz", _read_forward),
    "track --out": Verb(_track, "out.tck", _read_track, goes_on=False),
}


def is_part(path: Path, whole: Path) -> bool:
    """Whether a tractogram has the first fibers of another one, and nothing else."""
    from napari_gpubio.tractograms.io import read_tractogram

    part, all_of_them = read_tractogram(path), read_tractogram(whole)
    first = all_of_them.part(0, len(part))
    return bool(np.array_equal(part.points, first.points) and np.array_equal(part.offsets, first.offsets))
