"""Which engine has which verbs, so that a command or a file imports no more engines than it names."""

from collections.abc import Mapping, Sequence

APPS, LEVELS = ("tracts", "light", "dose"), ("participant", "group")  # verbs of BIDS datasets, and what they are of
OF_ENGINES: Mapping[str, tuple[str, ...]] = {
    "diffusion": (
        "box", "fod", "held-atlas", "held-fixels", "held-fods", "held-region", "held-scan", "held-tensors",
        "mppca", "open-atlas", "open-fixels", "open-fods", "open-region", "open-response", "open-scan",
        "open-tensors", "peaks", "response", "sphere", "tensors", "tissue-fods", "tissue-responses",
    ),
    "tractograms": (
        "bundles", "clusters", "connectome", "dissect", "held-tractogram", "open-bundle", "open-connectome",
        "open-fibers", "open-tractogram", "profiles", "rules",
    ),
    "fibers": (
        "bootstrap", "bootstrap-fods", "connect", "flow", "flow-bootstrap", "flow-from", "flow-routes", "geodesics",
        "track", "track-along", "track-fixels", "track-fods",
    ),
    "layered": (
        "add-layer-photons", "mcml", "simulate-layers", "under-beam",
    ),
    "light": (
        "add-photons", "fibers-in-tissue", "fluence", "held-diffusion-tensors", "held-tissue", "light",
        "open-diffusion-tensors", "open-light", "open-tissue", "simulate-light", "spectrum",
    ),
    "probes": (
        "forward", "jacobians", "open-head", "open-probe", "trajectories",
    ),
    "mcx": (
        "mcx", "open-mcx",
    ),
    "denoise": (
        "denoise", "denoise-fluence",
    ),
    "registration": (
        "open-transform", "register", "transform-image", "transform-labels",
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


_OF_WINDOWS = ("simulate-light",)  # of what no file holds


def engine_of(verb: str) -> str | None:
    """Return the engine that has a verb, or None."""
    return next((engine for engine, verbs in OF_ENGINES.items() if verb in verbs), None)


def listed(engine: str) -> tuple[str, ...]:
    """Return the verbs of an engine that a help names: not those that all others do with their inputs, or windows."""
    return tuple(one for one in OF_ENGINES[engine] if not one.startswith(("open-", "held-")) and one not in _OF_WINDOWS)


def app_of(arguments: Sequence[str]) -> str | None:
    """Return the verb of a BIDS dataset that a command is of, or None: ``light`` is one where a level follows."""
    named = next((one for one in arguments if not one.startswith("-")), "")
    return named if named in APPS and (engine_of(named) is None or not {*LEVELS}.isdisjoint(arguments)) else None
