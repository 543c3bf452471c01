#!/usr/bin/env python3
"""Writes block_keys.txt: keys of the hash chain, made by hashlib and nothing of ours.

Each line: block size, number of tokens, token rule's seed, model, weights, layout, scope kind,
scope id, marks (position:hex of the first digest byte, comma-separated, or -), keys (comma-separated).
Token i of seed s is (s * 2654435761 + i * 40503) mod 129280; a mark's digest is 32 equal bytes."""

import hashlib
import pathlib
import struct


def text(value):
    data = value.encode()
    return struct.pack('<I', len(data)) + data


def root(model, weights, layout, block, kind, scope):
    message = b'deepinfer kv chain v1' + text(model) + text(weights) + struct.pack('<QI', layout, block)
    return hashlib.sha256(message + bytes([kind]) + text(scope) + b'\0').digest()[:16]


def chain(parent, tokens, block, marks):
    keys = []
    for index in range(len(tokens) // block):
        part = tokens[index * block:(index + 1) * block]
        message = b''.join(struct.pack('<i', t) for t in part)
        for position, value in marks:
            if index * block <= position < (index + 1) * block:
                message += struct.pack('<I', position - index * block) + bytes([value]) * 32
        parent = hashlib.sha256(message + parent + b'\1').digest()[:16]
        keys.append(parent.hex())
    return keys


CASES = [
    (128, 127, 1, 'v41', 'aa', 7, 0, 'alice', []),
    (128, 128, 1, 'v41', 'aa', 7, 0, 'alice', []),
    (128, 650, 1, 'v41', 'aa', 7, 0, 'alice', []),
    (128, 384, 1, 'v41', 'aa', 7, 0, 'bob', []),
    (128, 384, 1, 'v41', 'aa', 7, 1, 'alice', []),
    (128, 384, 1, 'v41', 'aa', 8, 0, 'alice', []),
    (128, 384, 1, 'v41', 'ab', 7, 0, 'alice', []),
    (128, 384, 1, 'v41a', 'a', 7, 0, 'alice', []),
    (128, 384, 1, 'v41', 'aa', 7, 2, '', []),
    (64, 384, 1, 'v41', 'aa', 7, 0, 'alice', []),
    (128, 512, 9, 'v41', 'aa', 7, 0, 'alice', [(0, 1), (130, 2), (255, 3), (256, 4)]),
    (128, 512, 9, 'v41', 'aa', 7, 0, 'alice', [(0, 1), (131, 2), (255, 3), (256, 4)]),
    (12, 100, 5, 'm', 'w', 2**64 - 1, 0, 't', []),
    (12, 100, 5, 'm', 'w', 2**64 - 1, 0, 't', [(24, 200)]),
]

lines = []
for block, count, seed, model, weights, layout, kind, scope, marks in CASES:
    tokens = [(seed * 2654435761 + i * 40503) % 129280 for i in range(count)]
    keys = chain(root(model, weights, layout, block, kind, scope), tokens, block, marks)
    shown = ','.join(f'{p}:{v:02x}' for p, v in marks) or '-'
    lines.append('\t'.join(map(str, (block, count, seed, model, weights, layout, kind, scope or '-', shown,
                                     ','.join(keys) or '-'))))
pathlib.Path(__file__).with_name('block_keys.txt').write_text('\n'.join(lines) + '\n')
