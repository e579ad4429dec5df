"""Input files of Monte Carlo eXtreme (MCX), as JSON: cases.py reads and writes them, the other files a part each."""
