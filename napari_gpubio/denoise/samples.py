"""Volumes to try the filters on, with their truth: a head with Rician noise, and the fluence of few photons.

Both come as napari layers too, without importing napari.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import LayerData, volume_layer
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.core.volumes import read_array
from napari_gpubio.denoise.values import to_log10

Array = npt.NDArray[Any]
_FLUENCE = "fluence_pair.nii.gz"
HEAD_SHAPE, HEAD_VOXEL_MM = (88, 104, 88), 2.0
SCALP, SKULL, CSF, GRAY, WHITE = 1, 2, 3, 4, 5
# Signal of each label (0 is air), as in a T1-weighted image.
_SIGNALS = np.array([0.0, 640.0, 110.0, 180.0, 520.0, 760.0])
_FIELD_OF_VIEW = 1.12  # half of it, in half lengths of the head
_BLUR = 0.6  # voxels: tissues share the voxels of their borders
NOISE_AT_RIM, NOISE_IN_MIDDLE = 14.0, 50.0
HALF_PHOTONS = 50_000
ABSORBER_RADIUS_MM, ABSORBER_DEPTH_MM = 6.0, 16.0
_DECADES = 6


class NoisyHead(NamedTuple):
    """A magnitude image, what it would be without noise, and the noise, all of shape (X, Y, Z), and their affine."""

    noisy: Array
    truth: Array
    noise: Array
    affine: Array


class FluencePair(NamedTuple):
    """Fluence of two halves of the photons, and of very many, 1/mm² per photon, shape (X, Y, Z)."""

    half_a: Array
    half_b: Array
    truth: Array
    labels: Array
    affine: Array


def noisy_head(seed: int = 1) -> NoisyHead:
    """Make an MRI-like head with Rician noise that is strongest in its middle, as after parallel imaging.

    Nested ellipsoids with a folded cortex, 88 x 104 x 88 voxels of 2 mm; nobody's head. ``noise`` is the standard
    deviation of the real and imaginary parts.

    Parameters
    ----------
    seed
        Of the noise.
    """
    from scipy.ndimage import gaussian_filter

    x, y, z = _coordinates()
    shading = 1.0 + 0.075 * (z - y) - 0.04 * np.square(x)  # sensitivity of the receiving coil
    truth = gaussian_filter(_SIGNALS[_tissues(x, y, z)] * shading, _BLUR)
    hill = np.exp(-2.0 * (np.square(x) + np.square(y) + np.square(z)))
    noise = NOISE_AT_RIM + (NOISE_IN_MIDDLE - NOISE_AT_RIM) * hill
    real, imaginary = np.random.default_rng(seed).standard_normal((2, *HEAD_SHAPE)) * noise
    noisy = np.hypot(truth + real, imaginary)
    affine = np.diag([HEAD_VOXEL_MM] * 3 + [1.0])
    affine[:3, 3] = -0.5 * HEAD_VOXEL_MM * (np.array(HEAD_SHAPE) - 1)
    return NoisyHead(noisy.astype(np.float32), truth.astype(np.float32), noise.astype(np.float32), affine)


def _coordinates() -> list[Array]:
    """Coordinates to the right, the front and the top, in half lengths of the head; they broadcast to a volume."""
    lines = (np.linspace(-_FIELD_OF_VIEW, _FIELD_OF_VIEW, n) for n in HEAD_SHAPE)
    return list(np.meshgrid(*lines, indexing="ij", sparse=True))


def _tissues(x: Array, y: Array, z: Array) -> Array:
    """Labels of the head."""
    depth = np.sqrt(np.square(x / 0.86) + np.square(y) + np.square(z / 0.9))
    waves = np.sin(15 * x + 1.5 * np.sin(6 * z)) * np.sin(14 * y + 1.3 * np.sin(7 * x)) * np.cos(15 * z + np.sin(6 * y))
    folded = depth + 0.07 * waves + 0.25 * np.exp(-np.square(x / 0.025)) * (z > 0.0)  # and the fissure on top
    labels = np.zeros(HEAD_SHAPE, np.uint8)
    for label, surface, radius in (
        (SCALP, depth, 1.0), (SKULL, depth, 0.93), (CSF, depth, 0.86), (GRAY, folded, 0.80), (WHITE, folded, 0.66),
    ):  # fmt: skip
        labels[surface < radius] = label
    for side in (-1, 1):
        for label, middle, radii in (
            (GRAY, (0.27 * side, -0.05, -0.10), (0.12, 0.24, 0.14)),
            (CSF, (0.15 * side, -0.05, 0.12), (0.08, 0.36, 0.13)),
        ):
            squares = [np.square((at - m) / r) for at, m, r in zip((x, y, z), middle, radii, strict=True)]
            labels[squares[0] + squares[1] + squares[2] < 1.0] = label
    return labels


def fluence_pair() -> FluencePair:
    """Read the fluence of a pencil beam in a cube of tissue with an absorbing ball.

    Two halves of 50 000 photons each and the truth, made by the package's own Monte Carlo engine (see
    ``sample_data/README.md``). Labels: 1 tissue, 2 absorber.

    Raises
    ------
    InvalidInput
        If the file is missing.
    """
    volumes, affine = read_array(sample_path(_FLUENCE))
    half_a, half_b, truth = np.moveaxis(volumes, 3, 0)
    return FluencePair(half_a, half_b, truth, _absorber(truth.shape), affine)


def _absorber(shape: tuple[int, ...]) -> Array:
    """Labels of a cube whose top lies at z = 0 and whose voxels are 1 mm: 1, and 2 in the ball."""
    x, y, z = np.indices(shape)
    middle = (shape[0] - 1) / 2, (shape[1] - 1) / 2, ABSORBER_DEPTH_MM
    squares = np.square(x - middle[0]) + np.square(y - middle[1]) + np.square(z - middle[2])
    return np.where(squares <= ABSORBER_RADIUS_MM**2, 2, 1).astype(np.uint8)


# -- layers -----------------------------------------------------------------------------------------------------------


def head_layers() -> list[LayerData]:
    """Return the noisy head, and hidden its truth and its noise (napari's sample-data contribution)."""
    head = noisy_head()
    limits = (0.0, float(np.percentile(head.truth, 99.8)))
    return [
        volume_layer(head.noise, head.affine, "head noise σ, truth", colormap="viridis", visible=False),
        volume_layer(head.truth, head.affine, "head truth", contrast_limits=limits, visible=False),
        volume_layer(head.noisy, head.affine, "head (MRI, Rician noise)", contrast_limits=limits),
    ]


def fluence_layers() -> list[LayerData]:
    """Return both halves of the fluence as log10, hidden their labels and truth (napari's sample-data contribution)."""
    pair = fluence_pair()
    top = float(np.ceil(np.log10(pair.truth.max())))
    keywords: dict[str, Any] = {"contrast_limits": (top - _DECADES, top), "colormap": "inferno"}
    quantity = Quantity("fluence", "1/mm2", "log10", f"light, {HALF_PHOTONS:,} photons a half")
    metadata = {**quantity_metadata(quantity), "unit": quantity.unit, "factor": 1.0}
    layers = [volume_layer(pair.labels, pair.affine, "absorber (labels)", kind="labels", visible=False)]
    for name, values in (("truth", pair.truth), ("half B", pair.half_b), ("half A", pair.half_a)):
        more = {**keywords, "metadata": dict(metadata), "visible": name == "half A"}
        layers.append(volume_layer(to_log10(values), pair.affine, f"fluence {name}, log10 1/mm²", **more))
    return layers
