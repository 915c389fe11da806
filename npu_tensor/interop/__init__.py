"""Programs in files and of other frameworks: their graphs as data, and tables from operators to functions of ours."""
