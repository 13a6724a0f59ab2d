"""Runs: a command repeated and watched, its metrics read, and whether two sets of them differ at all."""
