"""Input files of MCX for tests: its built-in benchmarks, written by hand from their published numbers."""

import base64
import copy
import json
import lzma
import math
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.optics.sources import Source

OUTSIDE = {"mua": 0, "mus": 0, "g": 1, "n": 1}
GRAY = {"mua": 0.005, "mus": 1.0, "g": 0.01, "n": 1.37}
BALL = {"mua": 0.002, "mus": 5, "g": 0.9, "n": 1}
DETECTORS = [{"Pos": [x, y, 0], "R": 1} for x, y in ((29, 19), (29, 39), (19, 29), (39, 29))]
COLIN_MEDIA = (  # scalp, skull, CSF, gray matter, white matter, air
    (0.019, 7.8182, 0.89, 1.37), (0.019, 7.8182, 0.89, 1.37), (0.0004, 0.009, 0.89, 1.37), (0.02, 9.0, 0.89, 1.37),
    (0.08, 40.9, 0.84, 1.37), (0.0, 0.0, 1.0, 1.0),
)  # fmt: skip
VESSEL_MEDIA = (  # from the outside on: mu_a, mu_s, g, n
    (1e-5, 0, 1, 1.37), (3.564e-05, 1, 1, 1.37), (23.05426549, 9.398496241, 0.9, 1.37),
    (0.04584957865, 35.65405549, 0.9, 1.37), (1.657237447, 37.59398496, 0.9, 1.37),
)  # fmt: skip


def case(**sections: Any) -> dict[str, Any]:
    """A file like cube60, some of its sections changed: ``case(Session={"Photons": 5}, Shapes=[...])``."""
    root: dict[str, Any] = {
        "Session": {"ID": "cube60", "Photons": 1e6, "RNGSeed": 1648335518, "DoMismatch": 0},
        "Forward": {"T0": 0, "T1": 5e-9, "Dt": 5e-9},
        "Domain": {"Dim": [60, 60, 60], "OriginType": 1, "Media": [OUTSIDE, GRAY, BALL]},
        "Optode": {"Source": {"Type": "pencil", "Pos": [29, 29, 0], "Dir": [0, 0, 1]}, "Detector": DETECTORS},
        "Shapes": [{"Grid": {"Tag": 1, "Size": [60, 60, 60]}}],
    }
    root = copy.deepcopy(root)
    for name, content in sections.items():
        if isinstance(content, dict) and isinstance(root.get(name), dict):
            root[name] |= content
        else:
            root[name] = content
    return root


def with_source(**fields: Any) -> dict[str, Any]:
    """A file like cube60 with another source."""
    return case(Optode={"Source": {"Pos": [29, 29, 0], "Dir": [0, 0, 1]} | fields})


