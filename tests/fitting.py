"""Settings for tests that go through all methods with the same numbers."""

from napari_gpubio.core.parameters import replaced, without_effect


def fitting(base, **wanted):
    """Settings with those of the wanted values that have an effect with the others."""
    idle = without_effect(base, **wanted)
    return replaced(base, **{name: value for name, value in wanted.items() if name not in idle})
