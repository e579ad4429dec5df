"""Inputs and probes of light transport, as File > Open shows them."""

import os
import warnings
from pathlib import Path

import numpy as np

from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.light import napari_io, napari_readers
from tests.conformance import Did, Rows
from tests.conformance.light import DETECTORS, SOURCES, mcx, nirs, snirf

ROWS = Rows("Light: inputs and probes in the window")


def opened(path: Path, readers=napari_readers):
    """The layers of a file, as napari asks for them."""
    reader = readers.get_reader(os.fspath(path))
    assert reader is not None
    with warnings.catch_warnings(action="ignore", category=ReadingNote):  # the row hears them
        return reader(os.fspath(path))


@ROWS.row("File > Open", "a SNIRF file", Did.ASSUMED, "register")
def _(folder):
    ((points, keywords, kind),) = opened(snirf(folder))
    np.testing.assert_allclose(points[:, ::-1], np.vstack([SOURCES, DETECTORS]) * 10)
    assert (kind, keywords["features"]["kind"]) == ("points", ["source"] * 3 + ["detector"] * 2)
    assert keywords["metadata"]["napari_gpubio"]["notes"]


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
    ((labels, keywords, kind),) = opened(mci(folder, "skin"))
    case = keywords["metadata"]["napari_gpubio"]["case"]
    thick = np.bincount(case.domain.labels[0, 0])[1:] * case.domain.voxel_sizes_mm[2]
    np.testing.assert_allclose(thick, [1, 2])
    assert [medium.mua_per_mm for medium in case.domain.media] == [0.1, 0.2]
    assert (kind, labels.shape) == ("labels", case.domain.shape[::-1])


@ROWS.row("File > Open", "an MCML input of several runs", Did.ASSUMED, "2 runs", "first")
def _(folder):
    layers = opened(mci(folder, "one", "two"))
    assert [keywords["visible"] for _, keywords, _ in layers] == [True, False]


@ROWS.row("File > Open", "an MCX input of one slice", Did.ASSUMED, "labels alone", "two dimensions", "no such mode")
def _(folder):
    ((labels, keywords, kind),) = opened(mcx(folder, (6, 1, 6)), napari_io)
    assert (kind, labels.shape) == ("labels", (6, 1, 6))
    assert not {"case", "domain", "media"} & keywords["metadata"]["napari_gpubio"].keys()


@ROWS.row("File > Open", "an MCX input of polarized light", Did.ASSUMED, "labels alone", "polarized")
def _(folder):
    ((labels, _, kind),) = opened(mcx(folder, (6, 5, 4), MieScatter=[{}]), napari_io)
    assert (kind, labels.shape) == ("labels", (4, 5, 6))
