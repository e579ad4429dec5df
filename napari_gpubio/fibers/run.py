"""Fiber tracking on any device: seeds and settings in, a tractogram out."""

import dataclasses
import threading
from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs, by_workers, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.parameters import check_unused
from napari_gpubio.core.settings import kind_of, plain
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.fibers.directions import Directions
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem
from napari_gpubio.fibers.kernels.fibers.tally import Partial, no_fibers
from napari_gpubio.fibers.kernels.fixels.problem import FixelProblem
from napari_gpubio.fibers.kernels.lifted.problem import LiftedProblem
from napari_gpubio.fibers.kernels.rays.problem import RayProblem, check_tensors
from napari_gpubio.fibers.kernels.streamlines.problem import StreamlineProblem
from napari_gpubio.fibers.seeds import Field, make_launch
from napari_gpubio.fibers.settings import IFOD2, METHODS, FixelGeodesic, Hamiltonian, Method, TrackMethod, VanAart2011
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
PROBLEMS: tuple[type[FiberProblem], ...] = (RayProblem, StreamlineProblem, LiftedProblem, FixelProblem)
USUAL_METHODS: dict[type, Method] = {TensorField: Hamiltonian(), FodField: IFOD2(), FixelField: FixelGeodesic()}
MAX_AHEAD = 2  # blocks of each processor that are finished, or begun, before one that comes before them is
_BLOCKS_EACH, _MIN_BLOCK, _LARGEST_BLOCK = 8, 64, 20_000  # for a worker; fibers that it traces at a time


class Piece(NamedTuple):
    """Finished fibers of one chunk: index of the first one launched, how many were, those kept, and their indices."""

    start: int
    launched: int
    fibers: Tractogram
    which: npt.NDArray[np.int64]


def track_steps(
    field: Field,
    seeds_mm: npt.ArrayLike,
    directions: Directions | None = None,
    method: Method | None = None,
    *,
    target: AnyRegion | None = None,
    only_target: bool = False,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Tractogram]:
    """Trace fibers from seed points, step by step; each step's preview is the fibers finished since the last one.

    Parameters
    ----------
    field
        The tensors, FODs or fixels.
    seeds_mm
        Seed points, world mm, shape (S, 3); seeds outside the mask are left out.
    directions
        The fan of directions at each seed, by default the usual ones of the method; see
        `napari_gpubio.fibers.directions`.
    method
        How fibers are traced and where they stop, by default `Hamiltonian`, `IFOD2` or `FixelGeodesic`; see
        `napari_gpubio.fibers.settings`.
    target
        A region where rays end, with `StopReason.TARGET`, even if FA is low there: at their first point in one of its
        voxels on the grid of the tensors. Those outside the mask count where they touch it.
    only_target
        Whether only fibers are kept of which a ray reached the target.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; the tractogram then holds what was done and ``complete`` is False.

    Returns
    -------
    Tractogram
        With ``per_fiber``: ``length_mm``, ``riemannian_length_mm`` (length in the metric, at unit diffusivity 1e-3
        mm^2/s), ``drift`` (largest relative change of g(v, v)), ``stop_reason`` and ``stop_reason_back`` (see
        `StopReason`), ``mean_fa``, ``alignment`` (mean abs(u.v1)), ``alignment_fa`` (mean abs(u.v1) FA), ``speed``
        (Euclidean over Riemannian length), ``seed``; and ``per_point``: ``fa``. In FODs and fixels amplitudes take the
        place of FA: ``mean_fod`` and ``fod``, or ``mean_amplitude`` and ``amplitude``.

    Raises
    ------
    InvalidInput
        If no seed lies in the mask, the target is nowhere near it, or a parameter is out of range.

    Examples
    --------
    >>> from napari_gpubio import diffusion, fibers
    >>> field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())
    >>> fibers = fibers.track(field, [(0.0, -5.0, 22.0)], fibers.Cone(count=50), device="cpu")
    >>> len(fibers) > 0
    True
    """
    chosen, clock, done = choose_device(device), RunClock(), 0
    problem = make_problem(field, seeds_mm, directions, method, target=target, only_target=only_target)
    launch = problem.launch
    pieces = list[Piece]()
    for done, fresh in chunks_of(problem, chosen, stop):
        pieces += fresh
        yield Step(done, len(launch), "tracing fibers").showing([piece.fibers for piece in fresh])
    return dataclasses.replace(
        _in_order(problem, pieces),
        complete=done == len(launch),
        parameters=_parameters(problem, chosen.describe(), done, clock.seconds),
    )


