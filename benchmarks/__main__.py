"""python -m benchmarks: the whole suite."""

from .command import bench

bench(prog_name="python -m benchmarks")
