"""Scoreboard of `envsnap explain`: known causes of slow runs, each laid over a recorded machine among innocent changes.

    python -m tests.benchmarks.attribution [--draws 20] [--json FILE]

`tests/cases/public.yaml` holds facts of public reports and `translation.yaml` beside it what a record of each would
hold; `invented.yaml` holds further cases that were made up for this board. Nothing here is seen by envsnap but the two
records and the figures of their runs.
"""
