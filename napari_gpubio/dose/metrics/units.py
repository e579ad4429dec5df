"""Units of dose and volume in metrics."""

from napari_gpubio.core.errors import InvalidInput

_DOSES = {"Gy": 1.0, "cGy": 0.01, "mGy": 0.001}
_VOLUMES_CC = {"cc": 1.0, "cm3": 1.0, "mm3": 0.001}
PERCENT = "%"


def dose_factor(unit: str, target: str) -> float:
    """How many ``target`` one ``unit`` is.

    Raises
    ------
    InvalidInput
        If one is not known to be a multiple of the other.
    """
    if unit == target:
        return 1.0
    if unit in _DOSES and target in _DOSES:
        return _DOSES[unit] / _DOSES[target]
    raise InvalidInput(f"a dose in {unit} cannot be given in {target}; use {unit}")


def is_volume_unit(unit: str) -> bool:
    """Whether a text is a unit of volume."""
    return unit in _VOLUMES_CC


def volume_factor(unit: str) -> float:
    """How many cc one unit of volume is, or InvalidInput."""
    if unit not in _VOLUMES_CC:
        raise InvalidInput(f"{unit!r} is no unit of volume; use {', '.join(_VOLUMES_CC)}")
    return _VOLUMES_CC[unit]
