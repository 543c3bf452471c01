#!/usr/bin/env python3
"""Writes reduced.json, a tokenizer.json with as much of the DeepSeek vocabulary as some texts need,
and reduced_vectors.jsonl, those texts with the ids that the whole vocabulary gives them.

  python3 make_reduced.py TOKENIZER.json TEXTS.jsonl UDHR.jsonl recorded.jsonl OUT_FOLDER

TOKENIZER is the published file (V3: MIT; V4 and V4.1 share its base vocabulary, merges and
expressions), TEXTS has lines with `source`, `text` and the `ids` of the Hugging Face library
`tokenizers`, UDHR lines with `name` and `text`. Needs `pip install tokenizers`.

Why the ids are those of the whole file: merging a text applies some of the rules. With these rules
alone every step finds the same pair of lowest rank, for it is there and no other pair is new. So
the reduced file keeps each rule that one of the texts applied, in order, with the real ids, and the
added tokens of V4.1 in place of V3's. The script checks its own merging against the library.
"""

import json
import sys

from tokenizers import Tokenizer

# How many texts of a source: every so manieth.
STEPS = {'blns': 1, 'emoji': 1, 'normalization': 1, 'grapheme': 1, 'regex': 6, 'markup': 6,
         'code': 12, 'math': 30, 'dialogue': 10, 'chinese': 12, 'prose': 20}
LONGEST = {'blns': 300, 'prose': 300}

OWN = [
    '', ' ', '  ', '\n', '\r\n', ' \n ', '\t\tx', 'a  b', '  leading', 'x\n\n\n  y', ' ,;:\r\nz',
    '12 345 6', '1', '12', '123', '1234', '12345678901234567890', '0.125e-7', '1,000,000.00',
    '\u0662\u0660\u0662\u0664', '\u0967\u0968\u0969\u096a', '\u2167\u00b2\u2460\u00be', '安12安', 'a1b22c333d4444',
    'カタカナ・ひらがな', '漢字とカナ交じり文', '学而时习之，不亦说乎？', '臺灣 香港', '한국어 띄어쓰기',
    '👩\u200d👩\u200d👧\u200d👦 x', '🇩🇪🇫🇷', '👍🏽', 'e\u0301 e\u0300\u0301', '\u0301start', "don't we'll I'M",
    '_under_score', '$foo #bar @baz', '...abc', '?!\n\nnext', '\x00\x01a\x7f', '\x1c\x1d x',
    'a\x85b\xa0c\u2028d\u3000e\u2003\u2009f\u1680g', '\u200b\ufeffx', '\ufffd\ufffe', '\U0010ffff', 'a' * 100,
    'ab' * 70, ' ' * 70, '\n' * 70, '\t' * 9 + 'x', '\u4e00' * 70, '!' * 70, '-' * 33, '=' * 20, '9' * 31,
    'def f(x):\n    return x ** 2\n\n\nclass A(B):\n\tpass\n', '#include <vector>\nint main() { return 0; }\r\n',
    '{"a": [1, 2.5e-3, null], "b": "c\\n"}', 'SELECT * FROM t WHERE id = 42;', 'https://example.org/a?b=c&d=%20',
    '<tool_result>{"t": 20}</tool_result>', '\U0001d54f\U0001d550 \u2160\u2161', '\u0e33\u17d2\u1780 \u1160',
]

# V4.1: text, id, special (dropped by "decode without special tokens").
ADDED = [
    ('<｜begin▁of▁sentence｜>', 0, True), ('<｜end▁of▁sentence｜>', 1, True), ('<｜▁pad▁｜>', 2, True),
    ('<｜place▁holder▁no▁0｜>', 128000, True), ('<｜place▁holder▁no▁798｜>', 128798, True),
    ('<｜System｜>', 128799, False), ('<｜fim▁hole｜>', 128800, False), ('<｜fim▁begin｜>', 128801, False),
    ('<｜fim▁end｜>', 128802, False), ('<｜User｜>', 128803, False), ('<｜Assistant｜>', 128804, False),
    ('<|EOT|>', 128805, True), ('<｜tool▁calls▁begin｜>', 128806, False), ('<think>', 128821, False),
    ('</think>', 128822, False), ('｜DSML｜', 128825, False), ('<｜latest_reminder｜>', 128828, False),
    ('<｜action｜>', 128829, False), ('<｜query｜>', 128830, False), ('<｜authority｜>', 128831, False),
    ('<｜domain｜>', 128832, False), ('<｜title｜>', 128836, False), ('<｜read_url｜>', 128845, False),
    ('<｜image｜>', 129264, True),
]


