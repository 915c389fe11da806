"""Programs for developers of the library."""
