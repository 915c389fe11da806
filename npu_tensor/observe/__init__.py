"""Tools that show a program to its user: explain, profile, trace, pictures and text."""
