"""Planning is a pipeline of plain calls; `planner.realize` makes them from top to bottom.

The stages:
    graph       structure.item_graph      merge equal ops
    lowering    fuse.lower.lower          fold views into strides
    placement   device_choice             fuse ops into tasks, ask devices for kernels, choose devices and the order
    plan        binding.bind              build kernels, compute liveness, bind steps
    run         planner.realize           fill in values of the leaves, run the steps, store results in their nodes
"""
