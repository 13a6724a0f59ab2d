"""Conditions: whether an `if` in somebody's source was true, by the variables and arguments that a run had.

Only what is certain counts: a test of which a part is not known is None, unless the rest settles it. What reads a
variable or an argument is recognised by its form: `os.environ.get("X")`, `os.getenv`, `get_bool_env_var("X")`,
`envs.X.get()`, `envs.X`, `server_args.y`, `self.server_args.y`, `global_server_args_dict["y"]`, and names or attributes
that were once given such a value.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envsnap.explain.code.syntax import DEFINITIONS, FUNCTIONS
from envsnap.reading import Json

MAX_DEPTH = 20

_TRUE, _FALSE = frozenset({"1", "true", "yes", "y", "on", "t"}), frozenset({"0", "false", "no", "n", "off", "f", ""})
_ARGUMENTS = re.compile(r"(?:\w+_)?server_args(?:_dict)?\Z|get_(?:\w+_)?server_args\Z")
_READERS = re.compile(r"(?:get_)?(?:bool|int|float|str)_env(?:_var)?\Z|get_env_(?:bool|int|str)\Z|(?:get_)?env_flag\Z")
_COMPARE: dict[type[ast.cmpop], Callable[[Json, Json], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.eq, ast.IsNot: operator.ne,
    ast.In: lambda x, y: x in y, ast.NotIn: lambda x, y: x not in y,
}  # fmt: skip
_PLAIN: dict[str, Callable[[Json], Json]] = {"bool": bool, "int": int, "float": float, "str": str, "len": len}
_TEXT = frozenset({"lower", "upper", "strip"})


class NotKnown(Exception):
    """Part of a condition is not known."""


@dataclass(frozen=True)
class State:
    """What one run had. `variable` gives a variable's value or None where it was unset, `argument` a server argument.

    Both raise NotKnown. `defaults` hold, by variable, the expression that an engine's registry declares it with.
    """

    variable: Callable[[str], str | None]
    argument: Callable[[str], Json]
    defaults: Mapping[str, ast.expr]


def truth(test: ast.expr, scopes: Sequence[ast.AST], state: State) -> bool | None:
    """Whether a test was true in a run; None where that is not known."""
    try:
        return bool(_Reader(state, scopes).value(test, 0))
    except NotKnown:
        return None
    except Exception:  # arithmetic on somebody's constants
        return None


def registry(tree: ast.Module) -> dict[str, ast.expr]:
    """Variables that a module of an engine declares: `X = EnvBool(False)` in a class, or `"X": lambda: …` in a dict."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for s in node.body:
                if (
                    isinstance(s, ast.Assign)
                    and isinstance(s.value, ast.Call)
                    and _name(s.value.func).startswith("Env")
                ):
                    found.update({t.id: s.value for t in s.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Lambda):
                    found[key.value] = value.body
    return found


class _Reader:
    """Evaluates one test within its scopes."""

    def __init__(self, state: State, scopes: Sequence[ast.AST]) -> None:
        self.state = state
        self.scopes = scopes

    def value(self, node: ast.expr, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise NotKnown
        depth += 1
        match node:
            case ast.Constant():
                return node.value
            case ast.Tuple() | ast.List() | ast.Set():
                return [self.value(item, depth) for item in node.elts]
            case ast.UnaryOp(op=ast.Not()):
                return not self.value(node.operand, depth)
            case ast.BoolOp():
                return self._either(node, depth)
            case ast.IfExp():
                return self.value(node.body if self.value(node.test, depth) else node.orelse, depth)
            case ast.Compare():
                return self._compared(node, depth)
            case ast.Call():
                return self._called(node, depth)
            case ast.Attribute():
                return self._attribute(node, depth)
            case ast.Subscript():
                return self._item(node)
            case ast.Name():
                return self._named(node.id, depth)
        raise NotKnown

    def _either(self, node: ast.BoolOp, depth: int) -> Json:
        """NOTE: `unknown and False` is False: what is not known cannot make it true."""
        settles = isinstance(node.op, ast.Or)
        unknown, last = False, None
        for part in node.values:
            try:
                last = self.value(part, depth)
            except NotKnown:
                unknown = True
                continue
            if bool(last) is settles:
                return last
        if unknown:
            raise NotKnown
        return last

    def _compared(self, node: ast.Compare, depth: int) -> bool:
        left = self.value(node.left, depth)
        for op, comparator in zip(node.ops, node.comparators):
            right = self.value(comparator, depth)
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _called(self, node: ast.Call, depth: int) -> Json:
        name, arguments = _name(node.func), node.args
        if name in ("os.environ.get", "environ.get", "os.getenv", "getenv") and arguments:
            found = self.state.variable(_text(arguments[0]))
            return found if found is not None else self.value(arguments[1], depth) if len(arguments) > 1 else None
        if _READERS.match(name.rpartition(".")[2]) and arguments:
            found = self.state.variable(_text(arguments[0]))
            default = arguments[1:] or [k.value for k in node.keywords if k.arg == "default"]
            if found is None and not default:
                return False
            return _as(found if found is not None else self.value(default[0], depth), name)
        if name.startswith("envs.") and name.endswith(".get") and not arguments:
            return self._declared(name.split(".")[1], depth)
        if name in _PLAIN and len(arguments) == 1:
            return _PLAIN[name](self.value(arguments[0], depth))
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT and not arguments:
            return getattr(str(self.value(node.func.value, depth)), node.func.attr)()
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and arguments and _is_args(node.func.value):
            return self.state.argument(_text(arguments[0]))
        if name == "getattr" and len(arguments) >= 2 and _is_args(arguments[0]):
            return self.state.argument(_text(arguments[1]))
        raise NotKnown

    def _declared(self, name: str, depth: int) -> Json:
        """A variable by an engine's registry: as it is set, else as it is declared."""
        declared = self.state.defaults.get(name)
        if isinstance(declared, ast.Call):
            found = self.state.variable(name)
            if found is not None:
                return _as(found, _name(declared.func))
            return self.value(declared.args[0], depth) if declared.args else None
        if declared is not None:
            return self.value(declared, depth)
        found = self.state.variable(name)
        if found is None:
            raise NotKnown
        return _as(found, "bool") if found.lower() in _TRUE | _FALSE else found

    def _attribute(self, node: ast.Attribute, depth: int) -> Json:
        if _is_args(node.value):
            return self.state.argument(node.attr)
        if _name(node.value) == "envs":
            return self._declared(node.attr, depth)
        if _name(node.value) == "self":
            return self._own(node.attr, depth)
        raise NotKnown

    def _item(self, node: ast.Subscript) -> Json:
        if _name(node.value) in ("os.environ", "environ"):
            return self.state.variable(_text(node.slice))
        if _is_args(node.value):
            return self.state.argument(_text(node.slice))
        raise NotKnown

    def _named(self, name: str, depth: int) -> Json:
        if name == "TYPE_CHECKING":
            return False
        for position in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[position]
            if isinstance(scope, ast.ClassDef):
                continue
            if isinstance(scope, FUNCTIONS) and name in _parameters(scope):
                raise NotKnown
            if (value := _only_value(scope, name)) is not None:
                return _Reader(self.state, self.scopes[: position + 1]).value(value, depth)
        raise NotKnown

    def _own(self, attribute: str, depth: int) -> Json:
        """An attribute of `self` that its class sets once."""
        for position in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[position]
            if isinstance(scope, ast.ClassDef):
                found = [
                    (method, node.value)
                    for method in scope.body
                    for node in ast.walk(method)
                    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))
                    if any(_name(target) == f"self.{attribute}" for target in _targets(node))
                ]
                if len(found) != 1 or found[0][1] is None:
                    raise NotKnown
                return _Reader(self.state, (*self.scopes[: position + 1], found[0][0])).value(found[0][1], depth)
        raise NotKnown


