"""Programs of other frameworks: their graphs as data, and tables from their operators to functions of ours."""
