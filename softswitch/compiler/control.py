# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Controls: tables, conditionals and action calls as labels of one C function, in the order control reaches them."""

from __future__ import annotations

from softswitch.compiler.expressions import Expressions
from softswitch.compiler.model import Action, ActionCall, Conditional, Pipeline, Table
from softswitch.compiler.tables import dispatched
from softswitch.compiler.unit import Unit, indent


def may_exit(action: Action) -> bool:
    """Tell whether an action can end the control."""
    return any(primitive.get("op") in ("exit", "assert", "assume") for primitive in action.primitives)


class Control:
    """Write one pipeline."""

    def __init__(self, unit: Unit, pipeline: Pipeline) -> None:
        self.unit = unit
        self.pipeline = pipeline
        self.expressions = Expressions(unit.layout)
        self.labels = {name: f"N{number}" for number, name in enumerate(pipeline.nodes)}

    def reached(self) -> list[str]:
        """List the nodes that control can reach, depth first, so that most jumps fall through."""
        order: list[str] = []
        seen: set[str] = set()
        pending = [self.pipeline.first]
        while pending:
            name = pending.pop()
            if name is None or name in seen:
                continue
            seen.add(name)
            order.append(name)
            pending += [following for following in reversed(self.following(name)) if following not in seen]
        return order

    def following(self, name: str) -> list[str | None]:
        """List where control may go after a node."""
        node = self.pipeline.nodes[name]
        match node:
            case Conditional():
                return [node.next_true, node.next_false]
            case ActionCall():
                return [node.next]
            case Table():
                if node.by_hit:
                    return [node.next_hit, node.next_miss]
                return [*node.next_by_action.values(), node.next_default]

    def goto(self, name: str | None) -> str:
        """Write a jump to a node, or out."""
        return f"goto {self.labels[name]};" if name is not None else "return;"

    def function(self, name: str) -> list[str]:
        """Write the function `name` that runs the whole control."""
        lines = [f"static void {name}(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{"]
        lines.append("    (void)s; (void)p; (void)h;")
        order = self.reached()
        targets = {following for node in order for following in self.following(node)}
        for position, node in enumerate(order):
            if node in targets:
                lines.append(f"{self.labels[node]}:;")
            after = order[position + 1] if position + 1 < len(order) else None
            body = self.node(node)
            # A last jump to the node that comes next anyway is left out.
            if body[-1] == self.goto(after) and (after is None or after in targets):
                body = body[:-1]
            lines += indent(body)
        lines += ["}", ""]
        return lines

    def node(self, name: str) -> list[str]:
        """Write one node; its last line is a jump."""
        node = self.pipeline.nodes[name]
        match node:
            case Conditional():
                condition = self.expressions.condition(node.expression, node.place)
                if node.next_true == node.next_false:
                    return [self.goto(node.next_true)]
                return [f"if (!{condition}) {self.goto(node.next_false)}", self.goto(node.next_true)]
            case ActionCall():
                lines = [f"{self.unit.action(node.action)}(s, p, h);"]
                if may_exit(node.action):
                    lines.append("if (h->exited) return;")
                return [*lines, self.goto(node.next)]
            case Table():
                return self.table(node)

    def table(self, table: Table) -> list[str]:
        """Apply a table and go where its outcome leads."""
        call = f"apply_{self.unit.table(table)}(s, p, h)"
        leave = ["if (h->exited) return;"] if any(may_exit(action) for action in dispatched(self.unit, table)) else []
        if table.by_hit:
            if table.next_hit == table.next_miss:
                return [f"{call};", *leave, self.goto(table.next_hit)]
            if leave:
                return [
                    "{", f"    uint32_t done = {call};", f"    {leave[0]}",
                    f"    if (!(done >> 31)) {self.goto(table.next_miss)}", "}", self.goto(table.next_hit),
                ]  # fmt: skip
            return [f"if (!({call} >> 31)) {self.goto(table.next_miss)}", self.goto(table.next_hit)]
        following = {table.next_by_action.get(action.name) for action in table.actions} | {table.next_default}
        if len(following) == 1:
            return [f"{call};", *leave, self.goto(following.pop())]
        lines = ["{", f"    uint32_t done = {call} & ~(1u << 31);", *("    " + line for line in leave)]
        lines.append("    switch (done) {")
        for action in dispatched(self.unit, table):
            if action.name in table.next_by_action:
                lines.append(f"    case {action.index}: {self.goto(table.next_by_action[action.name])}")
        lines += ["    default: break;", "    }", "}", self.goto(table.next_default)]
        return lines
