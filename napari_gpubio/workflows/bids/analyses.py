"""What is made of a subject: fibers of diffusion scans, light in a labeled head, doses in structures of a plan.

Each is made of operations, so that every result carries the record of what made it. Of `ANALYSES`, each has what a
subject must have, what finds that, and what makes the results of one of it; engines are imported where they are used.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.bids import described
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.volumes import OpenVolume
from napari_gpubio.core.reading import note
from napari_gpubio.core.settings import kind_of, plain_fields
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.volumes import nifti_affine, open_nifti, read_volume
from napari_gpubio.workflows.bids.dataset import IMAGES, RT, BidsFile, Dataset
from napari_gpubio.workflows.bids.derivatives import Derivatives, describe

_TENSOR = {"Model": {"Description": "Diffusion Tensor", "Parameters": {"FitMethod": "wls"}}}
_MAPS = {
    "fa": {"Description": "Fractional anisotropy"}, "md": {"Description": "Mean diffusivity", "Units": "mm^2/s"},
}  # fmt: skip
_MODELS = {  # names of model and parameter of the map in whose white matter seeds are, by the verb that makes it
    "fod": {"model": "csd", "param": "FOD"}, "tissue-fods": {"model": "msmt", "param": "FOD"},
    "tensors": {"model": "tensor", "param": "FA"},
}  # fmt: skip
_CSD = {"fod": "constrained spherical deconvolution", "tissue-fods": "multi-shell, multi-tissue deconvolution"}
_ENCODING = {"Type": "sh", "EncodingAxis": 3, "Reference": "xyz", "SphericalHarmonicBasis": "mrtrix3"}
_FOD = {"Description": "Fiber orientation distributions of white matter", "OrientationEncoding": _ENCODING}
_TABLES = {"curves": "Dose-volume histograms", "metrics": "Metrics of dose-volume histograms"}
_CONNECTOME = {"matrix": ".csv", "connectome": ".npz"}
_TISSUES = {  # names of labels, by what is called so
    "CSF": ("csf", "cerebrospinal fluid"), "gray matter": ("gm", "gray matter", "grey matter", "cortex"),
    "white matter": ("wm", "white matter"), "skull": ("skull", "bone", "bn"), "scalp": ("scalp", "skin", "soft tissue"),
}  # fmt: skip


# -- fibers -----------------------------------------------------------------------------------------------------------


def _scans(dataset: Dataset, subject: str, _: Any) -> Sequence[BidsFile]:
    """Diffusion scans: of sessions in which some were preprocessed, these."""
    every = dataset.files(subject=subject, suffix="dwi", datatype="dwi", extension=IMAGES)
    found = [one for one in every if not one.in_template]
    if done := [one for one in found if one.pipeline]:
        note(f"sub-{subject}: scans of derivatives are taken ({', '.join(one.path.name for one in done)})")
    return [one for one in found if one.pipeline or one.session not in {other.session for other in done}]


def _tracts(out: Derivatives, scan: BidsFile) -> None:
    """Maps of tensors, FODs where the scan supports them, a tractogram, and a connectome where there are labels."""
    from napari_gpubio.diffusion.operations import FitTensors, Mppca, OpenScan
    from napari_gpubio.tractograms.io.blocks import blocks_of

    opened = OpenScan.at(scan.path)
    found = out.raw.joined(scan, suffix="mask", datatype="dwi", desc="brain", extension=IMAGES)
    mask = None if found is None else OpenVolume.at(found.path)
    of_scan: dict[str, Any] = {"scan": Mppca(scan=opened) if out.options.mppca else opened, "mask": mask}
    tensors = FitTensors(**of_scan)
    paths = {name: _path(out, scan, "dwimap", ".nii.gz", model="tensor", param=name.upper()) for name in _MAPS}
    out.make(tensors, {name: (paths[name], {**_TENSOR, **about}) for name, about in _MAPS.items()})
    tracking = _tracking(out, scan, run(opened), of_scan, tensors)
    source = out.uri(_path(out, scan, "dwimap", ".nii.gz", **_MODELS[tracking.field.of.verb]))
    kind = kind_of(tracking.method).replace("_", "")
    fibers = _path(out, scan, "tractogram", out.options.tractogram, tract="wholebrain", track=kind)
    if out.make(tracking, {"fibers": (fibers, _about_fibers(tracking, source))}):
        describe(fibers, {"StreamlineCount": sum(len(block) for _, block in blocks_of(fibers))})
    _connectome(out, scan, fibers)


def _tracking(out: Derivatives, scan: BidsFile, signals: Any, of_scan: Mapping[str, Any], tensors: Any) -> Any:
    """The operation that tracks fibers: in FODs, which are made and written, or where there can be none in tensors."""
    from napari_gpubio.diffusion.fods.estimate import supported_shell
    from napari_gpubio.diffusion.operations import Deconvolve, DeconvolveTissues, EstimateTissueResponses
    from napari_gpubio.fibers.operations import Track, TrackInFods
    from napari_gpubio.fibers.seeds import InWhiteMatter, InWhiteMatterByFa
    from napari_gpubio.fibers.settings import EuDX

    per_voxel, refused = out.options.per_voxel, "the scan has too few directions"
    try:
        supported_shell(signals)
        every: list[Any] = [Deconvolve(**of_scan)]
    except InvalidInput as error:
        every, refused = [], str(error)
    if every and sum(shell > 0 for shell in signals.shells()) > 1:
        responses = EstimateTissueResponses(**of_scan)
        every.insert(0, DeconvolveTissues(**of_scan, responses=tuple(map(responses.output, responses.makes))))
    for fods in every:
        path, about = _path(out, scan, "dwimap", ".nii.gz", **_MODELS[fods.verb]), {"Description": _CSD[fods.verb]}
        try:
            out.make(fods, {"fods": (path, {**_FOD, "Model": about})})
        except InvalidInput as error:
            refused = str(error)
            note(f"{_CSD[fods.verb]} cannot be done: {refused}")
        else:
            return TrackInFods(field=fods, seeds=InWhiteMatter(per_voxel=per_voxel), tensors=tensors)
    note(f"fibers are tracked in tensors, one direction a voxel, for there are no FODs: {refused}")
    return Track(field=tensors, seeds=InWhiteMatterByFa(per_voxel=per_voxel), method=EuDX())


def _about_fibers(tracking: Any, source: str) -> dict[str, Any]:
    """What the draft of BIDS asks for of a tractogram; what is not there depends on the size of the voxels."""
    method, per_voxel = tracking.method, tracking.seeds.per_voxel
    plain = {key: value for key, value in plain_fields(method).items() if value is not None}
    ends = {key: plain.pop(key) for key in [*plain] if any(word in key for word in ("stop", "angle", "max_", "radius"))}
    seeding = "CountPerElement" if per_voxel == 1 else "RandomPerElement"
    return {
        "Description": f"Streamlines from seeds in all of the white matter: {kind_of(method)}",
        "StreamlineSeeding": {"Sources": [{"Type": seeding, "SeedsPerElement": per_voxel, "Source": source}]},
        "StreamlineAcceptanceCriteria": {"min_length_mm": plain.pop("min_length_mm", "5 voxels")},
        "StreamlineTermination": ends,
        "StreamlinePropagation": {"Algorithm": kind_of(method), **plain},
        "StreamlineReconstructionDensity": {"SeedsPerElement": per_voxel},
    }


def _connectome(out: Derivatives, scan: BidsFile, path: Path) -> None:
    """Count the fibers between the regions of labels, where there are any."""
    from napari_gpubio.diffusion.operations import OpenAtlas
    from napari_gpubio.tractograms.operations import MakeConnectome, OpenFibers

    every = (out.raw.joined(scan, suffix="dseg", datatype=kind, extension=IMAGES) for kind in ("dwi", "anat"))
    labels = next((one for one in every if one is not None), None)
    if labels is None:
        note("there are no labels (dseg) of the subject, so no connectome is made")
        return
    if labels.datatype == "anat":
        note(f"{labels.path.name} is taken to lie where the scan does; register them if it does not")
    operation = MakeConnectome(fibers=OpenFibers.at(path), atlas=OpenAtlas.at(labels.path))
    about = {"Description": "Number of streamlines between regions"}
    out.make(operation, {name: (_path(out, scan, "connectome", end), about) for name, end in _CONNECTOME.items()})


def _path(out: Derivatives, of: BidsFile, suffix: str, extension: str, **more: str) -> Path:
    """Where a result of a file goes, by its entities but ``desc``, and further ones."""
    entities = {**{key: label for key, label in of.entities.items() if key != "desc"}, **more}
    name = "_".join([*(f"{key}-{label}" for key, label in entities.items()), suffix]) + extension
    folders = [f"{key}-{of.entities[key]}" for key in ("sub", "ses") if key in of.entities]
    path = out.folder.joinpath(*folders, of.datatype, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


# -- light ------------------------------------------------------------------------------------------------------------


def _probes(dataset: Dataset, subject: str, options: Any) -> Sequence[BidsFile]:
    """The probe of each session; where there is none and a source is given, labels."""
    labels = dataset.files(subject=subject, suffix="dseg", datatype="anat", extension=IMAGES)
    return dataset.probes(subject) or [one for one in labels if options.position_mm and not one.in_template]


def _light(out: Derivatives, of: BidsFile) -> None:
    """A forward model of a probe at all of its wavelengths, or the fluence of a source at each that is given."""
    labels = of if of.suffix == "dseg" else out.raw.joined(of, suffix="dseg", datatype="anat", extension=IMAGES)
    if labels is None:
        raise InvalidInput("there are no labels of the head (anat/*_dseg.nii.gz); segment its T1-weighted image")
    presets, photons = _presets(labels.path, out.options.head_table), out.options.photons
    (_fluence if labels is of else _forward)(out, of, labels, presets, {"photons": photons} if photons else {})


def _forward(out: Derivatives, probe: BidsFile, labels: BidsFile, presets: Any, few: Mapping[str, Any]) -> None:
    """A forward model."""
    from napari_gpubio.probes.forward.operations import MakeForwardModel, OpenHead, OpenProbe
    from napari_gpubio.probes.forward.settings import ForwardSettings

    t1 = out.raw.joined(labels, suffix="T1w", datatype="anat", extension=IMAGES)
    model = MakeForwardModel(
        probe=OpenProbe.at(probe.path, landmarks=() if t1 is None else _landmarks(probe.path, t1.path)),
        head=OpenHead.at(labels.path, presets=presets),
        settings=ForwardSettings(wavelengths_nm=tuple(out.options.wavelengths_nm), **few),
        project=out.options.project,
    )
    about = {"Description": "Sensitivities of all channels at all wavelengths"}
    out.make(model, {"model": (_path(out, probe, "forward", ".npz"), about)})


def _fluence(out: Derivatives, labels: BidsFile, _: BidsFile, presets: Any, few: Mapping[str, Any]) -> None:
    """The fluence of a pencil beam at each wavelength."""
    from napari_gpubio.light.operations import Light, OpenDomain
    from napari_gpubio.light.settings import LightSettings
    from napari_gpubio.optics.sources import Pencil
    from napari_gpubio.optics.tissue import media_at_wavelengths

    if not out.options.wavelengths_nm:
        raise InvalidInput("there is no probe, which would say the wavelengths; give --wavelengths-nm")
    source = Pencil(position_mm=tuple(out.options.position_mm))
    for nm, media in media_at_wavelengths(dict(presets), out.options.wavelengths_nm).items():
        tissue = OpenDomain.at(labels.path, media=media)
        path = _path(out, labels, "fluence", ".nii.gz", desc=f"{nm:g}nm".replace(".", "p"))
        about = {"Description": f"Fluence of a pencil beam at {nm:g} nm"}
        out.make(Light(tissue=tissue, source=source, settings=LightSettings(**few)), {"fluence": (path, about)})


def _presets(path: Path, table: str) -> tuple[tuple[int, str], ...]:
    """Optical properties of the labels of a head by their names; InvalidInput if a name is of no tissue."""
    from napari_gpubio.core.label_tables import names_of_labels
    from napari_gpubio.optics.tissue import head_recipes
    from napari_gpubio.optics.tissue.presets import HEAD_LAYERS

    there = [int(label) for label in np.unique(read_volume(path)[0]) if label]
    names = names_of_labels(path, there)
    recipes = dict(zip(HEAD_LAYERS, head_recipes(table), strict=True))
    if not names:
        note(f"the labels of {path.name} have no names; they were taken as 1 scalp, 2 skull, 3 CSF, 4 gray, 5 white")
        names = dict(enumerate(HEAD_LAYERS, 1))
    plain = {label: re.sub("[-_ ]+", " ", names.get(label, "")).strip().casefold() for label in there}
    found = {label: next((one for one in _TISSUES if name in _TISSUES[one]), "") for label, name in plain.items()}
    if odd := next((label for label, tissue in found.items() if not tissue), None):
        raise InvalidInput(
            f"{path.name}: label {odd} ({names.get(odd, 'no name')!r}) is none of {', '.join(HEAD_LAYERS)}; name it so "
            "in the table of the labels (dseg.tsv)"
        )
    return tuple((label, recipes[tissue].name) for label, tissue in found.items())


def _landmarks(probe: Path, t1: Path) -> tuple[tuple[str, float, float, float], ...]:
    """Where landmarks of a probe are in the head's world, by the voxels that the JSON file of the T1w has of them."""
    from napari_gpubio.probes.forward.model import read_probe

    def called(name: str) -> str:
        return re.sub("^(nas|nasion)$", "nz", name.casefold())

    voxels = described(t1).get("AnatomicalLandmarkCoordinates")
    if not isinstance(voxels, dict):
        return ()
    affine, own = nifti_affine(open_nifti(t1)), {called(name): name for name in read_probe(probe).landmarks_mm}
    found = {own[called(name)]: place for name, place in voxels.items() if called(name) in own}
    places = {name: apply_affine(affine, np.array(place, float)).tolist() for name, place in found.items()}
    return tuple((name, x, y, z) for name, (x, y, z) in places.items())


