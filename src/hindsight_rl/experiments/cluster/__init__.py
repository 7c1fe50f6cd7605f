"""Studies past one machine: pieces as data, the task that runs one, and the engine that hands them out."""
