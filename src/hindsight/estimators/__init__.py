"""Gradient estimators: pure functions from log-ratios and rewards to coefficients of grad log pi.

Every policy gradient of the paper has the form sum over goals g, episodes i and times t of
c[g, i, t] * grad log p(a[i, t] | s[i, t], g) with c held constant; an estimator returns c.

Axes: time t counts actions from 0. `rewards[g, i, t]` is the reward, under goal g, of the state that action t leads to;
`log_ratios[g, i, t]` is the log of the likelihood ratio of the actions 0..t under goal g and under the goal pursued.
"""
