"""Experiments: the paper's settings, and training jobs that live in a folder."""
