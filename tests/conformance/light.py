"""Inputs of light transport: MCX, MCML, and probes of near-infrared spectroscopy."""

import json
from pathlib import Path

import nibabel as nib
import numpy as np
from scipy.io import savemat

from napari_gpubio import light, optics
from napari_gpubio import mcx as mcx_files
from napari_gpubio.core.hdf5 import load_hdf5
from napari_gpubio.optics.io.bids_nirs import read_optodes_tsv
from napari_gpubio.optics.io.snirf import PATTERNS, optodes_of
from napari_gpubio.probes.forward import read_probe
from tests.conformance import Did, Rows

ROWS = Rows("Light: inputs and probes")
LABELS = np.random.default_rng(1).integers(0, 2, (6, 5, 4), np.uint8)
OUTSIDE, TISSUE = {"mua": 0, "mus": 0, "g": 1, "n": 1}, {"mua": 0.05, "mus": 1.0, "g": 0.0, "n": 1.0}
SOURCES = np.array([[0.0, 1, 2], [3, 4, 5], [6, 7, 8]])
DETECTORS = np.array([[1.0, 1, 1], [2, 2, 2]])


def mcx(folder: Path, shape=(6, 5, 4), name="case.json", **domain) -> Path:
    """An MCX input of one medium, a pencil beam and a file or shapes."""
    has_file = "VolumeFile" in domain
    case = {
        "Session": {"ID": "t", "Photons": 1000, "RNGSeed": 7, "DoSpecular": 1},
        "Forward": {"T0": 0, "T1": 5e-9, "Dt": 5e-9},
        "Domain": {"OriginType": 1, "Media": [OUTSIDE, TISSUE], "Dim": list(shape), **domain},
        "Optode": {"Source": {"Type": "pencil", "Pos": [n / 2 for n in shape[:2]] + [0], "Dir": [0, 0, 1]}},
        **({} if has_file else {"Shapes": [{"Grid": {"Tag": 1, "Size": list(shape)}}]}),
    }
    (folder / name).write_text(json.dumps(case), encoding="utf-8")
    return folder / name


