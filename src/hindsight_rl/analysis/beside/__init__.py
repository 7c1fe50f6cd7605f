"""Runs beside each other: run folders, studies and tidy files in one table and one figure."""
