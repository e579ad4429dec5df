"""SimpleITK, where it is installed."""

from typing import Any

from napari_gpubio.core.errors import InvalidInput


def sitk() -> Any:
    """Return SimpleITK; InvalidInput if it is not installed."""
    try:
        import SimpleITK as library  # noqa: N813 - as everybody calls it
    except ImportError as error:
        raise InvalidInput(
            "this needs SimpleITK, which is not installed: python -m pip install 'napari-gpubio[registration]'"
        ) from error
    return library
