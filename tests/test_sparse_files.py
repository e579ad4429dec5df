"""Files of 3 GB of which only the beginning is there, and pipes: each reader refuses them at once, without memory."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from napari_gpubio.core import layer_files
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_numbers
from napari_gpubio.core.label_tables import read_label_names
from napari_gpubio.core.layer_files import read_layers as read_volumes
from napari_gpubio.core.mif import read_mif
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.diffusion import napari_io as dwi_napari
from napari_gpubio.diffusion.fods.response import read_response
from napari_gpubio.diffusion.io.dsi_studio import read_dsi_studio
from napari_gpubio.diffusion.io.gradients import read_fsl_gradients, read_mrtrix_gradients
from napari_gpubio.diffusion.io.orientation_sidecars import json_facts
from napari_gpubio.diffusion.io.pam5 import read_pam5_peaks
from napari_gpubio.dose import reader as dose_reader
from napari_gpubio.dose.io import read_curves_csv, read_json
from napari_gpubio.dose.metrics import read_constraints
from napari_gpubio.layered.io import read_mci, read_mco
from napari_gpubio.layered.io import results as layered_results
from napari_gpubio.light import readers as light_readers
from napari_gpubio.light.io import load_result, read_irradiance
from napari_gpubio.mcx import napari_io as mcx_napari
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.optics.io import read_table
from napari_gpubio.optics.io.bids_nirs import read_optodes_tsv
from napari_gpubio.optics.io.nirs import read_nirs
from napari_gpubio.optics.io.snirf import read_snirf
from napari_gpubio.probes import napari_io as probes_napari
from napari_gpubio.probes.forward.io import read_unfinished
from napari_gpubio.speckle import napari_io as speckle_reader
from napari_gpubio.speckle.io.regions import read_regions
from napari_gpubio.speckle.live.folder import Unreadable
from napari_gpubio.speckle.live.folder import read_frames as read_live_frames
from napari_gpubio.tractograms.connectome import Connectome
from napari_gpubio.tractograms.io.blocks import open_blocks
from napari_gpubio.tractograms.io.tractograms import read_track_scalars, read_tractogram
from tests.diffusion.fods.fixel_samples import dsi_content, save_dsi
from tests.mcx.samples import case, without
from tests.mcx.test_bjdata import bnii
from tests.optics.test_bids_nirs import TABLE

SIZE = 3 << 30
MAX_BYTES = 12 << 20


def with_volume(read):
    """The reader of an input that names the file as its volume."""

    def volume_of(path: Path):
        root = without(case(Domain={"Dim": [4, 5, 6], "VolumeFile": path.name}), "Shapes")
        (path.parent / "case.json").write_text(json.dumps(root), encoding="utf-8")
        return read(path.parent / "case.json")

    return volume_of


def beside_optodes(path):
    (path.parent / "sub-01_optodes.tsv").write_text(TABLE)
    return read_optodes_tsv(path.parent / "sub-01_optodes.tsv")


def saved_matlab(path):
    savemat(path, {"SD": {"SrcPos": "none"}}, appendmat=False)


def saved_dsi(path):
    save_dsi(path, {name: matrix for name, matrix in dsi_content(np.eye(4)).items() if not name.startswith("fa")})


READERS = {
    "response": ("wm.txt", b"# Shells: 0,1000\n1 2\n", read_response),
    "b-values": ("a.bval", b"0 1000 ", lambda p: read_fsl_gradients(p, p, 2, np.eye(4))),
    "gradients of MRtrix": ("a.b", b"0 0 1 1000\n", lambda p: read_mrtrix_gradients(p, 1)),
    "optodes of BIDS": ("sub-01_optodes.tsv", TABLE.encode(), read_optodes_tsv),
    "coordinate system of BIDS": ("sub-01_coordsystem.json", b"{", beside_optodes),
    "sidecar": ("a.json", b"{", json_facts),
    "label table": ("a.tsv", b"index\tname\n1\tone\n", read_label_names),
    "affine or weights": ("a.txt", b"1\n", existing_numbers),
    "MCX input": ("a.json", b'{"Domain": {', read_mcx),
    "MCX input of lines": ("a.inp", b"1000\n1\n", read_mcx),
    "MCX volume .jnii": ("v.jnii", b'{"NIFTIData": {', with_volume(read_mcx)),
    "MCX volume .bnii": ("v.bnii", bnii("<", "axes"), with_volume(read_mcx)),
    "MCX volume of bytes": ("v.bin", b"\1", with_volume(read_mcx)),
    "MCML input": ("a.mci", b"1.0\n", read_mci),
    "MCML output": ("a.mco", b"A1\n", read_mco),
    "properties .csv": ("a.csv", b"label,mua\n", read_table),
    "properties .json": ("a.json", b"[", read_table),
    "source image": ("a.png", b"\x89PNG\r\n\x1a\n", read_irradiance),
    "live frames": ("a.png", b"\x89PNG\r\n\x1a\n", read_live_frames),
    "DVH .json": ("a.json", b"{", read_json),
    "DVH .csv": ("a.csv", b"structure,dose,unit,volume_cc\n", read_curves_csv),
    "constraints": ("a.txt", b"PTV: D95%[Gy] >= 57\n", read_constraints),
    "regions": ("a.csv", b"index,shape-type\n", lambda p: read_regions(p, (8, 8))),
    "optodes .nirs": ("a.nirs", saved_matlab, read_nirs),
    "SNIRF": ("a.snirf", b"\x89HDF\r\n\x1a\n", read_snirf),
    "pam5": ("a.pam5", b"\x89HDF\r\n\x1a\n", read_pam5_peaks),
    "DSI Studio": ("a.fib", saved_dsi, read_dsi_studio),
    "DSI Studio, zeros": ("a.fib", b"\0", read_dsi_studio),
    "DSI Studio, a header of 3 GB": (
        "a.fib", np.array([10, (SIZE - 29) // 4, 1, 0, 9], "<i4").tobytes() + b"dimension", read_dsi_studio,
    ),
    "fibers .tt.gz": ("a.tt.gz", gzip.compress(b"\0" * 99), read_tractogram),
    "fibers .trk": ("a.trk", b"\0", read_tractogram),
    "fibers .trx": ("a.trx", b"PK\3\4", read_tractogram),
    "fibers .vtp": ("a.vtp", b"\0", read_tractogram),
    "image .mif": ("a.mif", b"mrtrix image\n", read_mif),
    "image .nii": ("a.nii", b"\0", read_volume),
    "connectome": ("a.npz", b"PK\3\4", Connectome.load),
    "light result": ("a.npz", b"PK\3\4", load_result),
    "layered result": ("a.npz", b"PK\3\4", layered_results.load_result),
    "volume .npz": ("a.npz", b"PK\3\4", lambda p: read_volumes(str(p))),
}  # fmt: skip


def sparse(path: Path, begin) -> None:
    if callable(begin):
        begin(path)
    else:
        path.write_bytes(begin)
    os.truncate(path, SIZE)


@pytest.mark.skipif(os.name == "nt", reason="files are not sparse there unless they are made so")
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_it_without_reading_it(tmp_path, name):
    file, begin, read = READERS[name]
    sparse(tmp_path / file, begin)
    tracemalloc.start()
    try:
        with pytest.raises((InvalidInput, Unreadable), match=file if name != "volume .npz" else "a.npz"):
            read(tmp_path / file)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()


only_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


@only_posix
@pytest.mark.parametrize("name", READERS)
def test_a_reader_does_not_wait_for_a_pipe(tmp_path, name):
    file, _, read = READERS[name]
    os.mkfifo(tmp_path / file)
    with pytest.raises((InvalidInput, Unreadable), match=f"{file} "):
        read(tmp_path / file)


@only_posix
@pytest.mark.parametrize(
    "file", ["a.nii", "a.mif", "a.tif", "a.dcm", "a.json", "a.inp", "a.npz", "a.trk", "a", "a.00000"]
)
def test_napari_does_not_wait_for_a_pipe(tmp_path, file):
    os.mkfifo(tmp_path / file)
    for module in (
        dwi_napari,
        light_readers,
        probes_napari,
        mcx_napari,
        dose_reader,
        speckle_reader,
        layer_files,
    ):
        if (reader := module.get_reader(str(tmp_path / file))) is not None:
            with pytest.raises(InvalidInput, match=file):
                reader(str(tmp_path / file))


@only_posix
def test_pipes_beside_a_file_are_passed_over(tmp_path):
    header = b"mrtrix track scalars\ntimestamp: 7\nfile: . 60\nEND\n"
    (tmp_path / "a.tsf").write_bytes(header)
    os.mkfifo(tmp_path / "b.tck")
    with pytest.raises(InvalidInput, match=r"there is none beside a\.tsf"):
        read_track_scalars(tmp_path / "a.tsf")
    os.mkfifo(tmp_path / "c.tck")
    with pytest.raises(InvalidInput, match=r"c\.tck"), open_blocks(tmp_path / "c.tck"):
        pass


@pytest.mark.skipif(os.name == "nt", reason="files are not sparse there unless they are made so")
def test_files_of_other_kinds_are_not_offered_to_napari(tmp_path):
    sparse(tmp_path / "a.json", b'{"Domain": 1, "Optode": 2, "Forward": 3')
    assert mcx_napari.get_reader(str(tmp_path / "a.json")) is None
    sparse(tmp_path / "a.npz", b"PK\3\4")
    assert light_readers.get_reader(str(tmp_path / "a.npz")) is None


@pytest.mark.skipif(os.name == "nt", reason="files are not sparse there unless they are made so")
def test_a_model_to_go_on_with(tmp_path):
    sparse(tmp_path / "a.npz", b"PK\3\4")
    assert read_unfinished(tmp_path / "a.npz") is None
