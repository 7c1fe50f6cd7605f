"""Questions that the paper leaves open, each with a figure: results/questions, told in docs/questions.md.

Run it with `make results-questions` (some 20 minutes of one core), or `python scripts/results_questions.py NAME ...`
for some of them. Every number is kept in results/questions as soon as it is there, and none is computed twice: remove
a question's JSON file to ask it again.
"""

import argparse

from question_tools import COMPUTES
from questions_bias import hindsight_bias
from questions_estimators import subsampling, variance
from questions_goals import curriculum
from questions_rewards import dense_rewards, learned_reward
from questions_values import hindsight_value

from hindsight_rl.training.compilation import keep_compiled_programs

QUESTIONS = {
    "variance": variance,
    "subsampling": subsampling,
    "dense-rewards": dense_rewards,
    "hindsight-value": hindsight_value,
    "curriculum": curriculum,
    "learned-reward": learned_reward,
    "hindsight-bias": hindsight_bias,
}


def main() -> None:
    """Answer the questions that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(QUESTIONS))
    parser.add_argument("--no-runs", action="store_true", help="compute nothing: draw what is kept")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - QUESTIONS.keys())
    if unknown:
        parser.error(f"There is no question '{unknown[0]}'. Known: {', '.join(QUESTIONS)}.")
    COMPUTES[0] = not arguments.no_runs
    keep_compiled_programs()
    for name in arguments.names or QUESTIONS:
        QUESTIONS[name]()


if __name__ == "__main__":
    main()
