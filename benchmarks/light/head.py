"""The head with as many photons as the machine allows: the fluence with its error, in planes through the light."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from common import Array

from light.plan import Plan, case, with_settings
from light.tracing import call
from napari_gpubio.light.result import LightResult

DEPTH_MM = 10.0  # along the beam; the planes go through this point


def trace_head(plan: Plan, photons: int) -> LightResult:
    """Trace the head, with half buffers, as a denoiser needs it."""
    return call(with_settings(case("head"), photons=photons, halves=True), plan.device)()


def planes(result: LightResult) -> dict[str, Array]:
    """Labels, fluence and standard error in the sagittal, coronal and axial plane through a point in the light."""
    domain, source = result.domain, result.source
    point = np.asarray(source.position_mm) + DEPTH_MM * source.frame()[2]
    index = (domain.world_to_grid(point) / domain.voxel_sizes_mm).astype(int)
    volumes = {"labels": domain.labels, "fluence": result.fluence, "error": result.fluence_error}
    found: dict[str, Array] = {
        f"{plane}_{name}": np.take(volume, index[axis], axis=axis)
        for axis, plane in enumerate(("sagittal", "coronal", "axial"))
        for name, volume in volumes.items()
    }
    return found | {
        "index": index,
        "source_index": domain.world_to_grid(source.position_mm) / domain.voxel_sizes_mm,
        "direction": domain.direction_to_grid(source.frame()[2]),
        "voxel_mm": domain.voxel_sizes_mm,
        "photons": np.array(result.launched),
        "label_names": np.array(["outside", *(medium.name for medium in domain.media)]),
    }


def write_volume(result: LightResult, path: Path) -> None:
    """Write everything a denoiser needs: labels, fluence, standard error and half buffers (tens of MB)."""
    assert result.half_fluences is not None
    np.savez_compressed(
        path,
        labels=result.domain.labels,
        affine=result.domain.affine,
        fluence=result.fluence,
        fluence_error=result.fluence_error,
        half_fluences=result.half_fluences.sum(axis=-1),
        photons=result.launched,
    )


def figures(result: LightResult) -> dict[str, Any]:
    """What came out, in numbers: the balance, each label's share, and how much of the brain is known how well."""
    energy = result.energy
    named = {medium.label: medium.name for medium in result.domain.media}
    known = {
        named[label]: {
            f"below_{bound:g}": float((result.relative_error[result.domain.labels == label] < bound).mean())
            for bound in (0.05, 0.1, 0.5)
        }
        for label in result.domain.labels_present
    }
    return {
        "photons": result.launched,
        "seconds": result.parameters["seconds"],
        "device": result.parameters["device"],
        "energy": {part.name: list(getattr(energy, part.name)) for part in dataclasses.fields(energy)},
        "imbalance": energy.total - 1.0,
        "absorbed": {named[label]: list(found) for label, found in result.absorbed.items()},
        "share_of_voxels_by_relative_error": known,
    }
