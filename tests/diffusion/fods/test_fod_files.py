"""FODs in every basis, on every affine: the same amplitudes in world directions come out; damaged files are refused."""

import json
import warnings

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import given

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.mif import read_mif
from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.fods.harmonics import BASES, from_mrtrix, harmonics
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.io.fods import read_fods, write_fods
from tests.diffusion.tensor_samples import AFFINES, axes_of
from tests.fuzzing import fuzzed, refusal
from tests.sentences import says
from tests.tractograms.test_tractogram_fuzz import MUTATIONS, mutated

EVERY_AFFINE = pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
EVERY_BASIS = pytest.mark.parametrize("basis", BASES)
AFFINE = AFFINES["rotated"]
SHAPE, LMAX = (5, 6, 7), 6
_rng = np.random.default_rng(2)
FIBERS = _rng.normal(size=(*SHAPE, 2, 3))
SIZES = _rng.uniform(0.2, 1, (*SHAPE, 2))
WORLD_AXES = np.eye(3)
USUAL = {"mrtrix": "world", "mrtrix0.2": "world", "descoteaux_legacy": "fsl", "descoteaux": "fsl"}


def deltas(axes=WORLD_AXES, basis="mrtrix"):
    """Two deltas in each voxel, in the axes of a frame and a basis; zero for i = 0."""
    values = harmonics((FIBERS @ axes).reshape(-1, 3), LMAX).reshape(*SHAPE, 2, -1)
    values = (values * SIZES[..., None]).sum(axis=-2)
    values[0] = 0
    return from_mrtrix(values, basis)


WORLD = deltas()


def save(path, values, affine=AFFINE):
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), affine), path)
    return path


def field(affine=AFFINE, dtype=np.float32, **facts):
    return FodField(
        coefficients=WORLD.astype(dtype), mask=np.arange(5)[:, None, None] > np.zeros(SHAPE), affine=affine, **facts
    )


def pam5(path, affine=AFFINE, basis="descoteaux_legacy", **changes):
    vertices = _rng.normal(size=(100, 3))
    content = {
        "affine": affine,
        "shm_coeff": deltas(axes_of(affine, "fsl"), basis),
        "sphere_vertices": vertices,
        "B": harmonics(vertices, LMAX, basis).T,
    } | changes
    with h5py.File(path, "w") as file:
        group = file.create_group("pam")
        for name, values in content.items():
            if values is not None:
                group[name] = values
    return path


def assert_deltas(found, affine=AFFINE):
    np.testing.assert_allclose(found.coefficients, WORLD, atol=2e-6)
    np.testing.assert_array_equal(found.mask, (WORLD != 0).any(axis=3))
    np.testing.assert_allclose(found.affine, affine, atol=1e-5)


@EVERY_AFFINE
@EVERY_BASIS
@pytest.mark.parametrize("frame", ["auto", "world", "fsl", "voxel"])
def test_every_basis_in_every_frame(basis, frame, affine, tmp_path):
    values = deltas(axes_of(affine, USUAL[basis] if frame == "auto" else frame), basis)
    assert_deltas(read_fods(save(tmp_path / "a.nii", values, affine), basis=basis, frame=frame), affine)


@EVERY_AFFINE
def test_mrtrix_is_assumed(affine, tmp_path):
    """World axes on every affine, and a note that says how to choose another basis."""
    write_mif(tmp_path / "a.mif.gz", WORLD.astype(np.float32), affine)
    found = read_fods(tmp_path / "a.mif.gz")
    assert_deltas(found, affine)
    assert "that of MRtrix 3 was assumed" in found.notes[0]
    assert "harmonics were taken in world axes, as MRtrix has them" in found.notes[1]
    assert found.parameters == {"basis": "mrtrix", "frame": "world", "lmax": LMAX}


