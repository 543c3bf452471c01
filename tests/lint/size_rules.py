"""How long files and functions may be."""

import ast
import os
import re

import tables
from findings import Finding
from tree import blank

# What may stand between the parameters and the body, parentheses being empty.
AFTER_PARAMETERS = re.compile(
    r'\)(?:\s|const\b|noexcept\b|override\b|final\b|mutable\b|try\b|requires\b|&|\(\))*'
    r'(?:->[^;{}]*)?$')
CONTAINER = re.compile(r'\b(?:namespace|class|struct|union|enum|extern)\b')
TEST_SUITE = re.compile(r'\bTEST_SUITE(?:_BEGIN)?\s*\(')
ACCESS = re.compile(r'\s*(?:public|private|protected)\s*:(?!:)')


def lines_of(text):
    return text.count('\n') + (not text.endswith('\n') and text != '')


def file_sizes(tree):
    for path in sorted(set(tree.cpp() + tree.scripts())):
        ending = os.path.splitext(path)[1]
        warn, fail = tables.FILE_LINES.get(ending, tables.FILE_LINES[''])
        lines = lines_of(tree.texts[path])
        if lines > warn:
            yield Finding(path, lines, 'file-size', f'{lines} lines (aim: {warn}, limit: {fail}); '
                          'split it by idea', warning=lines <= fail)


def without_preprocessor(code):
    """Directives, with their continued lines, may hold unbalanced braces."""
    return re.sub(r'^[ \t]*#(?:\\\n|[^\n])*', lambda m: blank(m.group()), code, flags=re.M)


def collapse(head):
    """Empties parentheses and braced initialisers, so that only the shape remains."""
    before = None
    while before != head:
        before = head
        head = re.sub(r'\([^(){}]+\)|\{[^(){}]*(?:\(\)[^(){}]*)*\}', '()', head)
    return head


def kind_of(head):
    """What a brace after `head`, outside any function, opens."""
    if TEST_SUITE.search(head):
        return 'container'
    shape = collapse(head)
    if shape.count('(') > shape.count(')'):  # a default argument: `f(x y = x{1})`
        return 'initialiser'
    if AFTER_PARAMETERS.search(shape):  # also a constructor's `: a_(1), b_{2}`
        return 'function'
    # `template <class T> T pi{3}` is none either.
    plain = re.sub(r'\btemplate\s*<.*>', ' ', shape, flags=re.S)
    return 'container' if CONTAINER.search(plain) else 'initialiser'


def functions(code):
    """(name, first line, last line) of each function body in blanked code. Lambdas and blocks
    belong to the function around them. Empty when the braces do not match: better silent than
    wrong."""
    code = without_preprocessor(code)
    found, stack = [], []  # stack: (kind, head, where the head begins)
    start = 0              # of the declaration being read
    for match in re.finditer(r'[{};]', code):
        at, char = match.start(), match.group()
        outside = not stack or stack[-1][0] == 'container'
        if char == '{':
            label = ACCESS.match(code, start, at) if outside else None
            start = label.end() if label else start
            head = code[start:at]
            kind = kind_of(head) if outside else 'block'
            stack.append((kind, head, start))
            if kind == 'container':
                start = at + 1
        elif char == ';':
            start = at + 1 if outside else start
        elif not stack:
            return []
        else:
            kind, head, begin = stack.pop()
            if kind == 'function':
                first = begin + len(head) - len(head.lstrip())
                found.append((name_of(head), code.count('\n', 0, first) + 1,
                              code.count('\n', 0, at) + 1))
            if kind in ('function', 'container'):
                start = at + 1  # after an initialiser the declaration goes on
    return [] if stack else found


def name_of(head):
    plain = re.sub(r'\btemplate\s*<.*?>(?=\s*[\w\[])', '', collapse(head), flags=re.S)
    match = re.search(r'(operator[^\w\s(]+|[\w:~]+)\s*\(', plain)
    return match.group(1) if match else 'function'


def function_sizes(tree):
    warn, fail = tables.FUNCTION_LINES
    measured = [(path, functions(tree.code(path))) for path in tree.cpp()]
    for path in tree.scripts():
        if path.endswith('.py'):
            defs = [n for n in ast.walk(ast.parse(tree.texts[path])) if isinstance(n, ast.FunctionDef)]
            measured.append((path, [(d.name, d.lineno, d.end_lineno) for d in defs]))
    for path, found in measured:
        for name, first, last in found:
            lines = last - first + 1
            if lines > warn:
                yield Finding(path, first, 'function-size', f'{name}() has {lines} lines (aim: '
                              f'{warn}, limit: {fail}); give its parts names', warning=lines <= fail)


RULES = [file_sizes, function_sizes]
