"""The papers' experiments and ours: each a question asked of many cases, with a table, figures and a verdict."""

from attnforge.experiments.experiment import Experiment, Finding
from attnforge.experiments.registry import EXPERIMENTS, experiment
from attnforge.experiments.run import Result, run
from attnforge.experiments.settings import Settings
from attnforge.experiments.table import Table

__all__ = ["EXPERIMENTS", "Experiment", "Finding", "Result", "Settings", "Table", "experiment", "run"]
