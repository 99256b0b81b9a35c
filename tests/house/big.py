"""Print the ten longest functions (``make big``): a look, not a law."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("config", "rental", "billing", "scheduler", "agents", "client")


def functions() -> list[tuple[int, str]]:
    found = []
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if "migrations" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    length = (node.end_lineno or node.lineno) - node.lineno + 1
                    found.append((length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
    return sorted(found, reverse=True)


if __name__ == "__main__":
    for length, where in functions()[:10]:
        print(f"{length:6} {where}")
