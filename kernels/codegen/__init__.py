"""From the program of an op to C++ for a core, and its cost in cycles."""
