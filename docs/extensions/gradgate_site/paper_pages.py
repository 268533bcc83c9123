"""A page for every paper with presets, made from the presets, the stated settings and the claims."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.papers import Paper, Preset, papers, presets, stated_settings
from gradgate_site.evidence_found import told, verdicts
from gradgate_site.files import tell, write_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from gradgate.papers.check import ClaimVerdict


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the pages before Sphinx reads any."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx) -> None:
    """Write a page for each paper, and the list that index.md includes."""
    pages = {}
    for key, paper in papers().items():
        tell("paper", key)
        pages[f"{key}.md"] = paper_page(paper)
    rows = "\n".join(
        f"| [{paper.name}]({key}.md) | {paper.title}, {paper.authors} | {len(_presets(key))} |"
        for key, paper in papers().items()
    )
    toctree = "```{toctree}\n:hidden:\n\n" + "\n".join(papers()) + "\n```"
    pages["papers.inc"] = f"| page | paper | presets |\n| --- | --- | ---: |\n{rows}\n\n{toctree}\n"
    write_pages(Path(app.srcdir) / "papers", pages)


def paper_page(paper: Paper) -> str:
    """Presets, claims and stated settings of one paper."""
    parts = [
        f"# {paper.name}",
        f"{paper.authors}: *{paper.title}*. <{paper.link}>",
        "## Tables and figures as presets",
        "Each preset is a table or figure of the paper as a grid of runs. `--scale sample` runs the grid on the "
        "embedded models and data, without a download; without it, `reproduce` uses the paper's models and data sets. "
        "`--dry-run` lists the runs.",
        f"```console\n$ gradgate reproduce {next(iter(_presets(paper.key)))} --scale sample --dry-run\n```",
        _preset_table(paper.key),
        *(_preset(preset) for preset in _presets(paper.key).values()),
        "## Claims",
        "gradgate tests each claim. *In print* is the verdict on the paper's own numbers. `gradgate papers STUDY` "
        "checks the claims on your own study.",
        f"```console\n$ gradgate papers --paper {paper.key} --printed\n```",
        _claims(paper.key),
        "## Stated settings",
        f"What the paper says about its training. `gradgate papers --paper {paper.key} --json` prints it for scripts.",
        _settings(paper.key),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _presets(key: str) -> dict[str, Preset]:
    return {name: preset for name, preset in presets().items() if preset.paper == key}


def _preset_table(key: str) -> str:
    rows = "\n".join(
        f"| [`{preset.name}`](#{preset.name.lower()}) | {_place(preset)} | {preset.title} | {len(preset.cells())} | "
        f"{preset.seeds} |"
        for preset in _presets(key).values()
    )
    return f"| preset | in the paper | what it shows | cells | seeds |\n| --- | --- | --- | ---: | ---: |\n{rows}"


def _place(preset: Preset) -> str:
    return preset.table if preset.is_figure else f"Table {preset.table}"


def _preset(preset: Preset) -> str:
    """What one preset runs."""
    methods = [f"`{row.adapter + ' + ' if row.adapter else ''}{row.method}`" for row in preset.methods.values()]
    lines = {
        "Models": [model.name or f"{label} (never published)" for label, model in preset.models.items()],
        "Tasks": [f"`{task.task}`" for task in preset.tasks.values()],
        "Methods": methods,
        "Training sizes": list(preset.sizes) if len(preset.sizes) > 1 else [],
        "Settings": [f"`{name}: {_plain(value)}`" for name, value in preset.settings.items()],
        "Searched first": [f"`{preset.search}`"] if preset.search else [],
    }
    listed = "\n".join(f"- {what}: {', '.join(dict.fromkeys(values))}" for what, values in lines.items() if values)
    notes = "".join(f"\n- Note: {note}" for note in preset.notes)
    title = f"{preset.title[0].upper()}{preset.title[1:]}."
    return f"({preset.name.lower()})=\n### {preset.name}\n\n{title}\n\n{listed}{notes}"


def _claims(key: str) -> str:
    """One row per claim, with the verdict on print and on the evidence where there is any."""
    from gradgate.papers.check import check_printed

    printed = _states(check_printed(key))
    here: dict[str, list[str]] = {}
    for verdict in verdicts():
        here.setdefault(verdict.claim.id, []).append(told(verdict))
    claims = {verdict.claim.id: verdict.claim for verdict in check_printed(key)}
    head = "| claim | what is claimed | in print |" + (" here |" if here else "")
    rule = "| --- | --- | --- |" + (" --- |" if here else "")
    rows = [
        f"| {name} | {claim.wording} | {printed.get(name, 'no numbers')} |"
        + (f" {', '.join(here.get(name, ['not compared']))} |" if here else "")
        for name, claim in claims.items()
    ]
    return "\n".join((head, rule, *rows))


def _states(found: list[ClaimVerdict]) -> dict[str, str]:
    """Claim to its verdict; several sources, such as two tables, are counted."""
    states: dict[str, Counter[str]] = {}
    for verdict in found:
        if verdict.checked:
            states.setdefault(verdict.claim.id, Counter())[verdict.outcome.state] += 1
    return {
        name: ", ".join(
            f"{state} ({count})" if len(counts) > 1 or count > 1 else state for state, count in counts.items()
        )
        for name, counts in states.items()
    }


def _settings(key: str) -> str:
    """One folded table for each table or experiment."""
    parts = []
    for name, group in groupby(stated_settings(key), key=lambda stated: stated.setting):
        rows = "\n".join(f"| {_cell(stated.name)} | {_cell(stated.value)} |" for stated in group)
        parts.append(f":::{{dropdown}} {name}\n| setting | value |\n| --- | --- |\n{rows}\n:::")
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
