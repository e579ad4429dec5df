"""How certain fibers are: tensors or FODs drawn again from the residuals of a fit, and fibers tracked in each draw."""

from napari_gpubio.fibers.uncertainty.intervals import Interval
from napari_gpubio.fibers.uncertainty.model import Bootstrap
from napari_gpubio.fibers.uncertainty.profiles import ProfileInterval, profile_interval
from napari_gpubio.fibers.uncertainty.run import bootstrap, bootstrap_steps
from napari_gpubio.fibers.uncertainty.settings import BootstrapSettings, FodBootstrapSettings

__all__ = [
    "Bootstrap",
    "BootstrapSettings",
    "FodBootstrapSettings",
    "Interval",
    "ProfileInterval",
    "bootstrap",
    "bootstrap_steps",
    "profile_interval",
]
