"""Which regions are joined through crossings: true pairs above false ones by the flow, beside streamlines and tensors.

A phantom of six bundles with two crossings in a scan with noise, bundles of fixels by formulas (a triple crossing, an
S, a fan, two that touch) with turned directions, and 72 bundles of a real brain (shared data)::

    python benchmarks/fibers_flow.py [--device cpu] [--parts phantom,formulas,methods,brain,cost]

Beside it stand iFOD2 of MRtrix (where ``tckgen`` is installed), geodesics in tensors and fixels, and, in *methods*,
every method of tracking. *cost* takes seconds and memory of the CPU in processes of their own.
"""

import json

from common import Report, argument_parser, header, result_path
from fibers.flow_brain import brain
from fibers.flow_cost import alone, cost
from fibers.flow_phantom import all_methods, formulas, phantom

from napari_gpubio.core.device import choose_device


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--alone", help="a case whose seconds and memory are printed")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", default="phantom,formulas,methods,brain,cost")
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(alone(given.alone, given.device)))
        return
    facts = header(quick=False)
    path = result_path(given.json, "fibers_flow", facts["date"], choose_device(given.device))
    chosen = (
        "Step, angles and thresholds were chosen on seeds 0 and 1 of the phantom and on this brain; seed 2 and the "
        "bundles by formulas are held out. Overlap and arrivals are numbers to rank the targets of one source by."
    )
    report = Report(path, "The flow of fibers through crossings", facts, "", chosen)
    parts = {"phantom": phantom, "formulas": formulas, "methods": all_methods, "brain": brain, "cost": cost}
    report.run({name: lambda w=parts[name]: w(report, given.device) for name in given.parts.split(",")})


if __name__ == "__main__":
    main()