@EVERY_AFFINE
@EVERY_BASIS
@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".mif", ".mif.gz"])
def test_round_trip(basis, ending, affine, tmp_path):
    path = tmp_path / f"a.b{ending}"
    made = {"deconvolution": {"lmax": 8}, "responses": [{"bvals": [3000], "coefficients": [[1.0, -0.5]]}]}
    write_fods(path, field(affine, parameters={**made, "seconds": 3}), basis=basis)
    found = read_fods(path)
    assert_deltas(found, affine)
    assert found.coefficients.dtype == np.float32
    assert f"basis {basis} ({BASES[basis]}), as the file says" in found.notes
    facts = json.loads((tmp_path / "a.b.json").read_text())
    assert facts["software"].startswith("napari-gpubio ")
    del facts["software"]
    assert facts == {"basis": basis, "lmax": LMAX, "frame": "world", **made}
    assert found.parameters == {"basis": basis, "frame": "world", "lmax": LMAX, **made}
    assert read_fods(path, basis=basis, frame="world").parameters == found.parameters
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("ending", [".nii", ".mif"])
def test_double_precision(ending, tmp_path):
    write_fods(tmp_path / f"a{ending}", field(dtype=np.float64))
    np.testing.assert_array_equal(read_fods(tmp_path / f"a{ending}").coefficients, WORLD)


@pytest.mark.daily
@EVERY_AFFINE
@EVERY_BASIS
def test_files_of_dipy(basis, affine, tmp_path):
    """The matrix B shows the basis; directions are in the axes of the bvec file."""
    found = read_fods(pam5(tmp_path / "a.pam5", affine, basis))
    assert_deltas(found, affine)
    assert found.parameters == {"basis": basis, "frame": "fsl", "lmax": LMAX}


def test_files_of_dipy_without_the_basis(tmp_path):
    found = read_fods(pam5(tmp_path / "a.pam5", B=None))
    assert_deltas(found)
    assert "DIPY's default, descoteaux_legacy, was assumed" in found.notes[0]
    assert not any("as the file says" in note for note in found.notes)
    given_ = pam5(tmp_path / "b.pam5", basis="mrtrix", B=None)
    assert_deltas(read_fods(given_, basis="mrtrix", frame="fsl"))


def test_harmonics_that_dipy_itself_made(tmp_path):
    from dipy.data import default_sphere
    from dipy.direction.peaks import PeaksAndMetrics
    from dipy.io.peaks import save_pam
    from dipy.reconst.shm import sf_to_sh, sh_to_sf_matrix

    pam = PeaksAndMetrics()
    pam.affine, pam.sphere, pam.total_weight, pam.ang_thr = AFFINE, default_sphere, 0.5, 60
    amplitudes = (WORLD @ harmonics(default_sphere.vertices @ axes_of(AFFINE, "fsl").T, LMAX).T).astype(np.float64)
    with warnings.catch_warnings():  # of the basis, which is DIPY's default
        warnings.simplefilter("ignore")
        pam.shm_coeff = sf_to_sh(amplitudes, default_sphere, sh_order_max=LMAX)
        pam.B = sh_to_sf_matrix(default_sphere, sh_order_max=LMAX, return_inv=False)
    pam.peak_dirs = pam.peak_values = pam.peak_indices = np.zeros((*SHAPE, 1))
    pam.gfa = pam.qa = pam.odf = None
    save_pam(str(tmp_path / "a.pam5"), pam)
    found = read_fods(tmp_path / "a.pam5")
    np.testing.assert_allclose(found.coefficients, WORLD, atol=1e-9)


@pytest.mark.parametrize("lmax", [4, 6, 8])
def test_the_old_basis_of_mrtrix_is_seen(lmax, tmp_path):
    directions = np.random.default_rng(0).normal(size=(2000, 3))
    new = harmonics(directions, lmax).reshape(20, 10, 10, -1)
    found = read_fods(save(tmp_path / "old.nii", from_mrtrix(new, "mrtrix0.2")))
    np.testing.assert_allclose(found.coefficients, new, atol=1e-6)
    assert "those of MRtrix 0.2, whose basis was taken" in found.notes[0]
    asked = read_fods(tmp_path / "old.nii", basis="mrtrix")
    assert "'mrtrix0.2', which is probably right" in asked.notes[0]
    found = read_fods(save(tmp_path / "new.nii", new))
    assert found.parameters["basis"] == "mrtrix"
    aligned = np.tile(from_mrtrix(harmonics([[0.3, 0.1, 1.0]], lmax), "mrtrix0.2"), (20, 10, 10, 1))
    assert read_fods(save(tmp_path / "one.nii", aligned)).parameters["basis"] == "mrtrix"
    few = from_mrtrix(new[:1, :5], "mrtrix0.2")
    assert read_fods(save(tmp_path / "few.nii", few)).parameters["basis"] == "mrtrix"


