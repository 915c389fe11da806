"""Planning is a pipeline, and each stage hands one record on; `planner.plan` shows it.

The stages:
    graph       graph.structure.digraph   equal ops merged
    cuts        cuts.candidate_cuts       views folded into strides, ops fused into tasks, devices asked for kernels
    placement   placing.placed_tasks      for each task the device that runs it, and the order
    plan        binding.bind              kernels built, liveness, bound steps
    run         run.realize               values of the leaves filled in, steps run, results put into their nodes
"""
