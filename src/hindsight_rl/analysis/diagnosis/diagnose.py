"""From a table of evaluations to plain sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hindsight_rl.analysis.diagnosis.rules import RULES, Finding, failed
from hindsight_rl.analysis.diagnosis.runs import RISE, RunRecord, Setting, number, run_records
from hindsight_rl.analysis.words import counted, listed
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.runs import Cause

FAILED = "failed"


@dataclass(frozen=True)
class Diagnosis:
    """What was found."""

    runs: int
    findings: Mapping[str, Mapping[int, Finding]]
    """By the name of the rule, then by the number of the run."""
    verdicts: Mapping[int, Finding]
    """What is said of each run in which no rule found anything."""
    unknown: str
    """What cannot be told for want of metrics; empty where everything can."""

    @property
    def sentences(self) -> list[str]:
        """For people: a paragraph on each finding, then on the runs without one, then on what cannot be told."""
        found = [sentence for by_run in (*self.findings.values(), self.verdicts) for sentence in self._of(by_run)]
        return [*found, self.unknown] if self.unknown else found

    def _of(self, by_run: Mapping[int, Finding]) -> list[str]:
        """One for all runs with the same problem, with the evidence of the first."""
        groups: dict[str, list[int]] = {}
        for run, finding in by_run.items():
            groups.setdefault(finding.problem, []).append(run)
        said = []
        for problem, runs in groups.items():
            first = by_run[runs[0]]
            evidence = first.evidence if self.runs == 1 else f"run {runs[0]}, {first.evidence}"
            said.append(f"{self._where(runs)}{_capital(problem)}: {evidence}. {first.advice}".rstrip())
        return said

    def _where(self, runs: Sequence[int]) -> str:
        if self.runs == 1:
            return ""
        which = "" if len(runs) == self.runs else f" ({_numbers(runs)})"
        return f"{len(runs)} of {self.runs} runs{which}: "

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        findings = [
            {"rule": rule, "run": run, **asdict(finding)}
            for rule, by_run in self.findings.items()
            for run, finding in by_run.items()
        ]
        verdicts = [{"run": run, **asdict(verdict)} for run, verdict in self.verdicts.items()]
        return {"runs": self.runs, "findings": findings, "verdicts": verdicts, "unknown": self.unknown}


def diagnose(evaluations: Evaluations, setting: Setting, failures: Mapping[int, Cause] | None = None) -> Diagnosis:
    """Look at every run of a table."""
    records = run_records(evaluations, setting, failures)
    findings: dict[str, dict[int, Finding]] = {}
    verdicts = {}
    for run, record in enumerate(records):
        found = _findings(record)
        for rule, finding in found.items():
            findings.setdefault(rule, {})[run] = finding
        if not found:
            verdicts[run] = _verdict(record)
    order = [FAILED, *(rule.name for rule in RULES)]
    ordered = {name: findings[name] for name in order if name in findings}
    return Diagnosis(len(records), ordered, verdicts, _unknown(evaluations, setting))


def _findings(record: RunRecord) -> dict[str, Finding]:
    if (failure := failed(record)) is not None:
        return {FAILED: failure}
    if len(record.batches) < 2 or record.solved or record.rising:
        return {}
    looks = {rule.name: rule.look(record) for rule in RULES if all(record.figures(name) for name in rule.needs)}
    return {name: finding for name, finding in looks.items() if finding is not None}


def _verdict(record: RunRecord) -> Finding:
    """What to say of a run in which nothing was found."""
    first, last = record.figures("success_rate")[0], record.last("success_rate")
    if len(record.batches) < 2:
        return Finding("nothing can be told yet", f"the only evaluation is that of batch {last.batch:,}", "", (last,))
    evidence, figures = f"{last}, {number(first.value)} at batch {first.batch:,}", (last, first)
    if record.solved:
        return Finding("nothing seems wrong", evidence, "", figures)
    if record.rising:
        return Finding("nothing seems wrong, and the success rate still rises", evidence, "", figures)
    rise = "rises no more, or too little to tell" if last.value - first.value >= RISE else "does not rise"
    problem = f"the success rate {rise}, and nothing that was recorded says why"
    return Finding(problem, evidence, "Try more --batches, or another --learning-rate.", figures)


def _unknown(evaluations: Evaluations, setting: Setting) -> str:
    """The questions whose metrics no run recorded."""
    lacking = [rule for rule in RULES if any(name not in evaluations.metrics for name in rule.needs)]
    if not lacking:
        return ""
    names = dict.fromkeys(name for rule in lacking for name in rule.needs if name not in evaluations.metrics)
    questions = listed([rule.question for rule in lacking])
    return f"It cannot be told {questions}: {setting.method} does not record {listed(list(names))}."


def _numbers(runs: Sequence[int], most: int = 8) -> str:
    """`0, 2 and 5`; of many, the first."""
    shown = [str(run) for run in runs[:most]]
    return listed([*shown, f"{counted(len(runs) - most, 'other')}"] if len(runs) > most else shown)


def _capital(clause: str) -> str:
    return clause[:1].upper() + clause[1:]
