"""Recursive descent over the tokens of one entry. Line ends mean nothing; statements end with a semicolon
or a block's keyword.
"""

from __future__ import annotations

from typing import Final

from emulator.pcode import tree
from emulator.pcode.lexer import PcodeError, Token, tokens

# Loosest first. Power and unary operators bind tighter than all of them.
LEVELS: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


def parse(text: str) -> tree.Body:
    """The statements of an entry.

    Raises:
        PcodeError: prose, or a construct that the grammar lacks.
    """
    parser = _Parser(tokens(text))
    body = parser.body(frozenset())
    if parser.here.kind != "end":
        raise PcodeError(f"unexpected {parser.here.text!r} at {parser.here.at}")
    return body


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.at = 0

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def take(self, text: str = "") -> Token:
        token = self.here
        if text and token.text != text:
            raise PcodeError(f"expected {text!r}, found {token.text!r} at {token.at}")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.here.text != text or self.here.kind == "end":
            return False
        self.at += 1
        return True

    def body(self, ends: frozenset[str]) -> tree.Body:
        found: list[tree.Statement] = []
        while self.here.kind != "end" and self.here.text not in ends:
            if not self.accept(";"):
                found.append(self.statement())
        return tuple(found)

    def statement(self) -> tree.Statement:
        word = self.here.text if self.here.kind == "keyword" else ""
        if word == "if":
            return self.if_()
        if word == "for":
            return self.for_()
        if word == "declare":
            return self.declare()
        if word == "break":
            self.take()
            return tree.Break()
        if word == "return":
            self.take()
            return tree.Return(self.expression())
        return self.assignment()

    def if_(self) -> tree.If:
        branches: list[tuple[tree.Expression | None, tree.Body]] = []
        ends = frozenset(("elsif", "else", "endif"))
        self.take("if")
        while True:
            condition = self.expression()
            self.take("then")
            branches.append((condition, self.body(ends)))
            if not self.accept("elsif"):
                break
        if self.accept("else"):
            branches.append((None, self.body(ends)))
        self.take("endif")
        return tree.If(tuple(branches))

    def for_(self) -> tree.For:
        self.take("for")
        name = self.take().text
        self.take("in")
        first = self.expression()
        self.take(":")
        last = self.expression()
        self.take("do")
        body = self.body(frozenset(("endfor",)))
        self.take("endfor")
        return tree.For(name, first, last, body)

    def declare(self) -> tree.Declare:
        self.take("declare")
        name = self.take().text
        self.take(":")
        kind = self.take()
        if kind.kind != "cast":
            raise PcodeError(f"no type at {kind.at}")
        count = 0
        if self.accept("["):
            count = int(self.take().text)
            self.take("]")
        return tree.Declare(name, kind.width, kind.letter, count)

    def assignment(self) -> tree.Statement:
        targets = [self.expression()]
        operator = ""
        if self.here.text in ("+=", "-="):
            operator = self.take().text[0]
            value = self.expression()
        else:
            if self.here.text != "=":
                return tree.Evaluate(targets[0])
            self.take()
            if self.here.text == "lambda":
                return self.lambda_(targets[0])
            value = self.expression()
            while self.accept("="):
                targets.append(value)
                value = self.expression()
        return tree.Assign(tuple(targets), operator, value)

    def lambda_(self, target: tree.Expression) -> tree.Lambda:
        if not isinstance(target, tree.Name):
            raise PcodeError("a lambda needs a name")
        self.take("lambda")
        self.take("(")
        parameters = [self.take().text]
        while self.accept(","):
            parameters.append(self.take().text)
        self.take(")")
        self.take("(")
        statements = self.here.kind == "keyword"
        body = self.body(frozenset((")",))) if statements else (tree.Return(self.expression()),)
        self.take(")")
        return tree.Lambda(target.name, tuple(parameters), body)

    def expression(self) -> tree.Expression:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.expression()
        self.take(":")
        return tree.Choice(condition, yes, self.expression())

    def binary(self, level: int) -> tree.Expression:
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.here.kind == "mark" and self.here.text in LEVELS[level]:
            operator = self.take().text
            left = tree.Binary(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> tree.Expression:
        if self.here.kind == "mark" and self.here.text in ("-", "+", "~", "!"):
            operator = self.take().text
            return tree.Unary(operator, self.unary())
        base = self.postfix()
        if self.accept("**"):
            return tree.Binary("**", base, self.unary())
        return base

    def postfix(self) -> tree.Expression:
        base = self.primary()
        while True:
            if self.accept("."):
                base = tree.Member(base, self.take().text)
            elif self.accept("["):
                base = self.subscript(base)
            else:
                return base

    def subscript(self, base: tree.Expression) -> tree.Expression:
        first = self.expression()
        if self.accept("]"):
            return tree.Index(base, first)
        counted = self.accept("+:")
        if not counted:
            self.take(":")
        second = self.expression()
        self.take("]")
        return tree.Slice(base, first, second, counted)

    def primary(self) -> tree.Expression:
        token = self.take()
        if token.kind == "number":
            return tree.Literal(token.text, token.width, token.letter)
        if token.kind == "cast":
            self.take("(")
            value = self.expression()
            self.take(")")
            return tree.Cast(token.width, token.letter, value)
        if token.kind == "name":
            if not self.accept("("):
                return tree.Name(token.text)
            return tree.Call(token.text, self.list_until(")"))
        if token.text == "(":
            value = self.expression()
            self.take(")")
            return value
        if token.text == "{":
            return tree.Concatenation(self.list_until("}"))
        raise PcodeError(f"unexpected {token.text!r} at {token.at}")

    def list_until(self, end: str) -> tuple[tree.Expression, ...]:
        found: list[tree.Expression] = []
        while not self.accept(end):
            found.append(self.expression())
            if self.here.text != end:
                self.take(",")
        return tuple(found)
