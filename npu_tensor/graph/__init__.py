"""The recorded graph: nodes, how they are recorded, and which tensors share memory."""