def without(root: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The file without a value, given by the keys that lead to it."""
    root = copy.deepcopy(root)
    inner = root
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return root


def written(folder: Path, root: Any, name: str = "case.json") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(root if isinstance(root, str) else json.dumps(root), encoding="utf-8")
    return path


def sphere(tag: int, radius: float) -> dict[str, Any]:
    return {"Sphere": {"Tag": tag, "O": [30, 30, 30], "R": radius}}


def medium(mua: float, mus: float, g: float, n: float) -> dict[str, float]:
    return {"mua": mua, "mus": mus, "g": g, "n": n}


def skinvessel() -> dict[str, Any]:
    layers = [[1, 20, 1], [21, 32, 4], [33, 200, 3]]
    vessel = {"Cylinder": {"Tag": 2, "C0": [0, 100.5, 100.5], "C1": [200, 100.5, 100.5], "R": 20}}
    disk = {"Type": "disk", "Pos": [100, 100, 20], "Dir": [0, 0, 1, 0], "Param1": [60, 0, 0, 0]}
    media = [medium(*row) for row in VESSEL_MEDIA]
    return case(
        Session={"ID": "skinvessel", "OutputType": "f"},
        Forward={"T1": 5e-8, "Dt": 5e-8},
        Domain={"Dim": [200, 200, 200], "LengthUnit": 0.005, "Media": media},
        Optode={"Source": disk, "Detector": None},
        Shapes=[{"Grid": {"Tag": 1, "Size": [200, 200, 200]}}, {"ZLayers": layers}, vessel],
    )


def onecube() -> dict[str, Any]:
    return {
        "Session": {"ID": "onecube", "Photons": 1000000, "DoSaveVolume": 0, "SaveDataMask": "xv"},
        "Forward": {"T0": 0, "T1": 5e-9, "Dt": 5e-9},
        "Domain": {
            "OriginType": 1, "LengthUnit": 60, "MediaFormat": "byte", "Dim": [1, 1, 1],
            "Media": [OUTSIDE, medium(0.005, 1, 0, 1.37)],
        },
        "Optode": {
            "Source": {"Pos": [0.5, 0.5, 0], "Dir": [0, 0, 1]},
            "Detector": [{"Pos": [0.5, 0.45, 0], "R": 0.0166666667}],
        },
        "Shapes": {"_ArraySize_": [1, 1, 1], "_ArrayType_": "uint8", "_ArrayData_": [1]},
    }  # fmt: skip


def colin_labels() -> np.ndarray:
    """A small stand-in for the head of colin27: nested boxes of its six labels."""
    labels = np.zeros((18, 21, 16), np.uint8)
    for label in range(1, 6):
        labels[label : 18 - label, label : 21 - label, label : 16 - label] = label
    labels[8:10, 9:12, 7:9] = 6
    return labels


def colin() -> dict[str, Any]:
    labels = colin_labels()
    packed = lzma.compress(labels.tobytes(), lzma.FORMAT_ALONE)
    return {
        "Session": {"ID": "colin27", "Photons": 1e6, "RNGSeed": 1648335518},
        "Forward": {"T0": 0.0, "T1": 5e-9, "Dt": 5e-9},
        "Domain": {
            "Dim": list(labels.shape), "OriginType": 1,
            "Media": [OUTSIDE, *(medium(*row) for row in COLIN_MEDIA)],
        },
        "Optode": {
            "Source": {"Pos": [8, 6.738, 1], "Dir": [0.1636, 0.4569, 0.8743]},
            "Detector": [{"Pos": [8, 7.719, 1.03], "R": 1.0}],
        },
        "Shapes": {
            "_ArrayType_": "uint8", "_ArraySize_": list(labels.shape), "_ArrayZipType_": "lzma",
            "_ArrayZipSize_": labels.size, "_ArrayZipData_": base64.b64encode(packed).decode(),
        },
    }  # fmt: skip


def benchmarks() -> dict[str, dict[str, Any]]:
    """MCX's built-in benchmarks by name."""
    grid = {"Grid": {"Tag": 1, "Size": [60, 60, 60]}}
    on = {"DoMismatch": True}
    sides = {"Param1": [40, 0, 0, 0], "Param2": [0, 40, 0, 0]}
    planar = {"Type": "planar", "Pos": [10, 10, -10], "Dir": [0, 0, 1]} | sides
    shells = [medium(0.02, 7, 0.89, 1.37), medium(0.004, 0.009, 0.89, 1.37), medium(0.02, 9, 0.89, 1.37)]
    return {
        "cube60": case(),
        "cube60b": case(Session=on | {"ID": "cube60b"}),
        "cube60planar": case(Session=on | {"ID": "cube60planar"}, Optode={"Source": planar}),
        "cubesph60b": case(Session=on | {"ID": "cubesph60b"}, Shapes=[grid, sphere(2, 15)]),
        "spherebox": case(
            Session={"ID": "spherebox"},
            Forward={"Dt": 1e-10},
            Domain={"Media": [OUTSIDE, medium(0.002, 1, 0.01, 1.37), medium(0.05, 5, 0.9, 1.37)]},
            Optode={"Source": {"Pos": [29.5, 29.5, 0], "Dir": [0, 0, 1, 0], "SrcNum": 1}},
            Shapes=[grid, sphere(2, 10)],
        ),
        "sphshells": case(
            Session=on | {"ID": "sphshells"},
            Domain={"Media": [OUTSIDE, *shells, medium(0.05, 0, 1, 1.37)]},
            Optode={"Source": {"Pos": [30, 30.1, 0], "Dir": [0, 0, 1, 0]}, "Detector": None},
            Shapes=[grid, sphere(2, 25), sphere(3, 23), sphere(4, 10)],
        ),
        "skinvessel": skinvessel(),
        "onecube": onecube(),
        "colin27": colin(),
    }


def irradiance_at(source: Source, point_mm) -> float:
    """Value of the pattern where a point lies in the rectangle."""
    u, v, _ = source.frame()
    offset = np.asarray(point_mm) - source.position_mm
    rows, columns = source.pattern.shape
    column = math.floor((offset @ u / source.width_mm + 0.5) * columns)
    row = math.floor((offset @ v / source.height_mm + 0.5) * rows)
    return float(source.pattern[row, column])
