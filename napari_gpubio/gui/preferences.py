"""What a user prefers: declared in the manifest, edited in napari's preferences, and kept by napari in a file."""

import functools
import os
from pathlib import Path
from typing import Any

from npe2 import PluginManifest

import napari_gpubio
from napari_gpubio.core.files import CACHE

PLUGIN, _GROUP = "napari-gpubio", "general"


@functools.cache
def _defaults() -> dict[str, Any]:
    manifest = PluginManifest.from_file(Path(napari_gpubio.__file__).with_name("napari.yaml"))
    declared = (manifest.contributions.configurations or {})[_GROUP]
    return {name: each.default for name, each in declared.properties.items()}


def preference(name: str) -> Any:
    """Return what the user prefers; the manifest's default where the plugin is not installed.

    Examples
    --------
    >>> preference("left_right")
    'neurological'
    """
    from napari.settings import get_plugin_settings

    try:
        return getattr(getattr(get_plugin_settings(PLUGIN), _GROUP), name)
    except (KeyError, AttributeError):
        return _defaults()[name]


def use_preferred_cache() -> None:
    """Keep what can be made again in the folder that the user prefers, unless the environment names one."""
    if folder := preference("cache_folder"):
        os.environ.setdefault(CACHE, folder)


def open_preferences(viewer: Any) -> None:
    """Open napari's preferences, which have a page of the plugin."""
    getattr(viewer, "__wrapped__", viewer).window._open_preferences_dialog()  # napari's proxy keeps it private
