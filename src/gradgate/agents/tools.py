"""List the tools of the server, and find one by its name."""

from __future__ import annotations

from typing import TypeAlias

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
from gradgate.agents.tool import ReadingTool
from gradgate.agents.training import CompareArguments, RecommendArguments, TrainingTool, compared, recommended
from gradgate.errors import UsageError, nearest
from gradgate.settings.compare import CompareSettings, RecommendSettings

AnyTool: TypeAlias = ReadingTool | TrainingTool
TOOLS: tuple[AnyTool, ...] = (
    ReadingTool(
        "is_better",
        "Is arm A better than arm B? Judge scores over seeds, a file of results, or a study by paired tests over "
        "seeds, corrected over all arms that were compared with B. The verdict is better, worse, non-inferior, "
        "equivalent or inconclusive, with the difference, its interval, p, collapsed runs, and how many seeds "
        "would decide. Claim no more than the verdict: a higher mean that is inconclusive is not better.",
        IsBetterArguments,
        is_better,
    ),
    ReadingTool(
        "noise_floor",
        "How much do results differ for no reason but the seed? Return the spread of each arm and of the "
        "differences, and the smallest difference that the seeds find with 80 % power. Ask before you call a "
        "difference an improvement.",
        NoiseFloorArguments,
        noise_floor,
    ),
    ReadingTool(
        "study_import",
        "Judge a file or folder with results of other programs: what was read and left out, every arm against the "
        "reference, and what is doubtful about the comparison. Nothing is written.",
        StudyImportArguments,
        study_import,
    ),
    ReadingTool(
        "study_verdicts",
        "Judge every arm of a study against its reference, with the noise of seeds and of test rows.",
        StudyVerdictsArguments,
        study_verdicts,
    ),
    ReadingTool(
        "memory",
        "Estimate the peak memory of fine-tuning by each method, in seconds, without a GPU and without running it.",
        MemoryArguments,
        memory,
    ),
    ReadingTool(
        "methods",
        "List the methods that decide which weights learn and when, with options, defaults and papers.",
        MethodsArguments,
        methods,
    ),
    TrainingTool(
        "compare",
        "Train methods with several seeds each, and judge them. Takes minutes to days. Call again with the same "
        "arguments to resume.",
        CompareArguments,
        CompareSettings,
        compared,
    ),
    TrainingTool(
        "recommend",
        "Find the best way to train on some data within some minutes, and train it. Call again to resume.",
        RecommendArguments,
        RecommendSettings,
        recommended,
    ),
)


def offered(allow_training: bool) -> list[AnyTool]:
    """Return the tools that a server offers."""
    return [tool for tool in TOOLS if allow_training or isinstance(tool, ReadingTool)]


def find(name: str, allow_training: bool) -> AnyTool:
    """Return a tool by its name.

    Raises:
        UsageError: for an unknown name, and for a tool that trains if training is not allowed.
    """
    known = {tool.name: tool for tool in TOOLS}
    if name not in known:
        names = [tool.name for tool in offered(allow_training)]
        raise UsageError(f"There is no tool {name!r}.{nearest(name, names)} Tools: {', '.join(names)}.")
    tool = known[name]
    if isinstance(tool, TrainingTool) and not allow_training:
        raise UsageError(
            f"{name} trains, and this server only reads. A person may start it as 'gradgate mcp --allow-training', or "
            f"run 'gradgate {name}'."
        )
    return tool
