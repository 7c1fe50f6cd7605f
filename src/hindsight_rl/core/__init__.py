"""Data that every layer shares: episodes, goal sets, and the error that a user sees."""
