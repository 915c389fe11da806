"""Builds: from a design to files that a device loads. Contains back ends, build processes and their progress."""
