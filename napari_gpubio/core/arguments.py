"""Settings dataclasses as command-line arguments: one option for each `param` field."""

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from napari_gpubio.core.parameters import param_info

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")


def add_settings(parser: argparse.ArgumentParser, settings: Any, title: str) -> None:
    """Add an option for each parameter of a settings instance, whose values are the defaults."""
    group = parser.add_argument_group(title)
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None:
            continue
        option, default = "--" + field.name.replace("_", "-"), getattr(settings, field.name)
        unit = f" [{info.unit}]" if info.unit else ""
        text = f"{info.help.replace('%', '%%')}{unit.replace('%', '%%')} (default: {default})"
        if isinstance(default, bool):
            group.add_argument(
                option, dest=field.name, action=argparse.BooleanOptionalAction, default=default, help=text
            )
        else:
            group.add_argument(
                option, dest=field.name, type=type(default), default=default, choices=info.choices, help=text
            )


def read_settings(namespace: argparse.Namespace, settings: Settings) -> Settings:
    """Return the settings that the arguments say.

    Raises
    ------
    InvalidInput
        If a value is out of range.
    """
    names = [f.name for f in dataclasses.fields(settings) if param_info(f) is not None]
    return dataclasses.replace(settings, **{name: getattr(namespace, name) for name in names})
