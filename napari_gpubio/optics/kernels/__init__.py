"""Physics of one photon packet, and diffusion on a grid, on the CPU and the GPU."""
