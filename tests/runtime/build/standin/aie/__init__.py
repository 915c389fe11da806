"""A strict stand-in for the part of mlir-aie's Python package that npu_tensor's programs and builds use.

Read in the sources of Xilinx/mlir-aie 1.4.1 (601fc859532f2539bebb33ac89139584c76ae8a2); what it models is the same in
1.4.0 (db06374df9bf83d9fc557001ca213368aed15788). Calls take the arguments that programs give, by the names and in the
places that mlir-aie has for them, and no others. Resolving a program records what it would say in MLIR.
"""
