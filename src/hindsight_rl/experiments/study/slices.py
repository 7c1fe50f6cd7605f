"""A study in slices of whole cells, for array jobs of a batch queue: each into a folder of its own, merged later."""

import re
from dataclasses import replace

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study.estimates import rough_cost, work_ahead
from hindsight_rl.experiments.study.plan import Plan, Study


def parse_slice(text: str) -> tuple[int, int]:
    """Which slice of how many: 2/8 is the second of eight."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", text)
    number, count = (int(found[1]), int(found[2])) if found else (1, 0)
    if number > count:
        raise HindsightError(f"--slice must be NUMBER/COUNT, such as 2/8, with a number from 1 on, not '{text}'.")
    return number, count


def sliced(study: Study, number: int, count: int) -> Study:
    """The cells of one slice. All slices of a study take about as long, and every job finds the same ones.

    A cell is not divided: what its search does next depends on all of its runs.
    """
    if count > len(study.plans):
        raise HindsightError(f"The study has {len(study.plans)} cells, and so at most as many slices, not {count}.")
    loads, mine = [0.0] * count, list[Plan]()
    costs = [rough_cost(plan) * work_ahead(plan, {}).updates for plan in study.plans]
    for index in sorted(range(len(costs)), key=lambda each: (-costs[each], each)):
        # The lightest so far; an empty one first, so that no slice is left without cells.
        lightest = min(range(count), key=lambda each: (loads[each], each))
        loads[lightest] += max(costs[index], 1e-9)
        if lightest == number - 1:
            mine.append(study.plans[index])
    return replace(study, plans=tuple(plan for plan in study.plans if plan in mine))
