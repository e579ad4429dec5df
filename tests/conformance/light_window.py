"""Inputs and probes of light transport, as File > Open shows them."""

import os
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.light import readers as light_readers
from napari_gpubio.light.io import read_irradiance
from napari_gpubio.mcx import napari_io as mcx_readers
from napari_gpubio.probes import napari_io as probe_readers
from tests.conformance import Did, Rows
from tests.conformance.light import DETECTORS, SOURCES, mcx, nirs, snirf

ROWS = Rows("Light: inputs and probes in the window")


def opened(path: Path, readers=probe_readers):
    """The layers of a file, as napari asks for them."""
    reader = readers.get_reader(os.fspath(path))
    assert reader is not None
    with warnings.catch_warnings(action="ignore", category=ReadingNote):  # the row hears them
        return reader(os.fspath(path))


@ROWS.row("File > Open", "a SNIRF file that names its coordinate system", Did.ASSUMED, "MNI152NLin6Sym", "register")
def _(folder):
    ((points, keywords, kind),) = opened(snirf(folder, coordinateSystem=np.bytes_("MNI152NLin6Sym")))
    np.testing.assert_allclose(points[:, ::-1], np.vstack([SOURCES, DETECTORS]) * 10)
    assert (kind, keywords["features"]["kind"]) == ("points", ["source"] * 3 + ["detector"] * 2)
    assert keywords["metadata"]["napari_gpubio"]["notes"]


@ROWS.row("File > Open", "a SNIRF file of zeros beside a flat layout", Did.ASSUMED, "flat layout")
def _(folder):
    flat = {"sourcePos2D": SOURCES[:, :2], "detectorPos2D": DETECTORS[:, :2]}
    ((points, _, _),) = opened(snirf(folder, sourcePos3D=0 * SOURCES, detectorPos3D=0 * DETECTORS, **flat))
    np.testing.assert_allclose(points[:, ::-1], np.vstack([SOURCES, DETECTORS]) * [10, 10, 0])


@ROWS.row("File > Open", "a SNIRF file of wavelengths in m", Did.LEFT_OUT, "1 of 2 wavelengths")
def _(folder):
    ((_, keywords, _),) = opened(snirf(folder, wavelengths=[7.6e-7, 850]))
    assert keywords["metadata"]["napari_gpubio"]["probe"].wavelengths_nm == (850,)


@ROWS.row("File > Open", "a SNIRF file whose labels repeat", Did.ASSUMED, "repeat")
def _(folder):
    ((_, keywords, _),) = opened(snirf(folder, sourceLabels=np.array([b"S", b"S", b"S"])))
    assert keywords["features"]["name"][:3] == ["S1", "S2", "S3"]


@ROWS.row("File > Open", "a SNIRF file of positions with an axis in each row", Did.ASSUMED, "axis in each row")
def _(folder):
    four = np.vstack([SOURCES, SOURCES[:1]])
    ((points, _, _),) = opened(snirf(folder, sourcePos3D=four.T, detectorPos3D=DETECTORS.T))
    np.testing.assert_allclose(points[:, ::-1], np.vstack([four, DETECTORS]) * 10)


@ROWS.row("File > Open", "a file of HOMER", Did.ASSUMED, "register")
def _(folder):
    ((points, keywords, _),) = opened(nirs(folder))
    np.testing.assert_allclose(points[:, ::-1], np.vstack([SOURCES, DETECTORS]) * 10)
    assert keywords["units"] == ("mm", "mm", "mm")


MCML = """1.0
{runs}
"""
RUN = """{name}.mco A
1000
0.01 0.01
50 40 10
2
1.0
1.4 1.0 100 0.9 0.1
1.5 2.0 50 0.8 0.2
1.0
"""


def mci(folder: Path, *names: str) -> Path:
    """An MCML input of runs of two layers, 1 and 2 mm thick."""
    runs = "".join(RUN.format(name=name) for name in names)
    (folder / "a.mci").write_text(MCML.format(runs=len(names)) + runs)
    return folder / "a.mci"


@ROWS.row("File > Open", "an MCML input", Did.READ)
def _(folder):
    ((labels, keywords, kind),) = opened(mci(folder, "skin"), light_readers)
    case = keywords["metadata"]["napari_gpubio"]["case"]
    thick = np.bincount(case.domain.labels[0, 0])[1:] * case.domain.voxel_sizes_mm[2]
    np.testing.assert_allclose(thick, [1, 2])
    assert [medium.mua_per_mm for medium in case.domain.media] == [0.1, 0.2]
    assert (kind, labels.shape) == ("labels", case.domain.shape[::-1])


@ROWS.row("File > Open", "an MCML input of several runs", Did.ASSUMED, "2 runs", "first")
def _(folder):
    layers = opened(mci(folder, "one", "two"), light_readers)
    assert [keywords["visible"] for _, keywords, _ in layers] == [True, False]


@ROWS.row("File > Open", "an MCX input of one slice", Did.ASSUMED, "labels alone", "two dimensions", "no such mode")
def _(folder):
    ((labels, keywords, kind),) = opened(mcx(folder, (6, 1, 6)), mcx_readers)
    assert (kind, labels.shape) == ("labels", (6, 1, 6))
    assert not {"case", "domain", "media"} & keywords["metadata"]["napari_gpubio"].keys()


@ROWS.row("File > Open", "an MCX input of polarized light", Did.ASSUMED, "labels alone", "polarized")
def _(folder):
    ((labels, _, kind),) = opened(mcx(folder, (6, 5, 4), MieScatter=[{}]), mcx_readers)
    assert (kind, labels.shape) == ("labels", (4, 5, 6))


@ROWS.row("read_irradiance", "an image in colors", Did.ASSUMED, "luminance")
def _(folder):
    Image.fromarray(np.full((3, 4, 3), (200, 100, 0), np.uint8)).save(folder / "a.png")
    np.testing.assert_allclose(read_irradiance(folder / "a.png"), 0.299 * 200 + 0.587 * 100, atol=1)
