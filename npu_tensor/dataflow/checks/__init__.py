"""Rules of `dataflow.check`, by subject. Each takes an `Index` and yields `Violation`s."""
