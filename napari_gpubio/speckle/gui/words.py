"""What the maps are called, in the panel and in the layers."""

from napari_gpubio.speckle.settings import ContrastSettings

PANEL = "panel"  # under which our own layers say what they are
LIVE_MAP, LIVE_RAW, RESULT, REGIONS = "speckle live map", "speckle live raw", "speckle map", "speckle regions"
MAPS = (LIVE_MAP, RESULT)
MESI = "mesi"  # among the choices: a fit of the whole stack, which is no index of a single map
CHOICES = {
    "sfi": "flow index SFI = 1/(2TK²)",
    "relative": "flow relative to baseline",
    "ict": "inverse correlation time 1/τ",
    "none": "contrast K",
    "squared": "K²",
    "inverse": "1/K²",
    MESI: "multi-exposure fit (MESI): 1/τ, ρ, ν",
}
SHORT = {"sfi": "SFI", "relative": "relative flow", "ict": "1/τ", "none": "K", "squared": "K²", "inverse": "1/K²"}


def title_of(settings: ContrastSettings) -> str:
    """Return the short name of the map that is shown, with its unit."""
    return SHORT[settings.index] + (f" ({settings.unit})" if settings.unit else "")


def limit_text(value: float) -> str:
    """Return a number with three or four digits, for a limit."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
