"""The dock widget "Registration"."""

from napari_gpubio.registration.gui.panel import RegistrationPanel

__all__ = ["RegistrationPanel"]
