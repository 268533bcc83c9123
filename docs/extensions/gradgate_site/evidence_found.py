"""What the repository's evidence says: the verdicts on the papers' claims that the numbers in ``evidence/`` give."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gradgate.methods import MethodInfo

if TYPE_CHECKING:
    from gradgate.papers.check import ClaimVerdict

EVIDENCE = Path(__file__).resolve().parents[3] / "evidence"
RESULTS = EVIDENCE / "results"


def about(info: MethodInfo) -> str:
    """Markdown on the claims in which a method was run; empty where there are none."""
    found = [verdict for verdict in verdicts() if any(_names(arm, info.name) for arm in _arms(verdict))]
    if not found:
        return ""
    rows = "\n".join(
        f"| [{each.claim.id}](../papers/{each.claim.paper}.md) | {each.claim.wording} | {told(each)} |"
        for each in found
    )
    return (
        "gradgate's own runs with this method test these claims of the papers:\n\n"
        f"| claim | what the paper claims | here |\n| --- | --- | --- |\n{rows}\n\n"
        "A claim holds or fails if the 95 % interval over seeds is on one side of the claimed value. "
        "[Evidence](../evidence/README.md) has the numbers."
    )


@cache
def verdicts() -> tuple[ClaimVerdict, ...]:
    """The verdicts on the recorded numbers, on those of each kind of data apart; none where there is no evidence."""
    if not RESULTS.is_dir():
        return ()
    from gradgate.papers.check import check_studies

    return tuple(verdict for verdict in check_studies([RESULTS]) if verdict.checked)


def told(verdict: ClaimVerdict) -> str:
    """Return the state of a verdict with its kind of data."""
    kind = Path(verdict.source).name
    return f"{verdict.outcome.state} ({'the authors’ runs' if kind == 'authors' else f'{kind} data'})"


def _arms(verdict: ClaimVerdict) -> set[str]:
    return {arm for arms in verdict.arms.values() for arm in arms}


def _names(arm: str, name: str) -> bool:
    """Whether an arm, such as ``houlsby:size=64 + gradual:every=50``, has a method of this name."""
    return any(part.split(":")[0].strip() == name for part in arm.split("+"))
