"""What tests of kernels share."""

import pytest

from tests.cuda_on_cpu import loader


@pytest.fixture
def kernel(cuda_on_cpu):
    """A function that compiles text and returns its first (or a named) kernel."""

    def compile_kernel(text, name=None, **how):
        module = loader.compile_text(text, **how)
        return module.get_function(name or module.kernels[0])

    return compile_kernel
