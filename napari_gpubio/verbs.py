"""Which engine has which verbs, so that a command or a file imports no more engines than it names."""

from collections.abc import Mapping

OF_ENGINES: Mapping[str, tuple[str, ...]] = {
    "tracts": (
        "bootstrap", "bootstrap-fods", "box", "bundles", "clusters", "connect", "connectome", "dissect", "fod",
        "geodesics", "held-atlas", "held-fixels", "held-fods", "held-region", "held-scan", "held-tensors",
        "held-tractogram", "mppca", "open-atlas", "open-bundle", "open-connectome", "open-fibers", "open-fixels",
        "open-fods", "open-region", "open-response", "open-scan", "open-tensors", "open-tractogram", "peaks",
        "profiles", "response", "rules", "sphere", "tensors", "tissue-fods", "tissue-responses", "track",
        "track-fixels", "track-fods",
    ),
    "light": (
        "add-layer-photons", "add-photons", "fibers-in-tissue", "fluence", "forward", "held-diffusion-tensors",
        "held-tissue", "jacobians", "light", "mcml", "mcx", "open-diffusion-tensors", "open-head", "open-light",
        "open-mcx", "open-probe", "open-tissue", "simulate-layers", "simulate-light", "spectrum", "trajectories",
        "under-beam",
    ),
    "denoise": (
        "denoise", "denoise-fluence",
    ),
    "dose": (
        "dose-difference", "dose-of", "dose-sum", "dose-surface", "dvh", "held-contours", "labels-of",
        "open-contours", "open-dose", "open-labels", "open-plan",
    ),
    "speckle": (
        "held-frames", "held-regions", "measure-dark", "mesi", "open-frames", "open-regions", "pulsatility",
        "region-curves", "register-frames", "speckle",
    ),
    "workflows": (
        "clean-fluence",
    ),
}  # fmt: skip


def engine_of(verb: str) -> str | None:
    """Return the engine that has a verb, or None."""
    return next((engine for engine, verbs in OF_ENGINES.items() if verb in verbs), None)
