"""What every environment must keep to, as checks that its author can run: `check_environment(task)`."""

from hindsight_rl.environments.contract.check import check_environment
from hindsight_rl.environments.contract.findings import Finding, describe

__all__ = ["Finding", "check_environment", "describe"]
