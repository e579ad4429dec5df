"""The command-line verbs of tracts that are no operations yet."""

from typing import Any

from napari_gpubio.tracts.connectome import cli as connectome
from napari_gpubio.tracts.routes import cli as routes
from napari_gpubio.tracts.uncertainty import cli as uncertainty


def add_verb(verbs: Any) -> None:
    """Add the verbs to the command line."""
    uncertainty.add_verb(verbs)
    routes.add_verb(verbs)
    connectome.add_verbs(verbs)
