"""The recorded graph: nodes, their recording, and tensors that share memory."""
