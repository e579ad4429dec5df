"""Monte Carlo light transport in label volumes.

From a segmented head to its fluence in three calls::

    head = load_head_phantom()
    result = simulate(head, Source(kind="pencil", position_mm=(0, 0, 80), direction=(0, 0, -1)))
    result.fluence  # 1/mm^2 per launched photon
"""
