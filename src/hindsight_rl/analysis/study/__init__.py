"""What the runs of a study say: statistics, tables, figures."""