def _is_args(node: ast.expr) -> bool:
    name = _name(node.func if isinstance(node, ast.Call) else node)
    return bool(_ARGUMENTS.match(name.rpartition(".")[2]))


def _name(node: ast.expr) -> str:
    """`a.b.c` as text; what is no such chain ends in what it hangs on, left empty."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return ""


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise NotKnown


def _as(value: Json, kind: str) -> Json:
    """A variable's text as the reader of that name gives it: `EnvBool`, `get_int_env_var`."""
    low = kind.lower()
    if not isinstance(value, str):
        return value
    if "int" in low:
        return int(value)
    if "float" in low:
        return float(value)
    if "bool" in low or "flag" in low:
        if value.lower() in _TRUE | _FALSE:
            return value.lower() in _TRUE
        raise NotKnown
    return value


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    a = function.args
    return {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg is not None}


def _only_value(scope: ast.AST, name: str) -> ast.expr | None:
    """The value that a name is given in a scope; None where it is not given one there.

    Raises: NotKnown where it is given several, or one in another way than by an assignment.
    """
    own = list(_own_nodes(scope))
    stores = [n for n in own if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    if not stores:
        return None
    values = [
        node.value
        for node in own
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        if any(isinstance(target, ast.Name) and target.id == name for target in _targets(node))
    ]
    rebound = any(isinstance(n, (ast.Global, ast.Nonlocal)) and name in n.names for n in ast.walk(scope))
    if len(stores) == len(values) == 1 and not rebound:
        return values[0]
    raise NotKnown


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of functions and classes in it."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, DEFINITIONS):
            pending += ast.iter_child_nodes(node)
