"""The Riemannian metrics of geodesics in tensors: a class for each."""

from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings

Array = Any  # numpy or cupy


class Metric(Settings):
    """Base of the Riemannian metrics."""

    def dual(self, eigenvalues: Array) -> Array:
        """Eigenvalues of the dual metric W = g^-1 from those of the diffusion tensors, shape (..., 3)."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Inverse(Metric):
    """g = D^-1, the metric of van Aart et al. 2011: W = D."""

    def dual(self, eigenvalues: Array) -> Array:
        """W = D."""
        return eigenvalues


@dataclass(frozen=True, kw_only=True)
class Sharpened(Metric):
    """g = D^-p: W = D^p. The larger p, the closer geodesics keep to the principal direction."""

    power: float = param(2.0, "Sharpening p", "Exponent of the sharpened metric.", above=0.0, maximum=6.0, step=0.5)

    def dual(self, eigenvalues: Array) -> Array:
        """W = D^p."""
        return eigenvalues**self.power


@dataclass(frozen=True, kw_only=True)
class Adjugate(Metric):
    """g = det(D) D^-1 (Fuster et al. 2016). Fluid becomes expensive."""

    def dual(self, eigenvalues: Array) -> Array:
        """W = D / det D."""
        return eigenvalues / eigenvalues.prod(axis=-1)[..., None]


@dataclass(frozen=True, kw_only=True)
class Adaptive(Metric):
    """g = e^alpha D^-1 (Hao et al. 2014), so that geodesics follow the bends of fibers instead of cutting them short.

    The factor is computed for the whole volume.
    """

    def dual(self, eigenvalues: Array) -> Array:
        """W = D: the factor e^-alpha, which is not of one voxel, comes later."""
        return eigenvalues


AnyMetric = Inverse | Sharpened | Adjugate | Adaptive