track = driven(track_steps)


def track_to_file_steps(  # noqa: PLR0913 - what a user may know of a run
    path: str,
    field: Field,
    seeds_mm: npt.ArrayLike,
    directions: Directions | None = None,
    method: Method | None = None,
    *,
    target: AnyRegion | None = None,
    only_target: bool = False,
    about: Mapping[str, Any] | None = None,
    device: str | Device = "auto",
    client: Any = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, int]:
    """Trace fibers and write them to a ``.trx``, ``.tck`` or ``.trk`` file as they come, never holding all of them.

    In memory are the fibers that are traced at a time, on each of several GPUs up to `MAX_AHEAD` times as many.

    Parameters are those of `track_steps`, ``about``: what the file says beside how they were traced, and ``client``: a
    ``dask.distributed.Client`` whose workers trace blocks of fibers, each on ``device``; what a worker that dies was
    at, another one does again. The fibers are the same, in the same order. If it is stopped, the file has what was
    done, and says so where its format can. Returns the number of fibers written.
    """
    from napari_gpubio.tractograms.io import TractogramWriter

    problem = make_problem(field, seeds_mm, directions, method, target=target, only_target=only_target)
    launch, done = problem.launch, 0
    if client is None:
        chosen = choose_device(device)
        name, chunks = chosen.describe(), chunks_of(problem, chosen, stop, most_ahead=MAX_AHEAD)
    else:
        name, chunks = "workers of a Dask cluster", _chunks_of_workers(problem, str(device), client)
    parameters = {**_parameters(problem, name, len(launch), 0.0), **(about or {})}
    with TractogramWriter(path, field.affine, field.shape, parameters) as writer:
        waiting: dict[int, Piece] = {}
        following = 0
        for done, fresh in chunks:
            waiting |= {piece.start: piece for piece in fresh}
            fresh.clear()  # no name may keep fibers while the next ones are traced
            while following in waiting:  # several GPUs finish in any order; the file keeps the order of the launch
                piece = waiting.pop(following)
                writer.append(piece.fibers)
                following += piece.launched
            yield Step(done, len(launch), "tracing fibers")
            if stop is not None and stop.is_set():
                break
        if done < len(launch):
            writer.append(dataclasses.replace(_in_order(problem, []), complete=False))
        return writer.fibers


track_to_file = driven(track_to_file_steps)


def make_problem(
    field: Field,
    seeds_mm: npt.ArrayLike,
    directions: Directions | None = None,
    method: Method | None = None,
    *,
    target: AnyRegion | None = None,
    only_target: bool = False,
) -> FiberProblem:
    """Set fiber tracking up in tensors, FODs or fixels; see `track_steps`."""
    if not isinstance(field, Field):
        raise InvalidInput(
            f"fibers are tracked in tensors, FODs or fixels, not in a {type(field).__name__}; of a scan make tensors "
            "by fit_tensors, or FODs by deconvolve"
        )
    method = method or USUAL_METHODS[type(field)]
    if isinstance(field, TensorField):
        check_tensors(field)
    check_method(method, field)
    if isinstance(field, FodField | FixelField) and min(field.shape) < 2:
        shape = " x ".join(map(str, field.shape))
        raise InvalidInput(f"the field has {shape} voxels, and fibers cannot run in a single slice; give a volume")
    launch = make_launch(field, seeds_mm, method.directions(directions))
    return problem_of(method)(field, launch, method, target=target, only_target=only_target)


def problem_of(method: TrackMethod) -> type[FiberProblem]:
    """Return the class of problems that a method solves."""
    return next(one for one in PROBLEMS if isinstance(method, one.methods))


def needed_memory(
    field: Field,
    seeds_mm: npt.ArrayLike,
    directions: Directions | None = None,
    method: Method | None = None,
    *,
    device: str | Device = "auto",
) -> Memory:
    """Memory that `track` takes besides the field and the fibers: what is made of the field, and kept with it.

    Arguments are those of `track_steps`; a run in the same field with the same method needs none of it again.
    """
    return make_problem(field, seeds_mm, directions, method).memory(choose_device(device))


