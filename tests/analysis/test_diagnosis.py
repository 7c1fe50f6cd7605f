"""The diagnosis: each rule speaks up in its case, names its figure and a setting, and is silent about sound runs."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference.made_up_runs import BATCHES, OPTIONS, SETTING, SOUND, STUCK, ending_at, ramp, table

from hindsight_rl.analysis.diagnosis.diagnose import Diagnosis, diagnose
from hindsight_rl.analysis.diagnosis.rules import RULES
from hindsight_rl.analysis.diagnosis.runs import Setting
from hindsight_rl.records.runs import Cause

Metrics = dict[str, np.ndarray]


def found(run: Metrics, setting: Setting = SETTING) -> Diagnosis:
    return diagnose(table(run), setting)


def step(before: float, after: float, place: int) -> np.ndarray:
    return np.where(np.arange(len(BATCHES)) < place, before, after)


NOTHING = {"success_rate": ramp(0, 0), "reached": ramp(0, 0), "others_reached": ramp(0, 0), "mean_return": ramp(0, 0)}
CASES: dict[str, tuple[Metrics, str, str]] = {
    "steps-too-large": ({"kl": step(0.02, 2.5, 6)}, "kl 2.50 at batch 60", "--learning-rate 0.00015 (now 0.0005)"),
    "entropy-gone": (
        {"entropy": step(2.0, 0.05, 4)},
        "entropy 0.05 at batch 120, 1.8% of what 16 actions allow, and as low since batch 40",
        "--entropy 0.2 (now 0.1)",
    ),
    "ratios-vanished": (
        {"effective_sample_size": ramp(0.9, 0.03)},
        "effective_sample_size 0.03 at batch 120",
        "--kept-episodes 1024 (now 4096)",
    ),
    "steps-too-small": ({"kl": ramp(0, 1e-8)}, "kl at most 1e-08 (batch 120)", "--learning-rate 0.005 (now 0.0005)"),
    "value-error": (
        {"value_error": ramp(0.001, 0.02)},
        "value_error 0.02 at batch 120, 0.0026 at batch 10",
        "--critic-learning-rate 0.0002 (now 0.002)",
    ),
    "never-moved": ({"moved": ramp(0.08, 0.02)}, "moved 0.02 at batch 120", "--exploration 0.2 (now 0)"),
    "never-achieved": (
        NOTHING,
        "success_rate at most 0 (batch 0), reached at most 0 (batch 10), others_reached at most 0 (batch 10)",
        "--achieved-share 0.6 (now 0.4)",
    ),
    "fell-back": (
        {"success_rate": step(0.7, 0.3, 9)},
        "success_rate 0.30 at batch 120, 0.70 at batch 0",
        "--divergence-limit 0.1",
    ),
}


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_speaks_up_in_its_case_alone(name: str) -> None:
    changes, evidence, advice = CASES[name]
    diagnosis = found({**STUCK, **changes})
    assert list(diagnosis.findings) == [name]
    (sentence,) = diagnosis.sentences
    assert evidence in sentence
    assert f"Try {advice}" in sentence or f"or {advice}" in sentence
    # What it rests on was recorded.
    recorded = table({**STUCK, **changes})
    for figure in diagnosis.findings[name][0].figures:
        assert recorded.metrics[figure.metric][0][figure.batch == BATCHES].tolist() == [figure.value]


@pytest.mark.parametrize("name", CASES)
def test_whoever_learns_or_has_learned_is_left_alone(name: str) -> None:
    changes = {metric: values for metric, values in CASES[name][0].items() if metric in ("kl", "entropy", "moved")}
    for success in (ramp(0.0, 0.6), ramp(0.0, 0.95), step(0.2, 0.93, 3)):
        diagnosis = found({**SOUND, **changes, "success_rate": success})
        assert not diagnosis.findings
        assert diagnosis.sentences[0].startswith("Nothing seems wrong")


def test_a_sound_run_is_told_so_with_its_figures() -> None:
    assert found(SOUND).sentences == [
        "Nothing seems wrong, and the success rate still rises: success_rate 0.60 at batch 120, 0 at batch 0."
    ]


def test_without_a_cause_it_says_so() -> None:
    (sentence,) = found(STUCK).sentences
    assert "nothing that was recorded says why: success_rate 0.10 at batch 120, 0.10 at batch 0." in sentence


def test_a_rise_within_the_scatter_of_short_evaluations_is_none() -> None:
    run = {**STUCK, "success_rate": step(0.1, 0.18, 9)}
    assert found(run).sentences[0].startswith("Nothing seems wrong")
    few = replace(SETTING, options={**OPTIONS, "evaluation_episodes": 16})
    assert not found(run, few).sentences[0].startswith("Nothing seems wrong")


def test_coming_back_from_a_fall_is_no_rise() -> None:
    back = np.concatenate([ramp(0.5, 0.5)[:5], [0.2, 0.2, 0.2, 0.2], [0.31, 0.31, 0.31, 0.31]])
    assert list(found({**STUCK, "success_rate": back, "kl": ramp(3, 3)}).findings) == ["steps-too-large"]


def test_entropy_that_went_while_learning_went_on_is_no_harm() -> None:
    flat_at_last = np.concatenate([ramp(0.1, 0.5)[::2], np.full(6, 0.5)])
    assert not found({**STUCK, "success_rate": flat_at_last, "entropy": step(2.0, 0.05, 2)}).findings
    assert "entropy-gone" in found({**STUCK, "success_rate": flat_at_last, "entropy": step(2.0, 0.05, 8)}).findings


def test_continuous_entropy_is_judged_by_the_deviation() -> None:
    """Four numbers between -2 and 2: a deviation of 0.06 is 3 % of half the range; one of 0.6 is 30 %."""
    arm = replace(SETTING, actions=4, half_range=2.0)
    for deviation, gone in ((0.06, True), (0.6, False)):
        entropy = 4 * (math.log(deviation) + 0.5 * math.log(2 * math.pi * math.e))
        findings = found({**STUCK, "entropy": ramp(entropy, entropy)}, arm).findings
        assert ("entropy-gone" in findings) == gone
    (sentence,) = found({**STUCK, "moved": ramp(0, 0)}, arm).sentences
    assert "--deviation-floor 0.25 (now 0)" in sentence
    assert "--deviation-floor" not in found({**STUCK, "moved": ramp(0, 0)}).sentences[0]


def test_a_value_error_is_large_compared_with_what_returns_can_be() -> None:
    wild = {**STUCK, "value_error": ramp(0.9, 0.8)}
    assert list(found(wild).findings) == ["value-error"]
    assert "as large as what it should tell apart" in found(wild).sentences[0]
    assert not found({**wild, "mean_return": ramp(-3400, -1700)}).findings  # of a dense reward of 100 and more
    assert not found({**STUCK, "value_error": step(1e-3, 1e-5, 5)}).findings


def test_a_value_error_that_begins_with_the_first_rewards_is_no_harm() -> None:
    assert not found({**SOUND, "value_error": ramp(0.0, 0.01)}).findings


def test_the_default_is_recommended_where_it_lies_further_on() -> None:
    fast = replace(SETTING, options={**OPTIONS, "learning_rate": 0.1})
    (sentence,) = found({**STUCK, "kl": ramp(3, 3)}, fast).sentences
    assert "--learning-rate 0.0005 (now 0.1)" in sentence


def test_only_settings_that_the_method_has_are_recommended() -> None:
    plain = Setting("gcpg", {"learning_rate": 1e-3}, horizon=17, actions=16)
    (sentence, unknown) = found({name: NOTHING[name] for name in ("success_rate", "mean_return")}, plain).sentences
    assert sentence.startswith(
        "Goals were never achieved: success_rate at most 0 (batch 0) in 120 batches. Try --method hpg"
    )
    assert "--exploration" not in sentence
    assert unknown.startswith("It cannot be told whether steps are too large, whether the policy still explores")
    assert unknown.endswith("gcpg does not record kl, entropy, effective_sample_size, value_error and moved.")


def test_failed_runs_are_told_with_batch_and_cause() -> None:
    diagnosis = diagnose(table(SOUND, ending_at(STUCK, 5)), SETTING, {1: Cause(44, "a parameter is not finite")})
    failed, sound = diagnosis.sentences
    assert failed.startswith(
        "1 of 2 runs (1): The run failed: run 1, in batch 44 a parameter is not finite; before, kl "
    )
    assert "value_error 0.003 at batch 40, success_rate 0.10 at batch 40. Try --learning-rate 5e-05" in failed
    assert sound.startswith("1 of 2 runs (0): Nothing seems wrong")
    assert "it ended before its last evaluation" in diagnose(table(ending_at(STUCK, 5)), SETTING).sentences[0]
    assert (
        diagnose(table(SOUND, ending_at(STUCK, 0)), SETTING).sentences[0].startswith("1 of 2 runs (1): The run failed")
    )


def test_many_runs_are_counted() -> None:
    gone = {**STUCK, "entropy": ramp(0.1, 0.1)}
    sentences = diagnose(table(gone, SOUND, gone, gone), SETTING).sentences
    assert sentences[0].startswith(
        "3 of 4 runs (0, 2 and 3): The policy has hardly any entropy left: run 0, entropy 0.10"
    )
    assert sentences[1].startswith("1 of 4 runs (1): Nothing seems wrong")
    many = diagnose(table(*[gone] * 12, SOUND), SETTING).sentences
    assert many[0].startswith("12 of 13 runs (0, 1, 2, 3, 4, 5, 6, 7 and 4 others): ")
    assert diagnose(table(*[gone] * 12), SETTING).sentences[0].startswith("12 of 12 runs: ")


def test_before_the_first_batch_nothing_can_be_told() -> None:
    first: Metrics = {name: values[:1] for name, values in STUCK.items()}
    diagnosis = diagnose(table(first, batches=BATCHES[:1]), SETTING)
    assert diagnosis.sentences == ["Nothing can be told yet: the only evaluation is that of batch 0."]


def test_findings_are_json() -> None:
    content: Any = json.loads(json.dumps(found({**STUCK, "kl": ramp(3, 3)}).to_json()))
    (finding,) = content["findings"]
    assert (finding["rule"], finding["run"]) == ("steps-too-large", 0)
    assert finding["figures"] == [{"metric": "kl", "value": 3.0, "batch": 10}]
    assert content["verdicts"] == []
