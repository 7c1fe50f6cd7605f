"""`hindsight study`: its commands."""
