"""Agents: pure functions that act and learn."""
