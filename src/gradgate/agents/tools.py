"""List the tools of the server, and find one by its name."""

from __future__ import annotations

from gradgate.agents.judging import (
    IsBetterArguments,
    StudyImportArguments,
    StudyVerdictsArguments,
    is_better,
    study_import,
    study_verdicts,
)
from gradgate.agents.noise import NoiseFloorArguments, noise_floor
from gradgate.agents.planning import MemoryArguments, MethodsArguments, memory, methods
from gradgate.agents.tool import Tool
from gradgate.agents.training import CompareArguments, RecommendArguments, compare, recommend
from gradgate.errors import UsageError, nearest

TOOLS = (
    Tool(
        "is_better",
        "Is arm A better than arm B? Judge scores over seeds, a file of results, or a study by paired tests over "
        "seeds, corrected over all arms that were compared with B. The verdict is better, worse, non-inferior, "
        "equivalent or inconclusive, with the difference, its interval, p, collapsed runs, and how many seeds "
        "would decide. Claim no more than the verdict: a higher mean that is inconclusive is not better.",
        IsBetterArguments,
        is_better,
    ),
    Tool(
        "noise_floor",
        "How much do results differ for no reason but the seed? Return the spread of each arm and of the "
        "differences, and the smallest difference that the seeds find with 80 % power. Ask before you call a "
        "difference an improvement.",
        NoiseFloorArguments,
        noise_floor,
    ),
    Tool(
        "study_import",
        "Judge a file or folder with results of other programs: what was read and left out, every arm against the "
        "reference, and what is doubtful about the comparison. Nothing is written.",
        StudyImportArguments,
        study_import,
    ),
    Tool(
        "study_verdicts",
        "Judge every arm of a study against its reference, with the noise of seeds and of test rows.",
        StudyVerdictsArguments,
        study_verdicts,
    ),
    Tool(
        "memory",
        "Estimate the peak memory of fine-tuning by each method, in seconds, without a GPU and without running it.",
        MemoryArguments,
        memory,
    ),
    Tool(
        "methods",
        "List the methods that decide which weights learn and when, with options, defaults and papers.",
        MethodsArguments,
        methods,
    ),
    Tool(
        "compare",
        "Train methods with several seeds each, and judge them. Takes minutes to days. Call again with the same "
        "arguments to resume.",
        CompareArguments,
        compare,
        trains=True,
    ),
    Tool(
        "recommend",
        "Find the best way to train on some data within some minutes, and train it. Call again to resume.",
        RecommendArguments,
        recommend,
        trains=True,
    ),
)


def offered(allow_training: bool) -> list[Tool]:
    """Return the tools that a server offers."""
    return [tool for tool in TOOLS if allow_training or not tool.trains]


def find(name: str, allow_training: bool) -> Tool:
    """Return a tool by its name.

    Raises:
        UsageError: for an unknown name, and for a tool that trains if training is not allowed.
    """
    known = {tool.name: tool for tool in TOOLS}
    if name not in known:
        raise UsageError(
            f"There is no tool {name!r}.{nearest(name, known)} Tools: "
            f"{', '.join(tool.name for tool in offered(allow_training))}."
        )
    tool = known[name]
    if tool.trains and not allow_training:
        raise UsageError(
            f"{name} trains, and this server only reads. A person may start it as 'gradgate mcp --allow-training', or "
            f"run 'gradgate {name}'."
        )
    return tool
