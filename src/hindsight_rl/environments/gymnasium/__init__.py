"""Gymnasium's goal environments, as simulators and as tasks."""
