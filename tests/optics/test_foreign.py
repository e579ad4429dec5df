"""Files of other programs are named for what they are, by their bytes or by their names; none is called damaged."""

import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.io.volumes import read_domain
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.optics.model import Medium

MMC = {"Mesh": {"MeshID": "onecube", "InitElem": 3}, "Session": {"Photons": 100}, "Forward": {"T0": 0, "T1": 5e-9}}
INPUTS = {
    "study.mcxp": (b"{}", "a project of MCX Studio"),
    "beam.inp": (b"*HEADING\nA beam\n*NODE\n1, 0.0, 0.0, 0.0\n", r"a mesh of Abaqus \(it begins with '\*HEADING'"),
    "network.inp": (
        b"[TITLE]\nWater\n[JUNCTIONS]\n",
        r"another program \(it begins with '\[TITLE\]'\).*number of photons",
    ),
    "molecule.inp": (b"! B3LYP def2-SVP Opt\n* xyz 0 1\n", "an input file of another program"),
    "cube.json": (json.dumps(MMC).encode(), "an input file of MMC, whose domain is a mesh"),
    "labels.json": (json.dumps({"NIFTIHeader": {"Dim": [2, 2, 2]}}).encode(), "a volume in JNIfTI; name it as"),
    "binary.json": (b"{U\x07Session{U\x02IDSU\x04test}}", r"binary JSON \(BJData or UBJSON\)"),
    "package.json": (b'{"name": "x", "version": "1.0"}', "is not an MCX input: it has none .* but name, version"),
    "list.json": (b"[1, 2, 3]", r"holds \[1, 2, 3\]; an object"),
}
VOLUMES = {
    "labels.jnii": "a volume in JNIfTI", "labels.bnii": "a volume in binary JNIfTI.*Domain.VolumeFile",
    "cfg.mat": "a file of MATLAB",
    "probe.snirf": "a recording of fNIRS", "skin.mci": "an input file of MCML.*napari-gpubio mcml",
    "skin.mco": "an output file of MCML", "out.mc2": "an output volume of MCX", "out.mch": "detected photons of MCX",
    "vol.bin": "a volume without a header", "vol.nrrd": "a volume in NRRD", "vol.mha": "MetaImage",
    "aseg.mgz": "FreeSurfer.*mri_convert", "scan.DCM": "DICOM", "head.stl": "a surface; *|a surface, and labels",
    "media.csv": "a table.*--media", "run.npz": "a result.*add-photons", "photo.png": "an image",
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_foreign_inputs_are_named(tmp_path, name):
    data, words = INPUTS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_mcx(tmp_path / name)
    assert name in str(caught.value)
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("name", VOLUMES)
def test_foreign_volumes_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(600))
    with pytest.raises(InvalidInput, match=VOLUMES[name]) as caught:
        read_domain(tmp_path / name, [Medium(label=1)])
    assert name in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_labels_are_still_read(tmp_path):
    write_volume(tmp_path / "labels.nii", np.ones((2, 3, 4), np.uint8), np.eye(4))
    assert read_domain(tmp_path / "labels.nii", [Medium(label=1)]).shape == (2, 3, 4)


@pytest.mark.parametrize("photons", [b"1000", b"+1e3", b".5e3", b"# a comment\n1000"])
def test_an_input_of_lines_may_begin_with_any_number(tmp_path, photons):
    (tmp_path / "case.inp").write_bytes(photons + b"\n-1\nno position\n")
    with pytest.raises(InvalidInput, match="the position of the source should be"):
        read_mcx(tmp_path / "case.inp")
