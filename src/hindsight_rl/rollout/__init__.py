"""Rollouts: from an environment and a way to act to whole episodes."""
