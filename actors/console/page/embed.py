#!/usr/bin/env python3
"""Puts the parts of the console's page together: embed.py OUT topology.html topology.css *.js, the
scripts in the order in which they shall run. OUT is C++ if it ends in .cpp, else the page itself."""

import sys


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def assemble(html, css, scripts):
    page = read(html)
    parts = {'/*STYLE*/': read(css), '/*SCRIPT*/': '\n'.join(read(path) for path in scripts)}
    for mark, part in parts.items():
        if page.count(mark) != 1 or '</' in part:
            sys.exit(f'embed.py: {mark} must stand once in the page, and "</" in no part of it')
        page = page.replace(mark, part.rstrip('\n'))
    return page


def literal(text):
    """In pieces, because a compiler need not take a literal of more than 64 KiB."""
    size = 8000
    pieces = [text[i:i + size] for i in range(0, len(text), size)]
    return '\n'.join(f'R"page({piece})page"' for piece in pieces)


def main(out, html, css, *scripts):
    page = assemble(html, css, scripts)
    if out.endswith('.cpp'):
        page = ('#include "actors/console/topology_page.hpp"\n\n'
                f'const std::string_view deepinfer::topology_page =\n{literal(page)};\n')
    with open(out, 'w', encoding='utf-8') as file:
        file.write(page)


if __name__ == '__main__':
    main(*sys.argv[1:])
