"""Many fibers at a time: resampling to a common number of points, and clusters of similar fibers."""

from napari_gpubio.tracts.bundles.clusters import Clusters, cluster
from napari_gpubio.tracts.bundles.resample import resample, resample_values

__all__ = ["Clusters", "cluster", "resample", "resample_values"]
