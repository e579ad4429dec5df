"""Tracing rays through a tensor field: geodesics in two formulations and classic streamlines, with two backends.

All methods are one first-order system in six numbers, y = (x, q), in voxel coordinates:

* ``hamiltonian``: q is the momentum p; x' = W p, p_k' = -1/2 p.(d_k W) p, with W the dual metric g^-1 and H = 1/2 p.W p
  constant (the geodesic equation in Hamilton's form; gradients are those of the interpolant itself).
* ``vanaart2011``: q is the velocity v; x'' = -W w with w_l = v^i (d_i g v)_l - 1/2 v.(d_l g) v, the geodesic equation
  with Christoffel symbols multiplied out; W and three differences of g are interpolated each for itself.
* ``eudx``: q is the last direction u; x' = the principal direction, signs made to agree with u.
"""