def raw(path: Path) -> Path:
    """Labels as MCX has them in a file."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(LABELS.tobytes(order="F"))
    return path


def same(path: Path):
    """Read an MCX input and compare its labels."""
    case = mcx_files.io.read_mcx(path)
    np.testing.assert_array_equal(case.domain.labels, LABELS)
    return case


def _add_outside(trait, outside, *facts):
    @ROWS.row("read_domain", trait, Did.ASSUMED, *facts)
    def _(folder):
        values = np.where(LABELS, np.float32(1), np.float32(outside))
        nib.save(nib.Nifti1Image(values, np.eye(4)), folder / "a.nii")
        domain = light.io.read_domain(folder / "a.nii", (optics.Medium(label=1, mua_per_mm=0.05, mus_per_mm=1.0),))
        np.testing.assert_array_equal(domain.labels, LABELS)
        return domain


_add_outside("labels that are NaN outside (SPM)", np.nan, "voxels are NaN", "(0)")
_add_outside("labels that are -1 outside", -1, "no 0", "-1")


# -- two dimensions ---------------------------------------------------------------------------------------------------


@ROWS.row("read_mcx", "a domain of one slice, which MCX traces in two dimensions", Did.REFUSED, "two dimensions", "y")
def _(folder):
    return mcx_files.io.read_mcx(mcx(folder, (60, 1, 60)))


@ROWS.row("read_mcx", "a domain of one slice along z", Did.REFUSED, "6 x 5 x 1", "along z")
def _(folder):
    return mcx_files.io.read_mcx(mcx(folder, (6, 5, 1)))


@ROWS.row("read_mcx", "a domain of one column", Did.REFUSED, "along x and y")
def _(folder):
    return mcx_files.io.read_mcx(mcx(folder, (1, 1, 9)))


@ROWS.row("read_mcx", "a domain of one voxel", Did.ASSUMED, "two dimensions", "all three")
def _(folder):
    case = mcx_files.io.read_mcx(mcx(folder, (1, 1, 1), LengthUnit=60))
    assert case.domain.shape == (1, 1, 1)
    return case


@ROWS.row("write_mcx", "a domain of one slice, which MCX would trace in two dimensions", Did.REFUSED, "two dimensions")
def _(folder):
    medium = optics.Medium(label=1, mua_per_mm=0.05, mus_per_mm=1.0)
    domain = optics.Domain(labels=np.ones((6, 1, 6), np.uint8), affine=np.eye(4), media=(medium,))
    mcx_files.io.write_mcx(folder / "a.json", domain, optics.Pencil(position_mm=(3, 0, 0)), light.LightSettings())


@ROWS.row("Domain", "a slice of one voxel and a thickness, in three dimensions", Did.READ)
def _(folder):
    nib.save(nib.Nifti1Image(np.ones((6, 1, 6), np.uint8), np.diag([1, 2, 1, 1])), folder / "a.nii")
    medium = optics.Medium(label=1, mua_per_mm=0.05, mus_per_mm=1.0)
    domain = light.io.read_domain(folder / "a.nii", (medium,))
    assert domain.shape == (6, 1, 6)
    np.testing.assert_allclose(domain.voxel_sizes_mm, [1, 2, 1])
    return domain


# -- files that others name -------------------------------------------------------------------------------------------


@ROWS.row("read_mcx", "a volume beside the input", Did.READ)
def _(folder):
    raw(folder / "v.bin")
    return same(mcx(folder, VolumeFile="v.bin"))


@ROWS.row("read_mcx", "a volume that is a link to another folder", Did.ASSUMED, "v.bin", "link", "store")
def _(folder):
    (folder / "case").mkdir()
    raw(folder / "store" / "0815.bin")
    (folder / "case" / "v.bin").symlink_to(folder / "store" / "0815.bin")
    return same(mcx(folder / "case", VolumeFile="v.bin"))


@ROWS.row("read_mcx", "a volume that is a link within the folder", Did.READ)
def _(folder):
    raw(folder / "store" / "0815.bin")
    (folder / "v.bin").symlink_to(folder / "store" / "0815.bin")
    return same(mcx(folder, VolumeFile="v.bin"))


@ROWS.row("read_mcx", "a volume in a folder that is a link", Did.ASSUMED, "link", "store")
def _(folder):
    (folder / "case").mkdir()
    raw(folder / "store" / "v.bin")
    (folder / "case" / "sub").symlink_to(folder / "store", target_is_directory=True)
    return same(mcx(folder / "case", VolumeFile="sub/v.bin"))


@ROWS.row("read_mcx", "a volume named by a path of Windows", Did.ASSUMED, "sub/v.bin", "Windows")
def _(folder):
    raw(folder / "sub" / "v.bin")
    return same(mcx(folder, VolumeFile="sub\\v.bin"))


@ROWS.row("read_mcx", "a number written as a text", Did.ASSUMED, "Session.Photons", "1000")
def _(folder):
    path = mcx(folder)
    path.write_text(path.read_text().replace('"Photons": 1000', '"Photons": "1e3"'))
    found = mcx_files.io.read_mcx(path)
    assert found.settings.photons == 1000
    return found


@ROWS.row("read_mcx", "an input that is opened through a link to its folder", Did.READ)
def _(folder):
    raw(folder / "case" / "v.bin")
    mcx(folder / "case", VolumeFile="v.bin")
    (folder / "here").symlink_to(folder / "case", target_is_directory=True)
    return same(folder / "here" / "case.json")


@ROWS.row("read_mcx", "a volume named by its whole path in the folder", Did.READ)
def _(folder):
    return same(mcx(folder, VolumeFile=str(raw(folder / "v.bin"))))


@ROWS.row("read_mcx", "a volume above the folder", Did.REFUSED, "outside the folder")
def _(folder):
    (folder / "case").mkdir()
    raw(folder / "v.bin")
    return mcx_files.io.read_mcx(mcx(folder / "case", VolumeFile="../v.bin"))


@ROWS.row("read_mcx", "a volume behind a link and then above it", Did.REFUSED, "does not exist")
def _(folder):
    (folder / "case").mkdir()
    raw(folder / "v.bin")
    (folder / "store").mkdir()
    (folder / "case" / "sub").symlink_to(folder / "store", target_is_directory=True)
    return mcx_files.io.read_mcx(mcx(folder / "case", VolumeFile="sub/../v.bin"))


@ROWS.row("read_mcx", "a link that leads to itself", Did.REFUSED, "v.bin")
def _(folder):
    (folder / "v.bin").symlink_to(folder / "v.bin")
    return mcx_files.io.read_mcx(mcx(folder, VolumeFile="v.bin"))


@ROWS.row("read_mcx", "a volume in NIfTI with an affine", Did.ASSUMED, "affine", "not used")
def _(folder):
    nib.save(nib.Nifti1Image(LABELS, np.diag([2.0, 2, 2, 1])), folder / "v.nii.gz")
    case = same(mcx(folder, VolumeFile="v.nii.gz"))
    np.testing.assert_allclose(case.domain.voxel_sizes_mm, 1)
    return case


@ROWS.row("read_mcx", "a key that is not known", Did.ASSUMED, "Domain.Colour")
def _(folder):
    return mcx_files.io.read_mcx(mcx(folder, Colour="red"))


@ROWS.row("read_mcx", "edges of voxels that differ", Did.REFUSED, "cubic voxels")
def _(folder):
    return mcx_files.io.read_mcx(mcx(folder, Step=[1, 1, 2]))


@ROWS.row("read_mcx", "detectors with a negative radius, and without one", Did.LEFT_OUT, "2 of 3 detectors")
def _(folder):
    path = mcx(folder)
    case = json.loads(path.read_text())
    case["Optode"]["Detector"] = [{"Pos": [1, 1, 0], "R": 1}, {"Pos": [3, 3, 0], "R": -1}, {"Pos": [3, 3, 0]}]
    path.write_text(json.dumps(case))
    found = mcx_files.io.read_mcx(path)
    assert [detector.position_mm for detector in found.detectors] == [(1, 1, 0)]
    return found


# -- probes -----------------------------------------------------------------------------------------------------------


def snirf(folder: Path, unit="cm", pairs=((1, 1), (3, 2)), **probe) -> Path:
    """A SNIRF file; a dataset of None is left out."""
    import h5py

    datasets = {"sourcePos3D": SOURCES, "detectorPos3D": DETECTORS, "wavelengths": [760.0, 850.0], **probe}
    with h5py.File(folder / "a.snirf", "w") as file:
        file["formatVersion"] = np.bytes_("1.0")
        if unit:
            file["nirs/metaDataTags/LengthUnit"] = np.bytes_(unit)
        for name, values in datasets.items():
            if values is not None:
                file[f"nirs/probe/{name}"] = values
        for number, (source, detector) in enumerate(pairs, 1):
            group = f"nirs/data1/measurementList{number}"
            file[f"{group}/sourceIndex"], file[f"{group}/detectorIndex"] = source, detector
    return folder / "a.snirf"


def nirs(folder: Path, *, compress=False, **fields) -> Path:
    """A HOMER file; a field of None is left out."""
    listed = np.array([[1, 1, 1, 1], [3, 2, 1, 1], [1, 1, 1, 2], [3, 2, 1, 2]], float)
    usual = {"SrcPos": SOURCES, "DetPos": DETECTORS, "Lambda": [760.0, 850.0], "SpatialUnit": "cm", "MeasList": listed}
    probe = {name: value for name, value in {**usual, **fields}.items() if value is not None}
    content = {"d": np.zeros((5, 4)), "SD": probe, "ml": listed, "t": np.arange(5.0)}
    savemat(folder / "a.nirs", content, appendmat=False, do_compression=compress)
    return folder / "a.nirs"


def is_probe(found, factor=10.0, sources=SOURCES, pairs=((0, 0), (2, 1))):
    """Compare a probe."""
    np.testing.assert_allclose(found.source_positions_mm, sources * factor)
    np.testing.assert_allclose(found.detector_positions_mm, DETECTORS * factor)
    assert tuple(found.pairs) == pairs
    assert found.wavelengths_nm == (760.0, 850.0)
    return found


@ROWS.row("read_snirf", "a probe in its own coordinates", Did.ASSUMED, "register")
def _(folder):
    return is_probe(optics.io.read_snirf(snirf(folder)))


@ROWS.row("read_snirf", "no unit", Did.ASSUMED, "LengthUnit", "mm")
def _(folder):
    return is_probe(optics.io.read_snirf(snirf(folder, None)), 1.0)


@ROWS.row("read_snirf", "a unit that is not known", Did.REFUSED, "'inch'")
def _(folder):
    return optics.io.read_snirf(snirf(folder, "inch"))


@ROWS.row("read_snirf", "a source without a position", Did.LEFT_OUT, "1 of 3 sources (S2)")
def _(folder):
    bad = SOURCES.copy()
    bad[1] = np.nan
    return is_probe(
        optics.io.read_snirf(snirf(folder, sourcePos3D=bad)), sources=SOURCES[[0, 2]], pairs=((0, 0), (1, 1))
    )


@ROWS.row("read_snirf", "a measurement of an optode that there is not", Did.LEFT_OUT, "1 of 3 measurements")
def _(folder):
    return is_probe(optics.io.read_snirf(snirf(folder, pairs=((1, 1), (9, 1), (3, 2)))))


@ROWS.row("read_snirf", "measurements that count from 0", Did.ASSUMED, "from 0")
def _(folder):
    return is_probe(optics.io.read_snirf(snirf(folder, pairs=((0, 0), (2, 1)))))


@ROWS.row("read_snirf", "a 0 among measurements that count from 1", Did.LEFT_OUT, "1 of 3 measurements")
def _(folder):
    return is_probe(optics.io.read_snirf(snirf(folder, pairs=((1, 1), (0, 1), (3, 2)))))


@ROWS.row("read_snirf", "positions in m that are said to be mm", Did.ASSUMED, "2 of 2 distances", "0.0141", "unit")
def _(folder):
    return optics.io.read_snirf(snirf(folder, "mm", sourcePos3D=SOURCES / 100, detectorPos3D=DETECTORS / 100))


@ROWS.row("read_snirf", "positions in a plane only", Did.ASSUMED, "sourcePos2D", "detectorPos2D", "flat layout", "head")
def _(folder):
    flat = {"sourcePos2D": SOURCES[:, :2], "detectorPos2D": DETECTORS[:, :2]}
    found = optics.io.read_snirf(snirf(folder, sourcePos3D=None, detectorPos3D=None, **flat))
    np.testing.assert_allclose(found.source_positions_mm, SOURCES * [10, 10, 0])
    np.testing.assert_allclose(found.detector_positions_mm, DETECTORS * [10, 10, 0])
    return found


@ROWS.row("read_snirf", "sources in a plane, and detectors in space", Did.REFUSED, "sourcePos3D", "flat layout")
def _(folder):
    return optics.io.read_snirf(snirf(folder, sourcePos3D=None, sourcePos2D=SOURCES[:, :2]))


@ROWS.row("read_nirs", "a probe of HOMER", Did.ASSUMED, "register")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder)))


@ROWS.row("read_nirs", "a probe of HOMER, compressed", Did.ASSUMED, "register")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, compress=True)))


@ROWS.row("read_nirs", "whole numbers and a unit in capital letters", Did.ASSUMED, "register")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, SrcPos=SOURCES.astype(np.int16), SpatialUnit="Centimeters")))


@ROWS.row("read_probe", "a probe of HOMER, for a forward model", Did.ASSUMED, "register")
def _(folder):
    probe = read_probe(nirs(folder))
    np.testing.assert_allclose(probe.source_positions_mm, SOURCES * 10)


@ROWS.row("read_nirs", "no unit", Did.ASSUMED, "SpatialUnit", "mm")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, SpatialUnit=None)), 1.0)


@ROWS.row("read_nirs", "a unit that is not known", Did.REFUSED, "'inch'")
def _(folder):
    return optics.io.read_nirs(nirs(folder, SpatialUnit="inch"))


@ROWS.row("read_nirs", "the list of measurements beside the probe", Did.ASSUMED, "register")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, MeasList=None)))


@ROWS.row("read_nirs", "a measurement of an optode that there is not", Did.LEFT_OUT, "1 of 3 measurements")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, MeasList=np.array([[1, 1], [3, 2], [3, 7]]))))


@ROWS.row("read_nirs", "a detector without a position", Did.LEFT_OUT, "1 of 3 detectors (D3)")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, DetPos=np.vstack([DETECTORS, [np.nan] * 3]))))


@ROWS.row("read_nirs", "digitized beside flat positions", Did.ASSUMED, "register")
def _(folder):
    flat = {"SrcPos": SOURCES * [1, 1, 0], "SrcPos3D": SOURCES, "DetPos3D": DETECTORS}
    return is_probe(optics.io.read_nirs(nirs(folder, **flat)))


@ROWS.row("read_nirs", "sources in space, detectors in the layout only", Did.ASSUMED, "only sources or only detectors")
def _(folder):
    mixed = nirs(folder, SrcPos=SOURCES * [1, 1, 0], SrcPos3D=SOURCES)
    return is_probe(optics.io.read_nirs(mixed), sources=SOURCES * [1, 1, 0])


@ROWS.row("read_nirs", "positions in a plane", Did.ASSUMED, "flat layout")
def _(folder):
    return is_probe(optics.io.read_nirs(nirs(folder, SrcPos=SOURCES[:, :2])), sources=SOURCES * [1, 1, 0])


@ROWS.row("read_nirs", "one source", Did.ASSUMED, "register")
def _(folder):
    one = nirs(folder, SrcPos=SOURCES[:1], MeasList=np.array([[1, 1, 1, 1], [1, 2, 1, 1]]))
    return is_probe(optics.io.read_nirs(one), sources=SOURCES[:1], pairs=((0, 0), (0, 1)))


@ROWS.row("read_nirs", "no detectors", Did.REFUSED, "SD.DetPos")
def _(folder):
    return optics.io.read_nirs(nirs(folder, DetPos=None))


@ROWS.row("read_nirs", "no probe", Did.REFUSED, "struct SD")
def _(folder):
    savemat(folder / "a.nirs", {"d": np.zeros((5, 4))}, appendmat=False)
    return optics.io.read_nirs(folder / "a.nirs")


@ROWS.row("read_nirs", "MATLAB 7.3", Did.REFUSED, "-v7")
def _(folder):
    (folder / "a.nirs").write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + b"\x89HDF\r\n")
    return optics.io.read_nirs(folder / "a.nirs")


@ROWS.row("read_nirs", "a file of another kind", Did.REFUSED, "a.nirs")
def _(folder):
    (folder / "a.nirs").write_text("x,y,z\n1,2,3\n" * 30)
    return optics.io.read_nirs(folder / "a.nirs")


@ROWS.row("read_optodes_tsv", "an optode whose position is n/a", Did.LEFT_OUT, "1 of 2 sources (S2)")
def _(folder):
    table = "name\ttype\tx\ty\tz\nS1\tsource\t1\t2\t3\nS2\tsource\tn/a\tn/a\tn/a\nD1\tdetector\t4\t5\t6\n"
    (folder / "a_optodes.tsv").write_text(table)
    (folder / "a_coordsystem.json").write_text('{"NIRSCoordinateUnits": "mm"}')
    found = read_optodes_tsv(folder / "a_optodes.tsv")
    np.testing.assert_allclose(found.source_positions_mm, [[1, 2, 3]])
    return found


@ROWS.row("read_snirf", "several recordings", Did.ASSUMED, "2 recordings", "nirs1")
def _(folder):
    import h5py

    path = snirf(folder)
    with h5py.File(path, "a") as file:
        file.move("nirs", "nirs1")
        file.copy("nirs1", "nirs2")
    return is_probe(optodes_of(load_hdf5(path, PATTERNS)))


@ROWS.row("read_snirf", "a link to another file", Did.REFUSED, "nirs/probe leads to another file", "other.h5")
def _(folder):
    import h5py

    path = snirf(folder)
    with h5py.File(path, "a") as file:
        file.move("nirs/probe", "nirs/own")
        file["nirs/probe"] = h5py.ExternalLink("other.h5", "/nirs/probe")
    return optics.io.read_snirf(path)
