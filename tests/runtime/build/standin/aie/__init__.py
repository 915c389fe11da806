"""A strict stand-in for mlir-aie's Python package, for tests on machines without it.

AIE_STANDIN_VERSION says which release it stands in for: 1.3.4, 1.4.0 or 1.4.1 (or 1.4).
Calls take the arguments of that release and raise what it raises; resolving a program records what it would say in
MLIR. Arguments that exist but are not modelled are refused unless they have their default value. What differs between
releases was read in the sources of Xilinx/mlir-aie at the commits in `_standin.COMMITS`.
"""
