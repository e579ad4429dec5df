"""Left and right: napari counts axes z, y, x, so a volume in world axes is drawn mirrored unless told otherwise.

A view is a choice of the user and belongs to the whole viewer; arrays are never flipped.
"""

from typing import Any

VIEWS: dict[str, tuple[str, str, str]] = {
    "neurological": ("toward", "up", "right"),
    "radiological": ("away", "up", "left"),
}
VIEW_HELP = {
    "neurological": "the patient's left is on the left, as seen from behind or above",
    "radiological": "the patient's left is on the right, as seen from the front or below",
}


def camera_of(viewer: Any) -> Any:
    """Return the viewer's camera; napari 0.9 moved it into the scene."""
    scene = getattr(viewer, "scene", None)
    return viewer.camera if scene is None else scene.camera


def view_of(viewer: Any) -> str | None:
    """Return the name of the view that is set, or None if it is a mirrored one."""
    now = tuple(str(getattr(o, "value", o)) for o in camera_of(viewer).orientation)
    return next((name for name, orientation in VIEWS.items() if orientation == now), None)


def set_view(viewer: Any, name: str) -> None:
    """Show left and right in a named way; see `VIEWS`."""
    camera_of(viewer).orientation = VIEWS[name]