def test_masks_and_values_that_are_not_finite(tmp_path):
    values = WORLD.copy()
    values[1, 2, 3, 4], values[2] = np.nan, np.inf
    path = save(tmp_path / "a.nii", values)
    found = read_fods(path)
    assert any(says(note, "43 FODs", "not finite", "set to 0") for note in found.notes)
    np.testing.assert_array_equal(found.mask, (WORLD != 0).any(axis=3) & np.isfinite(values).all(axis=3))
    assert (found.coefficients[~found.mask] == 0).all()
    chosen = np.zeros(SHAPE, bool)
    chosen[:3, :, 2] = True
    write_volume(tmp_path / "m.nii", chosen, AFFINE)
    for mask in (chosen, tmp_path / "m.nii"):
        np.testing.assert_array_equal(read_fods(path, mask=mask).mask, found.mask & chosen)
    with pytest.raises(InvalidInput, match=r"the mask has shape \(2, 2, 2\)"):
        read_fods(path, mask=np.ones((2, 2, 2)))
    with pytest.raises(InvalidInput, match="no FOD in the mask"):
        read_fods(path, mask=np.zeros(SHAPE))


def test_one_more_axis_and_integers(tmp_path):
    path = tmp_path / "a.nii"
    nib.save(nib.Nifti1Image(np.rint(WORLD * 1000).astype(np.int16)[..., None], AFFINE), path)
    found = read_fods(path)
    assert found.coefficients.dtype == np.float32
    np.testing.assert_allclose(found.coefficients, 1000 * WORLD, atol=0.6)


def test_json_files_beside_the_image(tmp_path):
    path = save(tmp_path / "a.nii.gz", deltas(basis="descoteaux"))
    beside = tmp_path / "a.json"
    beside.write_text('{"basis": "descoteaux", "frame": "world"}')
    assert_deltas(read_fods(path))
    assert not np.allclose(read_fods(path, basis="mrtrix").coefficients, WORLD, atol=0.1)
    beside.write_text('["something else"]')
    assert read_fods(path).parameters["basis"] == "mrtrix"
    for unknown, fact in (('{"basis": "tournier"}', "'tournier'"), ("{", "is not valid JSON"), ('{"frame": 3}', "'3'")):
        beside.write_text(unknown)
        found = read_fods(path)
        assert found.parameters["basis"] == "mrtrix"
        assert any(says(note, fact) for note in found.notes)
        assert_deltas(read_fods(path, basis="descoteaux", frame="world"))


def test_json_files_of_bids(tmp_path):
    path = save(tmp_path / "a.nii.gz", deltas(basis="descoteaux"))
    said = {"Reference": "xyz", "SphericalHarmonicBasis": "descoteaux", "Type": "sh"}
    (tmp_path / "a.json").write_text(json.dumps({"OrientationEncoding": said}))
    assert_deltas(read_fods(path))


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        ((3, 3, 3), {}, r"has shape \(3, 3, 3\); FODs have four dimensions"),
        ((3, 3, 3, 46), {}, "46 volumes are no set of even spherical harmonics"),
        ((3, 3, 3, 2, 3), {}, "FODs have four dimensions"),
        ((3, 3, 3, 1), {}, "has one volume, which holds no directions"),
        ((3, 3, 3, 6), {"basis": "tournier07"}, "basis is 'tournier07'; choose one of 'auto', 'mrtrix'"),
        ((3, 3, 3, 6), {"frame": "lps"}, "frame is 'lps'; choose one of 'auto', 'world'"),
    ],
)
def test_refused(shape, options, sentence, tmp_path):
    with pytest.raises(InvalidInput, match=sentence):
        read_fods(save(tmp_path / "a.nii", np.ones(shape)), **options)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shm_coeff": None}, "has no shm_coeff"),
        ({"shm_coeff": np.ones((3, 28))}, r"shm_coeff of shape \(3, 28\)"),
        ({"shm_coeff": np.ones((3, 3, 3, 27))}, "that is none of the bases|none of the bases"),
        ({"B": np.ones((28, 100))}, "is that of none of the bases mrtrix"),
        ({"B": np.ones((28, 7))}, r"of shape \(28, 7\), is that of none"),
        ({"affine": np.eye(3)}, "must be a 4 x 4"),
    ],
)
def test_files_of_dipy_that_are_refused(changes, sentence, tmp_path):
    with pytest.raises(InvalidInput, match=sentence):
        read_fods(pam5(tmp_path / "a.pam5", **changes))


