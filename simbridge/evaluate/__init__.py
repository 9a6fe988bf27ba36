"""Is a policy good, and does simulation say so?

Purpose: figures of policies with honest intervals, and of how well simulation agrees with reality.
Input:   episodes (``EpisodeResult``), tables of results (``read_table``), recorded and replayed motions (``Trace``).
Output:  ``Summary``, ``Comparison``, ``ReplayErrors``; written as JSON, Markdown and self-contained HTML pages.
Owns:    the statistics, the reading of tables, the pages, warnings about too little evidence.
Does not own: physics, tasks and policies; nothing here knows what an episode was.
"""

from simbridge.evaluate._compare import Comparison, Group, PolicyRow, SideResult, compare
from simbridge.evaluate._correlation import (
    Cell,
    Correlation,
    Resampled,
    bootstrap,
    fisher_interval,
    kendall,
    mmrv,
    pearson,
    spearman,
)
from simbridge.evaluate._episodes import EpisodeResult, Mean, PolicySummary, StateRow, Summary, summarise
from simbridge.evaluate._replay import (
    Lag,
    ReplayErrors,
    Trace,
    average_distance,
    geodesic_angle,
    joint_rmse,
    lag,
    pose_error,
    position_rmse,
    replay_errors,
)
from simbridge.evaluate._report import markdown, write_comparison, write_summary
from simbridge.evaluate._statistics import (
    Difference,
    Interval,
    PairedTest,
    RankTest,
    clopper_pearson,
    kruskal_wallis,
    mcnemar,
    newcombe,
    wilson,
)
from simbridge.evaluate._table import Count, ResultTable, read_table

__all__ = [
    "Cell",
    "Comparison",
    "Correlation",
    "Count",
    "Difference",
    "EpisodeResult",
    "Group",
    "Interval",
    "Lag",
    "Mean",
    "PairedTest",
    "PolicyRow",
    "PolicySummary",
    "RankTest",
    "ReplayErrors",
    "Resampled",
    "ResultTable",
    "SideResult",
    "StateRow",
    "Summary",
    "Trace",
    "average_distance",
    "bootstrap",
    "clopper_pearson",
    "compare",
    "fisher_interval",
    "geodesic_angle",
    "joint_rmse",
    "kendall",
    "kruskal_wallis",
    "lag",
    "markdown",
    "mcnemar",
    "mmrv",
    "newcombe",
    "pearson",
    "pose_error",
    "position_rmse",
    "read_table",
    "replay_errors",
    "spearman",
    "summarise",
    "wilson",
    "write_comparison",
    "write_summary",
]
