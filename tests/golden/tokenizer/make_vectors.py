#!/usr/bin/env python3
"""Writes vectors.jsonl: texts and the ids that the Hugging Face library `tokenizers` gives them.

  python3 make_vectors.py TOKENIZER.json BLNS.json UDHR.jsonl > vectors.jsonl

BLNS is the "big list of naughty strings" (MIT), UDHR a JSON-lines file of the Universal Declaration of
Human Rights in many languages (public domain), fields `name` and `text`. Needs `pip install tokenizers`;
the test needs only the result. Texts that spell an added token are left out: here all text is plain.
"""

import json
import random
import sys

from tokenizers import Tokenizer

OWN = [
    '', ' ', '  ', '\n', '\r\n', ' \n ', '\t\tx', 'a  b', 'trailing   ', '  leading', 'x\n\n\n  y',
    '1234567890', '12 345 6', '٢٠٢٤', '½ Ⅷ ⅓', '你好，世界！', '繁體字測試', 'カタカナ・ひらがな', '安12安',
    '안녕하세요 세계', '😀🎉🚀', '👩‍👩‍👧‍👦 x', 'e\u0301 e\u0300\u0301', '\u0301start', 'нет пробелов', 'שלום עולם',
    'مرحبا بالعالم', 'ภาษาไทย', 'नमस्ते दुनिया', "don't we'll I'M", '_under_score', '$foo #bar @baz', '...abc',
    '?!\n\nnext', ' ,;:\r\nz', '\x00\x01a\x7f', 'a\x85b\xa0c\u2028d\u3000e', '\x1c\x1d x', '\u200b\ufeffx',
    '\ufffd\ufffe', '\U0010ffff', 'a' * 100, 'ab' * 70, ' ' * 70, '\n' * 70, '\u4e00' * 70, '!' * 70,
    'def f(x):\n    return x ** 2\n', '{"a": [1, 2.5e-3, null], "b": "c\\n"}', '<tool_result>{"t": 20}</tool_result>',
    'supercalifragilisticexpialidocious', '\U0001d54f\U0001d550 \u2160\u2161 ①②③', '\u0e33\u17d2\u1780 \u1160',
]


def mixed(generator, length):
    pools = ['abcXYZ', '0129٣½', '一龥あアー・', ' \t\n\r\x0b\x85\xa0\u2003\u3000', '.,!?-_"\'<>|{}', '\u0301\u0308\u20dd',
             '$+=^~€\u2200', 'йéßΩ', '😀🇩🇪\u200d', '\x00\x1f\xad\u200b\ufeff']
    return ''.join(generator.choice(generator.choice(pools)) for _ in range(length))


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    texts = list(OWN)
    texts += json.load(open(sys.argv[2], encoding='utf-8'))[::2]
    for line in open(sys.argv[3], encoding='utf-8').read().split('\n'):
        if line and len(texts) < 330:
            text = json.loads(line)['text']
            texts.append(text[200:300])
    generator = random.Random(41)
    texts += [mixed(generator, generator.randrange(1, 60)) for _ in range(120)]
    for text in dict.fromkeys(texts):
        if any(token in text for token in added):
            continue
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        print(json.dumps({'text': text, 'ids': ids}, ensure_ascii=True, separators=(',', ':')))


if __name__ == '__main__':
    main()
