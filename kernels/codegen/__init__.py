"""Generation of C++ for a core from the program of an op, and its cost in cycles."""
