"""What every way of tracing fibers shares: problem, results, and the parts of the backends."""
