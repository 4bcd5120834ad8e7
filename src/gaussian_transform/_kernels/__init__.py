"""Compiled loops: plain arrays in, results written to the arrays given last; nothing is checked or allocated here."""
