"""Files of other programs that are given where labels or an MCX input are needed: named for what they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput

MCX_SUFFIXES = (".json", ".inp", ".mcxp")  # of MCX inputs
_TO_NIFTI = "convert it to NIfTI (.nii, .nii.gz)"
# By suffix: what it is, and what to do with it.
_VOLUMES = {
    ".jnii": ("a volume in JNIfTI", f"name it as Domain.VolumeFile of an MCX input (.json), or {_TO_NIFTI}"),
    ".bnii": ("a volume in binary JNIfTI", f"name it as Domain.VolumeFile of an MCX input (.json), or {_TO_NIFTI}"),
    ".mat": ("a file of MATLAB", f"save the volume from there as NIfTI, or {_TO_NIFTI}"),
    ".snirf": (
        "a recording of fNIRS",
        "its optodes are read by optics.io.read_snirf; give the labels of the head here",
    ),
    ".nirs": ("a recording of HOMER", "its optodes are read by optics.io.read_nirs; give the labels of the head here"),
    ".json": ("JSON, as an input file of MCX is", "run such a file with napari-gpubio mcx"),
    ".inp": ("an input file of MCX", "run it with napari-gpubio mcx"),
    ".mcxp": ("a project of MCX Studio", "save an input from there as JSON, and run it with napari-gpubio mcx"),
    ".mci": ("an input file of MCML", "run it with napari-gpubio mcml"),
    ".mco": ("an output file of MCML", "read it with layered.io.read_mco"),
    ".mc2": ("an output volume of MCX", "give the labels, or MCX's input (.json)"),
    ".mch": ("a list of detected photons of MCX", "give the labels, or MCX's input (.json)"),
    ".bin": ("a volume without a header", "name it as Domain.VolumeFile of an MCX input (.json), which has its size"),
    ".nrrd": ("a volume in NRRD", _TO_NIFTI),
    ".nhdr": ("the header of a volume in NRRD", _TO_NIFTI),
    ".mha": ("a volume in MetaImage", _TO_NIFTI),
    ".mhd": ("the header of a volume in MetaImage", _TO_NIFTI),
    ".mgz": ("a volume of FreeSurfer", f"{_TO_NIFTI}, for example by mri_convert"),
    ".mgh": ("a volume of FreeSurfer", f"{_TO_NIFTI}, for example by mri_convert"),
    ".dcm": ("a slice in DICOM", f"{_TO_NIFTI}, for example by dcm2niix"),
    ".stl": ("a surface", "fill it with voxels first"),
    ".ply": ("a surface", "fill it with voxels first"),
    ".obj": ("a surface", "fill it with voxels first"),
    ".msh": ("a mesh", "fill it with voxels first"),
    ".csv": ("a table", "give it as --media, and a label volume before"),
    ".npz": (
        "a result or arrays of NumPy",
        "go on with a result by add-photons, or save the labels as NIfTI",
    ),
    ".npy": ("an array of NumPy", "save it as NIfTI with its affine"),
    ".png": ("an image", "give a label volume"),
    ".jpg": ("an image", "give a label volume"),
    ".tif": ("an image", f"{_TO_NIFTI}, if it is a stack of labels"),
    ".tiff": ("an image", f"{_TO_NIFTI}, if it is a stack of labels"),
}
_SECTIONS = ("Session", "Forward", "Domain", "Optode", "Shapes")  # of an MCX input
_JNIFTI = ("NIFTIHeader", "NIFTIData")
_OTHER_INPUTS = tuple("[!$&%/<;")  # begin the first line of .inp files of programs for networks, molecules, structures
_BINARY_JSON = b"UiuIlmLMhdDSCHN$#["  # markers that follow the brace of BJData and UBJSON


def check_labels_file(path: str | Path) -> None:
    """Raise InvalidInput that says what a file is, if its name tells that it holds no labels in NIfTI."""
    path = Path(path)
    if found := _VOLUMES.get(path.suffix.lower()):
        what, advice = found
        raise InvalidInput(f"{path.name} is {what}, and labels are needed; {advice}")


def check_mcx_bytes(name: str, data: bytes) -> None:
    """Raise InvalidInput if the bytes of an MCX input are those of binary JSON or of another program's input."""
    if data[:1] in b"{[" and data[1:2] and data[1] in _BINARY_JSON and b'"' not in data[:64]:
        raise InvalidInput(f"{name} is not text but binary JSON (BJData or UBJSON); convert it to JSON")
    if not name.lower().endswith(".inp"):
        return
    first = data[:4096].decode("utf-8", errors="replace").strip().splitlines()[:1]
    line = first[0].strip() if first else ""
    if line.startswith("*"):
        raise InvalidInput(
            f"{name} is a mesh of Abaqus (it begins with {line[:30]!r}), not an MCX input; this engine traces light in "
            "voxels, so fill the mesh with voxels first"
        )
    if line[:1] in _OTHER_INPUTS:
        raise InvalidInput(
            f"{name} is an input file of another program (it begins with {line[:30]!r}); one of MCX begins with the "
            "number of photons"
        )


def check_mcx_root(name: str, root: Mapping[str, Any]) -> None:
    """Raise InvalidInput if the object of a JSON file is of another kind than an MCX input."""
    keys = {key.split(".")[0].split("(")[0].lower() for key in root}
    if keys & {key.lower() for key in _JNIFTI}:
        raise InvalidInput(
            f"{name} is a volume in JNIfTI; name it as Domain.VolumeFile of an MCX input, or {_TO_NIFTI}"
        )
    if "mesh" in keys and "domain" not in keys:
        raise InvalidInput(
            f"{name} is an input file of MMC, whose domain is a mesh; this engine traces light in voxels, so fill the "
            "mesh with voxels and give a Domain"
        )
    if keys and not keys & {section.lower() for section in _SECTIONS}:
        raise InvalidInput(
            f"{name} is not an MCX input: it has none of the sections {', '.join(_SECTIONS)}, but "
            f"{', '.join(list(root)[:4])[:80]}"
        )
