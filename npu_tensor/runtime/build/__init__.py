"""From a design to files that a device loads: back ends, the processes that build, and the progress of both."""