def test_the_json_of_a_scan_is_not_replaced(tmp_path):
    (tmp_path / "a.json").write_text('{"EchoTime": 0.1}')
    with pytest.raises(InvalidInput, match="does not describe FODs"):
        write_fods(tmp_path / "a.mif", field())
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    (tmp_path / "a.json").unlink()
    for _ in range(2):  # one of ours is replaced
        write_fods(tmp_path / "a.mif", field())


def test_refused_for_writing(tmp_path):
    with pytest.raises(InvalidInput, match="basis is 'auto'"):
        write_fods(tmp_path / "a.nii", field(), basis="auto")
    for name in ("a.txt", "a.mih"):
        with pytest.raises(InvalidInput, match="no known ending"):
            write_fods(tmp_path / name, field())
    with pytest.raises(InvalidInput, match="does not exist"):
        write_fods(tmp_path / "x" / "a.mif", field())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["a.nii", "a.nii.gz", "a.mif", "a.mif.gz"])
def test_damaged_files(kind, tmp_path):
    write_fods(tmp_path / kind, field())
    good, refused = (tmp_path / kind).read_bytes(), []

    @fuzzed(60)
    @given(MUTATIONS)
    def run(changes):
        refused.append(bool(refusal(read_fods, tmp_path / kind, mutated(good, changes))))

    run()
    assert sum(refused) > len(refused) // 10


# -- the writer of MRtrix images ---------------------------------------------------------------------------------------


@EVERY_AFFINE
@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">u2", "i4", "u4", "i8", "u8", "f2", "f4", ">f4", "f8", "?"])
def test_mif_comes_back(affine, dtype, tmp_path):
    values = _rng.integers(0, 2 if dtype == "?" else 100, (3, 4, 5, 2)).astype(dtype)
    for name in ("a.mif", "a.mif.gz"):
        write_mif(tmp_path / name, values, affine, header={"nfixels": "7"})
        image = read_mif(tmp_path / name)
        np.testing.assert_array_equal(image.data, values)
        kept = {"?": np.uint8, "f2": np.float32}.get(dtype, np.dtype(dtype).newbyteorder("="))
        assert image.data.dtype == kept
        np.testing.assert_allclose(image.affine, affine, atol=1e-12)
        assert image.header["nfixels"] == ("7",)


@pytest.mark.parametrize(
    ("name", "values", "header", "sentence"),
    [
        ("a.nii", np.ones((2, 2, 2)), {}, "not end in .mif"),
        ("a.mif", np.ones((2, 2)), {}, "three dimensions or more"),
        ("a.mif", np.ones((2, 2, 0)), {}, "none of them 0"),
        ("a.mif", np.ones((2, 2, 2), complex), {}, "of type complex128 cannot be written"),
        ("a.mif", np.ones((2, 2, 2)), {"dim": "3"}, "cannot be in a .mif header"),
        ("a.mif", np.ones((2, 2, 2)), {"a": "b\nEND"}, "cannot be in a .mif header"),
        ("a.mif", np.ones((2, 2, 2)), {"a: b": "c"}, "cannot be in a .mif header"),
    ],
)
def test_mif_that_is_refused(name, values, header, sentence, tmp_path):
    with pytest.raises(InvalidInput, match=sentence):
        write_mif(tmp_path / name, values, np.eye(4), header=header)
    assert not list(tmp_path.iterdir())
