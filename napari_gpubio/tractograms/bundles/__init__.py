"""Many fibers at a time: resampling, clusters of similar fibers, profiles and numbers of bundles, tables of groups."""

from napari_gpubio.tractograms.bundles.clusters import Clusters, cluster, with_clusters
from napari_gpubio.tractograms.bundles.group import Group, Member, by_group, find_members, group, group_steps
from napari_gpubio.tractograms.bundles.profile import Profile, profile
from napari_gpubio.tractograms.bundles.resample import resample, resample_values
from napari_gpubio.tractograms.bundles.summary import summary
from napari_gpubio.tractograms.bundles.tables import Table

__all__ = [
    "Clusters",
    "Group",
    "Member",
    "Profile",
    "Table",
    "by_group",
    "cluster",
    "find_members",
    "group",
    "group_steps",
    "profile",
    "resample",
    "resample_values",
    "summary",
    "with_clusters",
]
