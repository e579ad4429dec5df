"""What is made of a subject: fibers of diffusion scans, light in a labeled head, doses in structures of a plan.

Each is made of operations, so that every result carries the record of what made it. An `Analysis` has a function that
finds what it is made of, and one that makes it; engines are imported where they are used.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.records import Operation
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
    "fa": {"Description": "Fractional anisotropy"},
    "md": {"Description": "Mean diffusivity", "Units": "mm^2/s"},
}
_CSD = {
    "csd": "Constrained spherical deconvolution",
    "msmt": "Multi-shell, multi-tissue constrained spherical deconvolution",
}
_ENCODING = {"Type": "sh", "EncodingAxis": 3, "Reference": "xyz", "SphericalHarmonicBasis": "mrtrix3"}
_FOD = {"Description": "Fiber orientation distributions of white matter", "OrientationEncoding": _ENCODING}
_TABLES = {"curves": "Dose-volume histograms", "metrics": "Metrics of dose-volume histograms"}
_CONNECTOME = {"matrix": ".csv", "connectome": ".npz"}
_TISSUES = {  # words in names of labels, by what is called so; the first that fits
    "CSF": ("csf", "cerebrospinal", "ventricle"),
    "gray matter": ("gm", "gray matter", "grey matter", "graymatter", "cortex"),
    "white matter": ("wm", "white matter", "whitematter"),
    "skull": ("skull", "bone", "bn"),
    "scalp": ("scalp", "skin", "st", "soft tissue"),
}
_NASION = ("nz", "nas", "nasion")


class Analysis(NamedTuple):
    """One kind of analysis.

    Parameters
    ----------
    needs
        What a subject must have, in words.
    find
        Takes dataset, subject and options; yields what one result is made of each, with its path.
    make
        Makes the result of one of these.
    """

    needs: str
    find: Callable[[Dataset, str, Any], Iterator[Any]]
    make: Callable[[Derivatives, Any], None]


def _images(dataset: Dataset, subject: str, options: Any, **wanted: str) -> tuple[BidsFile, ...]:
    """Images of a subject, in the sessions that are wanted."""
    found = dataset.files(subject=subject, extension=IMAGES, **wanted)
    return tuple(one for one in found if not options.session_label or one.session in options.session_label)


# -- fibers -----------------------------------------------------------------------------------------------------------


def _scans(dataset: Dataset, subject: str, options: Any) -> Iterator[BidsFile]:
    """Diffusion scans: those that were preprocessed, where there are any."""
    found = [one for one in _images(dataset, subject, options, suffix="dwi", datatype="dwi") if not one.in_template]
    if done := [one for one in found if one.pipeline]:
        note(f"sub-{subject}: the scans of derivatives are taken ({', '.join(one.path.name for one in done)})")
    yield from done or found


def _tracts(out: Derivatives, scan: BidsFile) -> None:
    """Maps of tensors, FODs where the scan supports them, a tractogram, and a connectome where there are labels."""
    from napari_gpubio.diffusion.operations import FitTensors, Mppca, OpenScan

    opened = OpenScan.at(scan.path)
    found = out.raw.joined(scan, suffix="mask", datatype="dwi", desc="brain", extension=IMAGES)
    mask = None if found is None else OpenVolume.at(found.path)
    of_scan: dict[str, Any] = {"scan": Mppca(scan=opened) if out.options.mppca else opened, "mask": mask}
    tensors = FitTensors(**of_scan)
    paths = {name: _path(out, scan, "dwimap", ".nii.gz", model="tensor", param=name.upper()) for name in _MAPS}
    out.make(tensors, {name: (paths[name], {**_TENSOR, **about}) for name, about in _MAPS.items()})
    tracking = _tracking(out, scan, run(opened), of_scan, tensors)
    kind = kind_of(tracking.method).replace("_", "")
    fibers = _path(out, scan, "tractogram", out.options.tractogram, tract="wholebrain", track=kind)
    out.make(tracking, {"fibers": (fibers, _about_fibers(tracking))})
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
        every: list[Operation] = [Deconvolve(**of_scan)]
    except InvalidInput as error:
        every, refused = [], str(error)
    if every and sum(shell > 0 for shell in signals.shells()) > 1:
        responses = EstimateTissueResponses(**of_scan)
        every.insert(0, DeconvolveTissues(**of_scan, responses=tuple(map(responses.output, responses.makes))))
    for fods in every:
        model = "msmt" if len(fods.makes) > 1 else "csd"
        path, about = _path(out, scan, "dwimap", ".nii.gz", model=model, param="FOD"), {"Description": _CSD[model]}
        try:
            out.make(fods, {"fods": (path, {**_FOD, "Model": about})})
        except InvalidInput as error:
            refused = str(error)
            note(f"{_CSD[model]} cannot be done: {refused}")
        else:
            return TrackInFods(field=fods, seeds=InWhiteMatter(per_voxel=per_voxel), tensors=tensors)
    note(f"fibers are tracked in tensors, one direction a voxel, for there are no FODs: {refused}")
    return Track(field=tensors, seeds=InWhiteMatterByFa(per_voxel=per_voxel), method=EuDX())


def _about_fibers(tracking: Any) -> dict[str, Any]:
    """What the draft of BIDS asks for of a tractogram; what is not there depends on the size of the voxels."""
    method, per_voxel = tracking.method, tracking.seeds.per_voxel
    plain = {key: value for key, value in plain_fields(method).items() if value is not None}
    ends = {key: plain.pop(key) for key in [*plain] if any(word in key for word in ("stop", "angle", "max_", "radius"))}
    seeding = "CountPerElement" if per_voxel == 1 else "RandomPerElement"
    source = f"white matter of the {method.works_in}"
    return {
        "Description": f"Streamlines of the whole brain: {method.use}",
        "StreamlineSeeding": {"Sources": [{"Type": seeding, "SeedsPerElement": per_voxel, "Source": source}]},
        "StreamlineAcceptanceCriteria": {"min_length_mm": plain.pop("min_length_mm", "5 voxels")},
        "StreamlineTermination": ends,
        "StreamlinePropagation": {"Algorithm": kind_of(method), **plain},
        "StreamlineReconstructionDensity": {"SeedsPerElement": per_voxel},
    }


def _connectome(out: Derivatives, scan: BidsFile, path: Path) -> None:
    """Say how many fibers there are, and count those between the regions of labels, where there are any."""
    from napari_gpubio.diffusion.operations import OpenAtlas
    from napari_gpubio.tractograms.io.blocks import blocks_of
    from napari_gpubio.tractograms.operations import MakeConnectome, OpenFibers

    describe(path, {"StreamlineCount": sum(len(block) for _, block in blocks_of(path))})
    kinds = ({"datatype": "dwi"}, {"datatype": "anat"})
    every = (out.raw.joined(scan, suffix="dseg", extension=IMAGES, **kind) for kind in kinds)
    labels = next((one for one in every if one is not None), None)
    if labels is None:
        note("there are no labels (dseg) of the subject, so no connectome is made")
        return
    if labels.datatype == "anat":
        note(f"{labels.path.name} is taken to lie where the scan does; register them if it does not")
    operation = MakeConnectome(fibers=OpenFibers.at(path), atlas=OpenAtlas.at(labels.path))
    about = {"Description": "Number of streamlines between regions"}
    out.make(operation, {name: (_path(out, scan, "connectome", end), about) for name, end in _CONNECTOME.items()})


def _path(out: Derivatives, of: BidsFile, suffix: str, extension: str, **entities: str) -> Path:
    """Where a result of a file goes, by its entities and further ones."""
    name = of.name.named(suffix, extension, **entities)
    return out.path(f"sub-{of.name.entities['sub']}", of.session and f"ses-{of.session}", of.datatype, name)


# -- light ------------------------------------------------------------------------------------------------------------


class _Head(NamedTuple):
    """Labels of a head, and a probe on it, if there is one."""

    labels: BidsFile
    probe: BidsFile | None
    t1: BidsFile | None

    @property
    def path(self) -> Path:
        """The file by which it is known."""
        return (self.probe or self.labels).path


def _heads(dataset: Dataset, subject: str, options: Any) -> Iterator[_Head]:
    """Labels with each probe of the subject: of each session its table of optodes, or its first recording."""
    every = _images(dataset, subject, options, suffix="dseg", datatype="anat")
    heads = [one for one in every if not one.in_template]
    t1s = {one: dataset.joined(one, suffix="T1w", datatype="anat", extension=IMAGES) for one in heads}
    probes = dict[str, BidsFile]()
    for wanted in ({"suffix": "optodes", "extension": ".tsv"}, {"suffix": "nirs", "extension": ".snirf"}):
        for one in dataset.files(subject=subject, datatype="nirs", **wanted):
            if not options.session_label or one.session in options.session_label:
                probes.setdefault(one.session, one)
    for probe in probes.values():
        labels = dataset.joined(probe, suffix="dseg", datatype="anat", extension=IMAGES)
        if labels is not None:
            yield _Head(labels, probe, t1s.get(labels))
    if heads and not probes and options.position_mm:
        yield from (_Head(one, None, t1s[one]) for one in heads)


def _light(out: Derivatives, head: _Head) -> None:
    """A forward model of a probe at all of its wavelengths, or the fluence of a source at each that is given."""
    from napari_gpubio.light.operations import Light, OpenDomain
    from napari_gpubio.light.settings import LightSettings
    from napari_gpubio.optics.sources import Pencil
    from napari_gpubio.optics.tissue import media_at_wavelengths
    from napari_gpubio.probes.forward.operations import MakeForwardModel, OpenHead, OpenProbe
    from napari_gpubio.probes.forward.settings import ForwardSettings

    options, labels = out.options, head.labels
    presets = _presets(labels.path, options.head_table)
    if head.probe is not None:
        opened = OpenProbe.at(head.probe.path, landmarks=_landmarks(head))
        few = {"photons": options.photons} if options.photons else {}
        settings = ForwardSettings(wavelengths_nm=tuple(options.wavelengths_nm), **few)
        tissue = OpenHead.at(labels.path, presets=presets)
        model = MakeForwardModel(probe=opened, head=tissue, settings=settings, project=options.project)
        about = {"Description": "Sensitivities of all channels at all wavelengths"}
        out.make(model, {"model": (_path(out, head.probe, "forward", ".npz"), about)})
        return
    settings_of_light = LightSettings(**({"photons": options.photons} if options.photons else {}))
    if not options.wavelengths_nm:
        raise InvalidInput("there is no probe, which would say the wavelengths; give --wavelengths-nm")
    for nm, media in media_at_wavelengths(dict(presets), options.wavelengths_nm).items():
        domain, source = OpenDomain.at(labels.path, media=media), Pencil(position_mm=tuple(options.position_mm))
        light = Light(tissue=domain, source=source, settings=settings_of_light)
        path = _path(out, labels, "fluence", ".nii.gz", desc=f"{nm:g}nm".replace(".", "p"))
        about: dict[str, Any] = {"Description": f"Fluence of a pencil beam at {nm:g} nm", "WavelengthNm": nm}
        out.make(light, {"fluence": (path, about)})


def _presets(path: Path, table: str) -> tuple[tuple[int, str], ...]:
    """Optical properties of the labels of a head by their names; InvalidInput if a name is of no tissue."""
    from napari_gpubio.core.label_tables import names_of_labels
    from napari_gpubio.optics.tissue import head_recipes
    from napari_gpubio.optics.tissue.presets import HEAD_LAYERS

    there = [int(label) for label in np.unique(read_volume(path)[0]) if label]
    names = names_of_labels(path, there)
    recipes = dict(zip(HEAD_LAYERS, head_recipes(table), strict=True))
    if not names:
        note(f"the labels of {path.name} have no names, and were taken as 1 scalp, 2 skull, 3 CSF, 4 gray, 5 white matter")
        names = dict(enumerate(HEAD_LAYERS, 1))
    found = {label: _tissue(names.get(label, "")) for label in there}
    if odd := next((label for label, tissue in found.items() if not tissue), None):
        raise InvalidInput(
            f"{path.name}: label {odd} ({names.get(odd, 'no name')!r}) is none of {', '.join(HEAD_LAYERS)}; name it so "
            "in the table of the labels (dseg.tsv)"
        )
    return tuple((label, recipes[tissue].name) for label, tissue in found.items())


def _tissue(name: str) -> str:
    """What a label is by its name; empty if that is not known."""
    plain = name.casefold().replace("_", " ").replace("-", " ").strip()
    return next((tissue for tissue, words in _TISSUES.items() if plain in words), "")


def _landmarks(head: _Head) -> tuple[tuple[str, float, float, float], ...]:
    """Where landmarks of the probe are in the head's world, by the voxels that the JSON file of the T1w has of them."""
    from napari_gpubio.probes.forward.model import read_probe

    assert head.probe is not None
    if head.t1 is None or not (voxels := head.t1.metadata().get("AnatomicalLandmarkCoordinates")):
        return ()
    own, affine = (
        {name.casefold(): name for name in read_probe(head.probe.path).landmarks_mm},
        nifti_affine(open_nifti(head.t1.path)),
    )
    called = {"nas": next((name for name in own if name in _NASION), "nas")}
    names = {key: called.get(key.casefold(), key.casefold()) for key in voxels}
    places = {
        own[name]: apply_affine(affine, np.array(voxels[key], float)) for key, name in names.items() if name in own
    }
    return tuple((name, *map(float, place)) for name, place in places.items()) if len(places) > 2 else ()