def lines_of(path):
    return [json.loads(line) for line in open(path, encoding='utf-8', newline='\n').read().split('\n') if line.strip()]


class Merger:
    """Byte-level BPE that notes the rules it applies."""

    def __init__(self, path):
        self.file = json.load(open(path, encoding='utf-8'))
        self.library = Tokenizer.from_file(path)
        self.vocab = self.file['model']['vocab']
        self.rules = [tuple(rule.split(' ')) if isinstance(rule, str) else tuple(rule)
                      for rule in self.file['model']['merges']]
        self.ranks = {rule: rank for rank, rule in enumerate(self.rules)}
        self.used = set()
        self.known = {}

    def piece(self, piece):
        tokens = list(piece)
        while len(tokens) > 1:
            rank, at = min((self.ranks.get(pair, len(self.rules)), i)
                           for i, pair in enumerate(zip(tokens, tokens[1:])))
            if rank == len(self.rules):
                break
            self.used.add(rank)
            tokens[at:at + 2] = [tokens[at] + tokens[at + 1]]
        return [self.vocab[token] for token in tokens]

    def encode(self, text):
        ids = []
        for piece, _ in self.library.pre_tokenizer.pre_tokenize_str(text):
            if piece not in self.known:
                self.known[piece] = self.piece(piece)
            ids += self.known[piece]
        return ids


def choose(texts, udhr):
    chosen = list(OWN)
    seen = {}
    for line in texts:
        source, text = line['source'], line['text']
        if source in STEPS and len(text) <= LONGEST.get(source, 600):
            seen[source] = seen.get(source, -1) + 1
            if seen[source] % STEPS[source] == 0:
                chosen.append(text)
    for line in udhr:
        chosen.append(line['text'][300:350])
    return list(dict.fromkeys(chosen))


def main():
    tokenizer_path, texts_path, udhr_path, recorded_path, folder = sys.argv[1:]
    merger = Merger(tokenizer_path)
    added = [token[0] for token in ADDED] + [token['content'] for token in merger.file['added_tokens']]
    reference = {line['text']: line['ids'] for line in lines_of(texts_path)}
    with open(f'{folder}/reduced_vectors.jsonl', 'w', encoding='utf-8') as out:
        for text in choose(lines_of(texts_path), lines_of(udhr_path)):
            if any(token in text for token in added):
                continue
            ids = merger.encode(text)
            assert ids == merger.library.encode(text, add_special_tokens=False).ids, text
            assert ids == reference.get(text, ids), text
            out.write(json.dumps({'text': text, 'ids': ids}, ensure_ascii=False, separators=(',', ':')) + '\n')
    by_text = {text: token_id for text, token_id, _ in ADDED}
    for line in lines_of(recorded_path):  # plain, token, plain, token, ...
        ids = []
        for number, piece in enumerate(line['pieces']):
            ids += merger.encode(piece) if number % 2 == 0 else [by_text[piece]]
        assert ids == line['ids'], (line, ids)
    file = merger.file
    rules = [merger.rules[rank] for rank in sorted(merger.used)]
    keep = {a + b for a, b in rules} | {token for token in merger.vocab if len(token) == 1}
    assert all(side in keep for rule in rules for side in rule)
    file['model']['vocab'] = {token: i for token, i in merger.vocab.items() if token in keep}
    file['model']['merges'] = [f'{a} {b}' for a, b in rules]
    file['added_tokens'] = [
        {'id': i, 'content': text, 'single_word': False, 'lstrip': False, 'rstrip': False,
         'normalized': not special, 'special': special} for text, i, special in ADDED]
    with open(f'{folder}/reduced.json', 'w', encoding='utf-8') as out:
        json.dump(file, out, ensure_ascii=False, separators=(',', ':'))
        out.write('\n')


if __name__ == '__main__':
    main()
