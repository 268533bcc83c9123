"""The commands that look at a model without training it: its layer map, and a method's plan on it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gradgate.api.plan import plan_in
from gradgate.cli.options import AsJson, Config, takes_settings
from gradgate.cli.render import console, errors, print_json, print_line
from gradgate.errors import UsageError, nearest
from gradgate.layers import LayerMap
from gradgate.settings.data import names_a_task
from gradgate.settings.plan import LayersSettings, PlanSettings

if TYPE_CHECKING:
    from gradgate.methods.timeline import Timeline

_OPEN, _PART, _CLOSED = "█", "▒", "·"


@takes_settings(of=LayersSettings)
def layers(
    settings: LayersSettings,
    model: Annotated[str, typer.Argument(help="Hub name or folder of a pretrained model, or 'sample'.")],
    tool: Annotated[
        str | None,
        typer.Option("--as", help="Print the selection as a setting for axolotl or llamafactory, or as a regex."),
    ] = None,
    as_json: AsJson = False,
    config_file: Config = None,
) -> None:
    """Show a model's layer groups and their parameters.

    With --select, print what a selector matches; with --snr, the signal-to-noise ratio of each matrix.
    """
    select = settings.select
    other = None if tool is None else _one_of("--as", tool, ("axolotl", "llamafactory", "regex"))
    if other and select is None:
        raise UsageError(f"--as {other} writes a selection. Add --select, such as --select layers.top4/head.")

    from gradgate.layers import map_layers
    from gradgate.memory.request import structure_of, writes_text

    unit = settings.unit or ("module" if settings.snr else "layer")
    run, has_task = settings.run(model), names_a_task(settings)
    if other in ("axolotl", "llamafactory") and not has_task and writes_text(run.model, run.trust_remote_code):
        run, has_task = run.model_copy(update={"kind": "generation"}), True  # what these tools train
    structure = structure_of(run, has_task=has_task)
    layer_map = map_layers(structure, layers=settings.layers).at(unit)
    if settings.snr:
        _show_signals(model, layer_map, settings, as_json)
    elif select is not None:
        _show_selection(layer_map, select, other, as_json)
    elif as_json:
        print_json({"groups": [asdict(group) for group in layer_map], "ties": layer_map.ties, "notes": layer_map.notes})
    else:
        print_line(str(layer_map))


def _show_selection(layer_map: LayerMap, text: str, tool: Any, as_json: bool) -> None:
    """Print what a selector names, or the setting of another tool that says the same."""
    from gradgate.layers.exports import exported
    from gradgate.layers.selectors import select as select_weights

    selection = select_weights(layer_map, text)
    if tool is not None and as_json:
        raise UsageError("--as prints the setting of another tool as it is, and --json prints JSON. Pass one of them.")
    if tool is not None:
        print_line(exported(selection, layer_map.at("layer"), tool))
    elif as_json:
        print_json({"names": selection.names, "rows": selection.partial, "count": selection.count})
    else:
        for name in selection.names:
            rows = ", ".join(f"{start}:{stop}" for start, stop in selection.partial.get(name, ()))
            print_line(f"{name}[{rows}]" if rows else name)
        total = layer_map.parameter_count
        share = f"{selection.count / total:.2%}"
        print_line(f"{len(selection.names)} parameters, {selection.count:,} of {total:,} elements ({share})")


def _show_signals(model: str, layer_map: LayerMap, settings: LayersSettings, as_json: bool) -> None:
    """Print the signal-to-noise ratios of the units by kind, the clearest first, and which ones spectrum opens."""
    from gradgate.analysis.signal import signals_on_disk
    from gradgate.runs.progress import Bar

    share, device = 0.25 if settings.share is None else settings.share, settings.device
    if as_json:
        signals, absent = signals_on_disk(model, layer_map, share, device)
        print_json({"share": share, "signals": [asdict(signal) for signal in signals], "absent": absent})
        return
    with Bar(errors, "measuring", "matrices") as bar:
        signals, absent = signals_on_disk(model, layer_map, share, device, bar.begin)
    width = max(len(signal.group) for signal in signals)
    for kind in dict.fromkeys(signal.kind for signal in signals):
        own = sorted((signal for signal in signals if signal.kind == kind), key=lambda signal: -signal.snr)
        print_line(f"{kind}: {sum(signal.chosen for signal in own)} of {len(own)}")
        for signal in own:
            print_line(f"  {_OPEN if signal.chosen else _CLOSED} {signal.group:<{width}}  {signal.snr:.4g}")
    for name in absent:
        print_line(f"note: no file of {model} holds {name}, so it was not measured")
    print_line(f"{_OPEN} opened by spectrum:share={share}   {_CLOSED} closed")


def _one_of(flag: str, given: str, choices: tuple[Any, ...]) -> Any:
    if given not in choices:
        raise UsageError(f"{flag} {given!r}: expected one of {', '.join(choices)}.{nearest(given, choices)}")
    return given


@takes_settings("keep_model", "save_every", "eval_every", "report_to", of=PlanSettings)
def plan(
    settings: PlanSettings,
    write: Annotated[
        Path | None, typer.Option(help="Write the plan to this YAML file, to edit and to train with as plan:FILE.")
    ] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Draw each part or module of a layer on its own line.")
    ] = False,
    config_file: Config = None,
) -> None:
    """Show what a method trains when, without training."""
    timeline = plan_in(settings)
    console.print(draw_timeline(timeline, width=console.width, expand=expand))
    if write is not None:
        from gradgate.files import write_text

        write_text(write, timeline.to_yaml())
        print_line(f"Written to {write}; edit it and train with --method plan:{write}")
        if timeline.learns:
            print_line(
                f"The file opens whole groups, of which {timeline.method} opens single weights. For these alone, "
                f"train with --method {timeline.method}"
            )


def draw_timeline(timeline: Timeline, width: int = 100, expand: bool = False) -> Text:
    """Draw what is open when: one line per layer from the top down, one column per range of steps.

    Args:
        timeline: of a whole training, with the sizes of its groups.
        width: of the terminal, in columns.
        expand: one line for each group, where these are parts or modules of layers.
    """
    steps = timeline.steps
    names = timeline.groups if expand else tuple(timeline.layers)
    margin = max(map(len, names)) + 2
    columns = max(10, min(steps, width - margin - 8))
    shares = timeline.shares_between([round(steps * column / columns) for column in range(columns + 1)])
    whole = timeline.shares_between([0, steps])
    if not expand:
        shares, whole = timeline.folded(shares), timeline.folded(whole)
    lines = [f"{timeline.method}, {steps} steps: {_percent(timeline.mean_share)} of the weights learn, on average"]
    for name, row, mean in reversed(list(zip(names, shares, whole[:, 0], strict=True))):
        marks = (_OPEN if share > 0.99 else _PART if share > 0 else _CLOSED for share in row)
        lines.append(f"{name:<{margin}}{''.join(marks)} {_percent(mean):>6}")
    lines.append(f"{'step':<{margin}}{_axis(steps, columns)}")
    lines.append(f"{_OPEN} open   {_PART} in part   {_CLOSED} closed")
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")  # what is longer, the terminal wraps


def _percent(share: float) -> str:
    """Format a share in at most six characters; a small one is not rounded to zero."""
    if share == 0.0 or share >= 1e-3:
        return f"{share:.1%}"
    return f"{share:.2%}" if share >= 1e-4 else "<0.01%"


def _axis(steps: int, columns: int) -> str:
    """Step numbers under the columns where they begin."""
    line = ""
    for quarter in range(4):
        column = columns * quarter // 4
        number = str(steps * column // columns)
        if column + len(number) < columns - len(str(steps)):  # the last number stands alone
            line = f"{line:<{column}}{number}"
    return f"{line:<{max(0, columns - len(str(steps)))}}{steps}"