# -- dose -------------------------------------------------------------------------------------------------------------


class _Plans(NamedTuple):
    """A folder of radiotherapy of a subject."""

    subject: str
    session: str
    path: Path


def _plans(dataset: Dataset, subject: str, options: Any) -> Iterator[_Plans]:
    for session, folder in dataset.plans(subject).items():
        if not options.session_label or session in options.session_label:
            yield _Plans(subject, session, folder)


def _dose(out: Derivatives, plans: _Plans) -> None:
    """Curves and metrics of all doses in all structures of a folder."""
    from napari_gpubio.dose.io.dicom import sorted_by_modality
    from napari_gpubio.dose.operations import DoseVolume, OpenContours, OpenDose, OpenPlan

    note(f"BIDS has no standard for radiotherapy; DICOM files of {RT} or sourcedata are taken")
    kinds, damaged = sorted_by_modality(plans.path)
    for text in damaged:
        note(f"warning: {text}")
    lacking = [kind for kind in ("RTDOSE", "RTSTRUCT") if kind not in kinds]
    if lacking:
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
    folders = f"sub-{plans.subject}", plans.session and f"ses-{plans.session}"
    stem = "_".join(filter(None, folders))
    files = {name: out.path(*folders, RT, f"{stem}_desc-{name}_dvh.csv") for name in _TABLES}
    out.make(operation, {name: (files[name], {"Description": what}) for name, what in _TABLES.items()})


ANALYSES = {
    "tracts": Analysis("a diffusion scan (dwi/*_dwi.nii.gz)", _scans, _tracts),
    "light": Analysis("labels (anat/*_dseg.nii.gz) and a probe (nirs/*.snirf), or --position-mm", _heads, _light),
    "dose": Analysis("DICOM files (rt/*.dcm, which BIDS does not know, or sourcedata)", _plans, _dose),
}
