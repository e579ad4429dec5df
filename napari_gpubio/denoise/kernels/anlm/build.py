"""How the kernels of ``anlm.cu`` are built for a problem, and what a block of their threads takes.

No GPU is needed to know it.
"""

from typing import NamedTuple

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise.kernels.anlm.problem import Problem
from napari_gpubio.denoise.kernels.anlm.windows import BRICK

THREADS, ROWS, SIMD_WIDTH, RADIUS = 512, 16, 32, 2  # of a block; as in the kernel


class Build(NamedTuple):
    """How the kernels are built: voxels of a thread along x, and displacements between two barriers."""

    column: int
    together: int


BUILDS = (Build(2, 4), Build(2, 2), Build(2, 1), Build(1, 1))  # from the fastest to the least shared memory


def defines_of(problem: Problem, build: Build) -> tuple[str, ...]:
    """The specialization of the kernels that a problem needs."""
    settings, (a, b_with_c, anything) = problem.settings, problem.flags
    cubes = int(problem.windows.patches in (((1, 1, 1),), ((2, 2, 2),), ((1, 1, 1), (2, 2, 2))))
    return (
        f"PATCHES={len(problem.windows.patches)}",
        f"CUBES={cubes}",
        f"LARGEST={int(settings.center == 'largest')}",
        f"SQUARES={int(settings.is_rician)}",
        f"A_SUFFICES={a}",
        f"B_WITH_C_SUFFICES={b_with_c}",
        f"ANYTHING={anything}",
        f"KNOWN={int(problem.variance is not None)}",
        f"COLUMN={build.column}",
        f"PITCH={SIMD_WIDTH + 2 * problem.windows.search[2]}",
        f"TOGETHER={build.together}",
    )


def blocks_of_a_brick(column: int) -> int:
    """Blocks of threads that filter a brick."""
    x, y, z = BRICK
    return x // column * (y // (ROWS - 2 * RADIUS)) * (z // (SIMD_WIDTH - 2 * RADIUS))


def chosen_words(problem: Problem, column: int) -> int:
    """Words that say which candidates the voxels of a brick have: a bit for each displacement, by displacement in x."""
    x, y, z = (2 * radius + 1 for radius in problem.windows.search)
    inner = (ROWS - 2 * RADIUS) * (SIMD_WIDTH - 2 * RADIUS)
    return blocks_of_a_brick(column) * x * -(-y * z // 32) * column * inner


def shared_bytes(problem: Problem, build: Build) -> int:
    """Shared memory of a block: sums along x, along x and y, displaced values with their moments, displacements."""
    (_, y, z), column = problem.windows.search, build.column
    sums = len(problem.windows.patches) * column * (THREADS + (ROWS - 2 * RADIUS) * SIMD_WIDTH)
    lines = (column + 2 * RADIUS) + 2 * column  # of values and of their moments
    tile = lines * (ROWS + 2 * y) * (SIMD_WIDTH + 2 * z)
    return 4 * (build.together * sums + tile + (2 * y + 1) * (2 * z + 1))


def build_of(problem: Problem, limit_bytes: int) -> Build:
    """The fastest build that the shared memory has room for."""
    for build in BUILDS:
        if shared_bytes(problem, build) <= limit_bytes:
            return build
    raise InvalidInput(
        f"the search window needs {shared_bytes(problem, BUILDS[-1]) // 1024} kB of a GPU's shared memory, and this "
        f"one has {limit_bytes // 1024} kB; take a smaller search radius, or device='cpu'"
    )