def check_method(method: TrackMethod, field: Field) -> None:
    """Raise InvalidInput unless a method works in such a field."""
    what = USUAL_METHODS[type(field)].works_in
    if method.works_in != what:
        usable = ", ".join(kind for kind, one in METHODS.items() if one.works_in == what)
        raise InvalidInput(
            f"the method is {kind_of(method)!r}, which is for {method.works_in}; in {what} choose {usable}"
        )


def trace_problem(problem: FiberProblem, device: Device) -> Tractogram:
    """Trace a problem that is already set up, with every fiber kept in order."""
    return _in_order(problem, [piece for _, fresh in chunks_of(problem, device, None) for piece in fresh])


def chunks_of(
    problem: FiberProblem, device: Device, stop: threading.Event | None, *, most_ahead: int = 0
) -> Iterator[tuple[int, list[Piece]]]:
    """Drive one run on each device; yield the number done and the new fibers after each chunk.

    ``most_ahead``: see `advance_in_chunks`.
    """
    with _opened(problem, device) as runs:
        for done in runs.chunks(stop, most_ahead=most_ahead):
            yield done, _pieces_of(runs)


def _chunks_of_workers(problem: FiberProblem, device: str, client: Any) -> Iterator[tuple[int, list[Piece]]]:
    """As `chunks_of`, by the workers of a Dask cluster: blocks of fibers, in their order, so that one is here."""
    total = len(problem.launch)
    size = min(max(-(-total // (_BLOCKS_EACH * max(1, len(client.nthreads())))), _MIN_BLOCK), _LARGEST_BLOCK)
    blocks = ((start, min(start + size, total)) for start in range(0, total, size))
    done = 0
    for pieces in by_workers(client, _trace_block, problem, blocks, device, most_ahead=MAX_AHEAD):
        done += sum(piece.launched for piece in pieces)
        yield done, pieces


def _trace_block(problem: FiberProblem, block: tuple[int, int], device: str) -> list[Piece]:
    """Trace a range of fibers on a worker."""
    with _opened(problem, choose_device(device)) as runs:
        return [piece for _ in runs.pieces([block]) for piece in _pieces_of(runs)]


def _opened(problem: FiberProblem, device: Device) -> Runs:
    """Open the runs of a problem; InvalidInput if a setting has no effect there."""
    if isinstance(problem.settings, VanAart2011) and not device.is_gpu:
        check_unused(problem.settings, ("texture",), "a CPU has no texture unit")
    return Runs(problem, device)


def _pieces_of(runs: Runs) -> list[Piece]:
    """What runs have finished since they were last asked."""
    return [_piece(runs.problem, part) for part in runs.take()]


def _in_order(problem: FiberProblem, pieces: list[Piece]) -> Tractogram:
    pieces = pieces or [_piece(problem, no_fibers(problem.launch.directions.both_ways))]
    return Tractogram.join([piece.fibers for piece in sorted(pieces, key=lambda piece: piece.start)])


def _piece(problem: FiberProblem, part: Partial) -> Piece:
    """Turn one chunk into fibers, the numbers of both rays put together."""
    length = part.stats[:, :, 0].sum(axis=1)
    numbers = {"length_mm": length, **problem.fiber_numbers(part.stats)}
    per_fiber = {name: values.astype(np.float32) for name, values in numbers.items()}
    per_fiber["stop_reason"] = part.reasons[:, 0]
    per_fiber["stop_reason_back"] = part.reasons[:, -1]
    per_fiber["seed"] = problem.launch.seed_of(part.start, part.launched)[part.which].astype(np.int32)
    fibers = Tractogram(
        points=part.points,
        offsets=part.offsets,
        affine=problem.field.affine,
        shape=problem.field.shape,
        per_fiber=per_fiber,
        per_point={problem.point_number: part.values},
    )
    return Piece(part.start, part.launched, fibers, part.start + part.which)


def _parameters(problem: FiberProblem, device: str, launched: int, seconds: float) -> dict[str, Any]:
    """Everything needed to do it again, as JSON can hold it (of a target its name)."""
    launch = problem.launch
    target = {} if problem.target is None else {"target": problem.target.name, "only_target": problem.only_target}
    what = {"tracking": plain(problem.settings), "lengths": problem.lengths._asdict(), **target}
    seeds = {"seeds_mm": np.round(launch.points_mm[:1000], 4).tolist(), "seed_count": len(launch.points_mm)}
    return how_made(device, seconds, **what, directions=plain(launch.directions), **seeds, launched=launched)