# -- dose -------------------------------------------------------------------------------------------------------------


def _dose(out: Derivatives, plans: BidsFile) -> None:
    """Curves and metrics of all doses in all structures of a folder."""
    from napari_gpubio.dose.io.dicom import sorted_by_modality
    from napari_gpubio.dose.operations import DoseVolume, OpenContours, OpenDose, OpenPlan

    note(f"BIDS has no standard for radiotherapy; the DICOM files of {RT} or sourcedata are taken")
    kinds, damaged = sorted_by_modality(plans.path)
    for text in damaged:
        note(f"left out: {text}")
    if lacking := [kind for kind in ("RTDOSE", "RTSTRUCT") if kind not in kinds]:
        raise InvalidInput(f"{plans.path} has no {' and no '.join(lacking)} file; export them")
    prescribed = kinds.get("RTPLAN", [])
    if len(prescribed) > 1:
        note(f"there are {len(prescribed)} RTPLAN files, of which none is taken for the prescription")
    operation = DoseVolume(
        doses=tuple(map(OpenDose.at, kinds["RTDOSE"])),
        structures=tuple(map(OpenContours.at, kinds["RTSTRUCT"])),
        plan=OpenPlan.at(prescribed[0]) if len(prescribed) == 1 else None,
        metrics=tuple(out.options.metrics),
    )
    paths = {name: _path(out, plans, "dvh", ".csv", desc=name) for name in _TABLES}
    out.make(operation, {name: (paths[name], {"Description": what}) for name, what in _TABLES.items()})


Find = Callable[[Dataset, str, Any], Sequence[BidsFile]]
ANALYSES: dict[str, tuple[str, Find, Callable[[Derivatives, BidsFile], None]]] = {
    "tracts": ("a diffusion scan (dwi/*_dwi.nii.gz)", _scans, _tracts),
    "light": ("a probe (nirs/*.snirf), or labels (anat/*_dseg.nii.gz) and --position-mm", _probes, _light),
    "dose": (f"DICOM files ({RT}/*.dcm, or sourcedata)", lambda dataset, subject, _: dataset.plans(subject), _dose),
}
