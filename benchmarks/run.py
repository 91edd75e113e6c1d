"""Run the benchmarks: ``python benchmarks/run.py cpu|gpu|soak``."""

from __future__ import annotations

import argparse
import os
import sys


def main() -> int:
    """Run one suite, print its table, and record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=("cpu", "gpu", "soak"))
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    if options.suite != "gpu":  # before either library starts its threads
        os.environ.setdefault("TORCHLETTE_NUM_THREADS", "2")
        os.environ.setdefault("OMP_NUM_THREADS", "2")
    import measure

    device = "cpu"
    if options.suite == "cpu":
        import conv
        import cpu_steps
        import demo_step
        import new_shapes
        import plan
        import record
        import small_ops
        import small_programs

        modules = (record, plan, small_ops, small_programs, demo_step, cpu_steps, new_shapes, conv)
        suites = [module.rows for module in modules]
    elif options.suite == "gpu":
        import conv
        import gpu_demo_step
        import gpu_kernels
        import gpu_steps

        device, suites = "wgpu", [gpu_kernels.rows, gpu_demo_step.rows, gpu_steps.rows, lambda: conv.rows("gpu")]
    else:
        import soak

        suites = [soak.rows]
    rows = measure.print_rows(suites)
    if not options.no_record:
        print(f"recorded in {measure.record(options.suite, device, rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
