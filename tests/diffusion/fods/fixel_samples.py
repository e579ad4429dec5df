"""One field of crossing fibers in world axes, written as each program would, on any affine; folders of ours too."""

import gzip

import h5py
import nibabel as nib
import numpy as np
from scipy.io import savemat

from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.diffusion.fods.model import FixelField
from tests.diffusion.tensor_samples import AFFINES, axes_of

SHAPE, MOST = (4, 5, 6), 3
_rng = np.random.default_rng(5)
COUNTS = _rng.integers(0, MOST + 1, SHAPE)
COUNTS[0, 0, 0], COUNTS[0, 0, 1] = 0, MOST
THERE = np.arange(MOST) < COUNTS[..., None]
WORLD = _rng.normal(size=(*SHAPE, MOST, 3))
WORLD = np.where(THERE[..., None], WORLD / np.linalg.norm(WORLD, axis=-1, keepdims=True), 0)
AMPLITUDES = np.where(THERE, np.sort(_rng.uniform(0.1, 1, (*SHAPE, MOST)))[..., ::-1], 0)  # the largest first


def save(path, values, affine):
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), affine), path)
    return path


def own(affine, frame):
    """The directions in the axes of a frame, some of them turned round."""
    signs = np.where(np.arange(MOST) % 2, -1.0, 1.0)[:, None]
    return WORLD @ axes_of(affine, frame) * signs


def peaks(folder, affine, missing=np.nan):
    values = own(affine, "world") * AMPLITUDES[..., None]
    values[~THERE] = missing
    return save(folder / "peaks.nii.gz", values.reshape(*SHAPE, 3 * MOST), affine)


def tractseg(folder, affine):
    return peaks(folder, affine, 0)


def dipy(folder, affine):
    return save(folder / "peaks_dirs.nii.gz", own(affine, "fsl") * AMPLITUDES[..., None], affine)


def pam5(folder, affine):
    path = folder / "peaks.pam5"
    with h5py.File(path, "w") as file:
        file.attrs["version"] = "0.0.1"
        group = file.create_group("pam")
        for name, values in (
            ("affine", affine),
            ("peak_dirs", own(affine, "fsl")),
            ("peak_values", AMPLITUDES),
            ("peak_indices", np.where(THERE, 7, -1)),
            ("sphere_vertices", np.eye(3)),
        ):
            group.create_dataset(name, data=values, chunks=True)
    return path


def bedpostx(folder, affine):
    folder = folder / "a.bedpostX"
    folder.mkdir()
    for n, dyads in enumerate(np.moveaxis(own(affine, "fsl"), 3, 0)):
        save(folder / f"dyads{n + 1}.nii.gz", dyads, affine)
        save(folder / f"mean_f{n + 1}samples.nii.gz", AMPLITUDES[..., n], affine)
    return folder


def bedpostx_samples(folder, affine):
    """Without means: samples that spread evenly around them."""
    folder = folder / "a.bedpostX"
    folder.mkdir()
    for n, dyads in enumerate(np.moveaxis(own(affine, "fsl"), 3, 0)):
        theta, phi = np.arccos(np.clip(dyads[..., 2], -1, 1)), np.arctan2(dyads[..., 1], dyads[..., 0])
        spread = 0.01 * np.array([1, -1, 1, -1])
        save(folder / f"merged_th{n + 1}samples.nii.gz", theta[..., None] + spread, affine)
        save(folder / f"merged_ph{n + 1}samples.nii.gz", phi[..., None] + spread[[0, 1, 1, 0]], affine)
        save(folder / f"merged_f{n + 1}samples.nii.gz", AMPLITUDES[..., n, None] + 0.02 * spread, affine)
    return folder


def fixels(affine=AFFINES["rotated"], **numbers):
    made = FixelField.from_dense(WORLD, AMPLITUDES, affine)
    return FixelField(
        counts=made.counts, directions=made.directions, amplitudes=made.amplitudes, affine=affine, numbers=numbers
    )


def folder_of(folder, affine, *, order=None, ending=".mif"):
    """A folder of MRtrix whose fixels lie in any order, that of a voxel being kept together."""
    folder = folder / "fixels"
    folder.mkdir()
    voxels = np.argwhere(COUNTS > 0)
    voxels = voxels if order is None else order.permutation(voxels)
    index, directions, afd = np.zeros((*SHAPE, 2), np.uint32), [], []
    for voxel in map(tuple, voxels):
        index[voxel] = COUNTS[voxel], len(afd)
        n = COUNTS[voxel]
        directions += list(WORLD[voxel][:n][::-1])  # the smallest first
        afd += list(AMPLITUDES[voxel][:n][::-1])
    parts = {"index": index, "directions": np.array(directions)[:, :, None], "afd": np.array(afd)[:, None, None]}
    parts["disp"] = 1 - parts["afd"]
    for name, values in parts.items():
        values = values if name == "index" else values.astype(np.float32)
        if ending == ".mif":
            write_mif(folder / f"{name}.mif", values, affine if name == "index" else np.eye(4))
        else:
            nib.save(nib.Nifti1Image(values, affine if name == "index" else np.eye(4)), folder / f"{name}{ending}")
    return folder


def flat(volume):
    """A volume as DSI Studio stores it: (X Y, Z), the first index fastest."""
    return np.asarray(volume).reshape(-1, volume.shape[-1], order="F")


def dsi_content(affine, *, masked=False):
    """Matrices of a file: every fixel has a vertex of its own."""
    directions = own(affine, "voxel")
    index = np.full(THERE.shape, -1, np.int16)
    index[THERE] = np.arange(THERE.sum())
    half = directions[THERE].T
    content = {
        "dimension": np.array([SHAPE], np.int32),
        "voxel_size": np.linalg.norm(affine[:3, :3], axis=0)[None].astype(np.float32),
        "trans": affine.T.astype(np.float32),  # DSI Studio's rows are MATLAB's columns
        "odf_vertices": np.hstack([half, -half]).astype(np.float32),
        "odf_faces": np.zeros((3, 4), np.int16),
    }
    inside = flat(COUNTS > 0).ravel(order="F")
    for n in range(MOST):
        fa, places = flat(AMPLITUDES[..., n]).astype(np.float32), flat(index[..., n])
        if masked:
            content[f"fa{n}.slope"], content[f"fa{n}.inter"] = np.float32([[1 / 50_000]]), np.float32([[0.0]])
            fa = np.round(fa.ravel(order="F")[inside] * 50_000).astype(np.uint16)[None]
            places = places.ravel(order="F")[inside][None]
        content |= {f"fa{n}": fa, f"index{n}": places}
    return content | ({"mask": flat(COUNTS > 0).astype(np.uint8)} if masked else {})


def save_dsi(path, content):
    savemat(path.with_suffix(".mat"), content, format="4", appendmat=False)
    data = path.with_suffix(".mat").read_bytes()
    path.with_suffix(".mat").unlink()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix != ".fib" else data)
    return path


def dsi_studio(folder, affine):
    return save_dsi(folder / "a.fib.gz", dsi_content(affine))


def dsi_studio_plain(folder, affine):
    return save_dsi(folder / "a.fib", dsi_content(affine))


def dsi_studio_masked(folder, affine):
    return save_dsi(folder / "a.fz", dsi_content(affine, masked=True))
