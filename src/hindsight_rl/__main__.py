"""`python -m hindsight_rl` is `hindsight`."""

from hindsight_rl.cli import main

main()
