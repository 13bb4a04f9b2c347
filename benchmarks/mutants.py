"""Small changes to a module, each of which ought to make a test fail: what `mutation.py` draws its sample from.

Comparisons, `and` and `or`, `not`, arithmetic, constants, returned values, guards, and statements that are left out.
Docstrings, annotations, decorators, texts, descriptions and `__repr__` stay, and so does `zip(strict=True)`, which is an
assertion.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.Pow: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
KEPT_KEYWORDS = {"strict", "description"}
KEPT_FUNCTIONS = {"__repr__"}


@dataclass(frozen=True, order=True)
class Mutant:
    """Bytes ``start`` to ``end`` of a module replaced by others.

    ``scope`` is the function; it is empty in the body of a class or of the module.
    """

    path: str
    start: int
    end: int
    replacement: str
    line: int
    scope: str
    original: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def compiles(self, source: bytes) -> bool:
        try:
            compile(self.apply(source), self.path, "exec")
        except (SyntaxError, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_short(self.original)} → {_short(self.replacement)}"


def find_mutants(root: Path, path: str) -> list[Mutant]:
    """All changes to the module ``path`` below ``root``, some of which may not compile."""
    return sorted(set(_Finder(path, (root / path).read_bytes()).find()))


class _Finder:
    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.line_starts = [0]
        for line in source.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))

    def find(self) -> Iterator[Mutant]:
        yield from self.visit(ast.parse(self.source), (), "")

    def visit(self, node: ast.AST, names: tuple[str, ...], scope: str) -> Iterator[Mutant]:
        """The changes to a node and to what is in it. ``names``: the classes and functions around it."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name in KEPT_FUNCTIONS or _is_abstract(node):
                return
            names = (*names, node.name)
            if not isinstance(node, ast.ClassDef):
                scope = ".".join(names)
                names = (*names, "<locals>")
        for start, end, replacement in self.changes(node):
            original = self.source[start:end].decode()
            yield Mutant(self.path, start, end, replacement, self.line_of(start), scope, original)
        for child in _children(node):
            yield from self.visit(child, names, scope)

    def changes(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare():
                parts = [node.left, *node.comparators]
                for op, left, right in zip(node.ops, parts, parts[1:], strict=False):
                    yield self.between(left, right, COMPARISONS[type(op)])
            case ast.BoolOp():
                word = "or" if isinstance(node.op, ast.And) else "and"
                yield (*self.range(node), "(" + f" {word} ".join(f"({self.text(v)})" for v in node.values) + ")")
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                yield (*self.range(node), f"({self.text(node.operand)})")
            case ast.BinOp() if type(node.op) in ARITHMETIC:
                operator = ARITHMETIC[type(node.op)]
                yield (*self.range(node), f"(({self.text(node.left)}) {operator} ({self.text(node.right)}))")
            case ast.Constant(value=bool() as value):
                yield (*self.range(node), str(not value))
            case ast.Constant(value=int() as value):
                yield (*self.range(node), str(value + 1))
                yield (*self.range(node), f"({value - 1})")
            case ast.Constant(value=float() as value):
                yield (*self.range(node), str(value * 2 if value else 1.0))
            case ast.IfExp():
                yield (*self.range(node), f"({self.text(node.body)})")
                yield (*self.range(node), f"({self.text(node.orelse)})")
            case ast.Return(value=ast.expr()) if not (
                isinstance(node.value, ast.Constant) and node.value.value is None
            ):
                yield (*self.range(node), "return None")
            case ast.If(orelse=[]) if isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue | ast.Break):
                yield (*self.range(node.test), "False")
            case ast.comprehension():
                for test in node.ifs:
                    yield (*self.range(test), "True")
            case ast.Raise() | ast.AugAssign() | ast.Break() | ast.Continue() | ast.Delete():
                yield (*self.range(node), "pass")
            case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
                yield (*self.range(node), "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield (*self.range(node), "pass")

    def range(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.line_starts[node.lineno - 1] + node.col_offset,
            self.line_starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.expr) -> str:
        start, end = self.range(node)
        return self.source[start:end].decode()

    def between(self, left: ast.expr, right: ast.expr, operator: str) -> tuple[int, int, str]:
        """An operator between two operands, either of which may stand in brackets."""
        start, end = self.range(left)[1], self.range(right)[0]
        gap = self.source[start:end].decode()
        closing = gap[: gap.rindex(")") + 1] if ")" in gap else ""
        opening = gap[gap.index("(") :] if "(" in gap else ""
        return start, end, f"{closing} {operator} {opening}"

    def line_of(self, offset: int) -> int:
        return self.source.count(b"\n", 0, offset) + 1


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node, without annotations, decorators, docstrings, texts and what only a type checker reads."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in KEPT_KEYWORDS:
                continue
            if isinstance(child, ast.AST):
                yield child


def _is_abstract(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(name in ast.dump(one) for one in decorators for name in ("abstractmethod", "overload"))


def _short(text: str) -> str:
    words = " ".join(text.split())
    return f"`{words}`" if len(words) <= 60 else f"`{words[:57]}…`"
