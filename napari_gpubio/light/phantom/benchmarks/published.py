"""Benchmarks of publications: denoising (Yuan et al. 2018) and the layers of skin (Alerstam et al. 2010)."""

import numpy as np

from napari_gpubio.light.model import Domain
from napari_gpubio.light.phantom.benchmarks.case import (
    Case,
    Reference,
    Row,
    benchmark_settings,
    block,
    grid_domain,
    medium,
    pencil,
)
from napari_gpubio.light.phantom.head import CSF, GRAY, SCALP, SKULL, WHITE, head_labels
from napari_gpubio.light.phantom.optodes import default_source
from napari_gpubio.light.tissue import HEAD_LAYERS

BACKGROUND: Row = (0.02, 10.0, 0.9, 1.37)
USC_ATLAS: dict[int, Row] = {
    SCALP: (0.019, 7.8, 0.89, 1.37),
    SKULL: (0.019, 7.8, 0.89, 1.37),
    CSF: (0.0004, 0.009, 0.89, 1.37),
    GRAY: (0.02, 9.0, 0.89, 1.37),
    WHITE: (0.08, 40.9, 0.84, 1.37),
}
SKIN_LAYERS = {  # mu_a and mu_s in 1/cm, g, n, voxels of 20 um; Meglinski & Matcher 2001, at 600 nm
    "stratum corneum": (0.2, 1000.0, 0.9, 1.53, 1),
    "living epidermis": (0.15, 400.0, 0.85, 1.34, 4),
    "papillary dermis": (0.7, 300.0, 0.8, 1.4, 5),
    "upper blood net dermis": (1.0, 350.0, 0.9, 1.39, 4),
    "dermis": (0.7, 200.0, 0.76, 1.4, 81),
    "deep blood net dermis": (1.0, 350.0, 0.95, 1.39, 10),
    "subcutaneous fat": (0.3, 150.0, 0.8, 1.44, 295),
}
# CPU-MCML with a Mersenne Twister, 8e8 photons, by the authors of GPU-MCML; per launched photon
SKIN_SPECULAR = 0.0438845
SKIN_ABSORBED, SKIN_ABSORBED_ERROR = 0.390300, 1.5e-5
SKIN_BY_LAYER = (0.00252812, 0.00588612, 0.0350800, 0.0363525, 0.2500125, 0.01588625, 0.04453625)
SKIN_BY_LAYER_ERROR = (1.3e-7, 1.3e-7, 1.9e-6, 1.6e-6, 1.25e-5, 1.8e-6, 4.2e-6)


def b1() -> Case:
    """A homogeneous cube of 100 mm."""
    return _anlm("B1", 0.4705, None)


def b2() -> Case:
    """The cube with an absorbing inclusion."""
    return _anlm("B2", 0.4723, (0.1, 10.0, 0.9, 1.37))


def b3() -> Case:
    """The cube with a refracting inclusion."""
    return _anlm("B3", 0.4713, (0.02, 10.0, 0.9, 6.85))


def head() -> Case:
    """The head phantom in voxels of 1 mm, with the properties of MCX's USC 19.5 atlas example and its 1e8 photons."""
    labels, affine = head_labels(1.0)
    media = tuple(
        medium(label, row, name, "MCX's USC 19.5 atlas example")
        for (label, row), name in zip(USC_ATLAS.items(), HEAD_LAYERS, strict=True)
    )
    domain = Domain(labels=labels, affine=affine, media=media)
    return Case(
        name="head", domain=domain, source=default_source(domain), settings=benchmark_settings(photons=100_000_000)
    )


def skin7() -> Case:
    """Seven layers of skin, 8 mm deep, periodic in i and j."""
    layers = SKIN_LAYERS.values()
    labels = np.repeat(np.arange(1, len(layers) + 1, dtype=np.uint8), [layer[4] for layer in layers])
    rows = [(mua / 10, mus / 10, g, n) for mua, mus, g, n, _ in layers]
    return Case(
        name="skin7",
        domain=grid_domain(np.tile(labels, (8, 8, 1)), rows, voxel_mm=0.02, names=tuple(SKIN_LAYERS)),
        source=pencil(0.08, 0.08),
        settings=benchmark_settings(faces=("cyclic",) * 4 + ("default",) * 2),
        reference=_skin_reference(),
    )


def _anlm(name: str, absorbed: float, inclusion: Row | None) -> Case:
    labels, rows = block(100), [BACKGROUND]
    if inclusion is not None:
        labels[30:70, 30:70, 10:50] = 2
        rows.append(inclusion)
    return Case(
        name=name,
        domain=grid_domain(labels, rows),
        source=pencil(50, 50),
        settings=benchmark_settings(),
        reference=Reference(
            absorbed=absorbed, error=3.7e-4, source="pmcxcl 0.7.5, 1e6 photons, without roulette"
        ),
    )  # fmt: skip


def _skin_reference() -> Reference:
    entered = 1.0 - SKIN_SPECULAR
    return Reference(
        absorbed=SKIN_ABSORBED / entered,
        error=SKIN_ABSORBED_ERROR / entered,
        source="CPU-MCML with a Mersenne Twister, 8e8 photons, by the authors of GPU-MCML; over what entered",
        by_label={label: value / entered for label, value in enumerate(SKIN_BY_LAYER, 1)},
        by_label_error={label: error / entered for label, error in enumerate(SKIN_BY_LAYER_ERROR, 1)},
    )
