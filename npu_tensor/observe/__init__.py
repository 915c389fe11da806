"""What shows a program to its user: explain, profile, trace, pictures, text."""
