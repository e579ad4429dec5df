"""Monte Carlo in planar layers, as MCML does it (Wang et al. 1995), made fast as GPU-MCML was (Alerstam et al. 2010).

One photon is in packet.py and layers.cu, the backends that trace many in cpu.py and gpu.py, what the tallies say in
assemble.py and result.py, finite beams in beams.py.
"""
