"""Many fibers at a time: resampling, clusters of similar fibers, profiles and numbers of bundles, tables of groups."""

from napari_gpubio.tracts.bundles.clusters import Clusters, cluster, with_clusters
from napari_gpubio.tracts.bundles.group import Group, Member, by_group, find_members, group, group_steps
from napari_gpubio.tracts.bundles.profile import Profile, profile
from napari_gpubio.tracts.bundles.resample import resample, resample_values
from napari_gpubio.tracts.bundles.summary import summary
from napari_gpubio.tracts.bundles.tables import Table

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
