"""Races between our code and what a user would otherwise run, side by side in one process."""
