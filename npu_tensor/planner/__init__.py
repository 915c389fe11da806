"""From a graph to a plan: lowering, fusion, placement, liveness."""
