"""The paper's HPG update on pictures, written in PyTorch by hand: the same network, the same loss, the same Adam.

It is given the goals and the rewards under them, which ours has to find. `shared` convolves each state once and
evaluates only the pairs of state and goal that matter, as ours does; `naive` convolves each pair anew.
"""

import math
from typing import Any

import jax
import numpy as np
from measured import need

from hindsight_rl.agents.active_goals import active_goals, rewards_of_goals
from hindsight_rl.agents.options import HindsightOptions
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.networks.heads import PROBABILITY_FLOOR
from hindsight_rl.networks.images import LAYERS, ImageTrunk
from hindsight_rl.networks.policy import Policy

PAIRS_AT_ONCE = 512
"""In the naive form, whose pairs would not fit into memory all at once."""


class TorchUpdate:
    """A policy with our weights, its optimiser, and a batch of episodes."""

    def __init__(
        self,
        task: HostedTask,
        policy: Policy,
        episodes: Episodes,
        goals_each: int,
        key: jax.Array,
        channels_last: bool = False,
    ):
        torch = self._torch = need("torch")
        goals = active_goals(task, episodes, key, HindsightOptions(max_active_goals=goals_each))
        rewards, _ = rewards_of_goals(task, episodes, goals)
        present = np.asarray(goals.present)
        self._goals = torch.tensor(np.asarray(goals.goals)[present])
        self._rewards = torch.tensor(np.asarray(rewards)[present])
        self._probabilities = torch.tensor(np.asarray(goals.probabilities)[present])
        self._scale = task.goal_count / len(episodes.lengths)
        self._taken = torch.tensor(np.asarray(episodes.taken))
        self._decided = self._taken.flatten().nonzero()[:, 0]
        self._places = self._taken.flatten().cumsum(0) - 1
        self._behaviour = torch.tensor(np.asarray(episodes.log_probabilities))
        self._actions = torch.tensor(np.asarray(episodes.actions), dtype=torch.long).flatten()
        pictures = np.asarray(episodes.observations[:, :-1]).reshape(-1, *task.observation_shape)
        self._pictures = torch.tensor(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
        self._layout = torch.channels_last if channels_last else torch.contiguous_format
        self._pictures = self._pictures.contiguous(memory_format=self._layout)
        assert policy.trunk is not None
        self.trunk, self.heads = self._layers(policy.trunk, policy)
        parameters = [parameter for layer in (*self.trunk, *self.heads) for parameter in layer.parameters()]
        self._optimiser = torch.optim.Adam(parameters, lr=1e-4)

    def shared(self) -> None:
        """One update that convolves each state once."""
        # What pads short episodes is not convolved; ours leaves it out too.
        encoded, places = self._encode(self._pictures[self._decided]), self._places
        with self._torch.no_grad():
            rows, goals = self._needed()
            found = self._log_probabilities(encoded[places[rows]], goals, rows)
            coefficients = self._coefficients(rows, goals, found)
        rows, goals = self._chosen(coefficients)
        weights = coefficients.flatten(1).T[rows, goals]
        self._step(-(weights * self._log_probabilities(encoded[places[rows]], goals, rows)).sum())

    def naive(self) -> None:
        """One update that convolves a state again for each of its goals."""
        torch = self._torch
        with torch.no_grad():
            rows, goals = self._needed()
            parts = zip(rows.split(PAIRS_AT_ONCE), goals.split(PAIRS_AT_ONCE), strict=True)
            found = [self._log_probabilities(self._encode(self._pictures[row]), goal, row) for row, goal in parts]
            coefficients = self._coefficients(rows, goals, torch.cat(found))
        rows, goals = self._chosen(coefficients)
        weights = coefficients.flatten(1).T[rows, goals]
        self._optimiser.zero_grad()
        for row, goal, weight in zip(*(each.split(PAIRS_AT_ONCE) for each in (rows, goals, weights)), strict=True):
            (-(weight * self._log_probabilities(self._encode(self._pictures[row]), goal, row)).sum()).backward()
        self._optimiser.step()

    def _step(self, loss: Any) -> None:
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()

    def _encode(self, pictures: Any) -> Any:
        torch = self._torch
        maps = pictures.to(torch.float32).div_(255)
        for layer in self.trunk:
            maps = torch.tanh(layer(maps))
        # Our weights of the first hidden layer are ordered by row, column and channel.
        return maps.permute(0, 2, 3, 1).flatten(1) @ self.heads[0].weight.T

    def _log_probabilities(self, encoded: Any, goals: Any, rows: Any) -> Any:
        """Of the actions that were taken."""
        torch, (_, of_goal, *hidden) = self._torch, self.heads
        layer = torch.tanh(encoded + of_goal(self._goals[goals]))
        for linear in hidden[:-1]:
            layer = torch.tanh(linear(layer))
        floor = torch.tensor(math.log(PROBABILITY_FLOOR))
        table = torch.logaddexp(torch.log_softmax(hidden[-1](layer), dim=1), floor)
        return table.gather(1, self._actions[rows, None])[:, 0]

    def _needed(self) -> tuple[Any, Any]:
        """The pairs of state and goal whose ratios some normaliser needs: those up to the goal's last reward."""
        torch, times = self._torch, self._taken.shape[1]
        clock = torch.arange(times)
        horizons = torch.where(self._rewards != 0, clock + 1, 0).amax(dim=(1, 2))
        needed = self._taken[None] & (clock < horizons[:, None, None])
        return needed.flatten(1).T.nonzero(as_tuple=True)

    def _coefficients(self, rows: Any, goals: Any, log_probabilities: Any) -> Any:
        """Theorem 5.2, at the published scale."""
        torch = self._torch
        table = self._behaviour.flatten()[:, None].repeat(1, len(self._goals))
        table[rows, goals] = log_probabilities
        under_goals = table.T.reshape(self._rewards.shape)
        log_ratios = torch.where(self._taken, under_goals - self._behaviour, 0).cumsum(dim=2)
        log_ratios = log_ratios.masked_fill(~self._taken, -math.inf)
        ratios = torch.softmax(log_ratios, dim=1).nan_to_num(0)
        values = self._probabilities[:, None, None] * ratios * self._rewards
        return values.flip(2).cumsum(dim=2).flip(2) * self._scale

    def _chosen(self, coefficients: Any) -> tuple[Any, Any]:
        return coefficients.flatten(1).T.nonzero(as_tuple=True)

    def _layers(self, trunk: ImageTrunk, policy: Policy) -> tuple[list[Any], list[Any]]:
        """Our weights in PyTorch's layers: convolutions, then the state's and the goal's share, then the others."""
        torch = self._torch
        convolutions = []
        depth = trunk.shape[2]
        for kernel, (channels, size, stride) in zip(trunk.kernels, LAYERS, strict=True):
            layer = torch.nn.Conv2d(depth, channels, size, stride)
            layer.weight.data = torch.tensor(torch_kernel(np.asarray(kernel), size, stride, depth, channels))
            layer.bias.data.zero_()
            convolutions.append(layer.to(memory_format=self._layout))
            depth = channels
        pairs = [(trunk.state_weight, None), (trunk.goal_weight, trunk.bias)]
        heads = []
        for weight, bias in [*pairs, *zip(policy.network.weights, policy.network.biases, strict=True)]:
            linear = torch.nn.Linear(*weight.shape, bias=bias is not None)
            linear.weight.data = torch.tensor(np.ascontiguousarray(np.asarray(weight).T))
            if bias is not None:
                linear.bias.data = torch.tensor(np.asarray(bias))
            heads.append(linear)
        return convolutions, heads


def torch_kernel(kernel: np.ndarray, size: int, stride: int, depth: int, channels: int) -> np.ndarray:
    """Our kernels are ordered by block, place within the block and depth; PyTorch's by depth, row and column."""
    blocks = size // stride
    split = kernel.reshape(blocks, blocks, stride, stride, depth, channels).transpose(5, 4, 0, 2, 1, 3)
    return np.ascontiguousarray(split.reshape(channels, depth, size, size))
