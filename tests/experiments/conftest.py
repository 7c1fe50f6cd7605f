"""Training jobs here share their compiled programs."""

from small_jobs import compiled_programs

__all__ = ["compiled_programs"]
