"""Many fibers at a time: resampling to a common number of points, clusters of similar fibers, profiles of bundles."""

from napari_gpubio.tracts.bundles.clusters import Clusters, cluster
from napari_gpubio.tracts.bundles.profile import Profile, profile
from napari_gpubio.tracts.bundles.resample import resample, resample_values

__all__ = ["Clusters", "Profile", "cluster", "profile", "resample", "resample_values"]
