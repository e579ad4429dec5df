"""Input files of Monte Carlo eXtreme (MCX): read, written, and run as they are, with the files that MCX would write."""
