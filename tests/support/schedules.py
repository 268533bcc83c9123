"""When a method opens each layer of a stack, for known answers."""

from __future__ import annotations

from gradgate import (
    Clock,
    Group,
    LayerMap,
    Method,
    MethodState,
    Plan,
)

NEVER = None


def stack(layers: int, *, embeddings: bool = True, head: bool = True, uses: int = 1) -> LayerMap:
    """A layer map without a model: one parameter of one element in each group."""
    names = ["embeddings"] * embeddings + [f"layers.{i}" for i in range(layers)] + ["head"] * head
    groups = []
    for name in names:
        number = int(name.removeprefix("layers.")) if name.startswith("layers.") else None
        depth = number + 1 if number is not None else 0 if name == "embeddings" else layers + 1
        groups.append(
            Group(
                name,
                depth,
                (f"{name}.weight",),
                1,
                "stack" if number is not None else "",
                uses if number is not None else 1,
            )
        )
    return LayerMap("Stack", tuple(groups))


TWELVE = stack(12)


def open_groups(plan: Plan) -> set[str]:
    assert all(gate.open or gate.closed for gate in plan.values())
    return {name for name, gate in plan.items() if gate.open}


def openings(method: Method, layers: LayerMap = TWELVE, steps: int = 700) -> dict[str, int | None]:
    """For each group the paper's 1-based step from which on it learns; 0 if it is on before the first step."""
    first: dict[str, int | None] = dict.fromkeys(layers.names, NEVER)
    for step in range(steps):
        plan = method.plan(Clock(step), layers, MethodState())
        assert tuple(plan) == layers.names
        opened = open_groups(plan)
        for name in layers.names:
            if name in opened and first[name] is NEVER:
                first[name] = step + 1 if step else 0
            assert (name in opened) == (first[name] is not NEVER), f"{name} closed again at step {step + 1}"
    return first


def of_layers(first: dict[str, int | None]) -> list[int | None]:
    """From the bottom: layer 0, 1, ..."""
    return [step for name, step in first.items() if name.startswith("layers.")]


FROM_50 = [50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550]
