"""Run the project's ``.cu`` files on the CPU, through g++, on machines that have no GPU.

``loader`` compiles and launches kernels on NumPy arrays; ``fake_cupy`` stands in for CuPy, so that an engine's host
code runs too. Users never need any of this: their CPU path is Numba.
"""
