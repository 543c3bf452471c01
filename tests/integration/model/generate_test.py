#!/usr/bin/env python3
"""`deepinfer generate` with the bundled model: batches, drafts, replay, and what it refuses."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

BINARY, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PROMPTS = ['Hello!', 'Tell me a story about a cat.', 'What can you do?']


def generate(*arguments, **environment):
    return subprocess.run([BINARY, 'generate', *arguments], capture_output=True, text=True,
                          timeout=120, check=False, env=dict(os.environ, **environment))


def lines(*arguments):
    got = generate('--model', MODEL, '--json', *arguments)
    assert got.returncode == 0, got.stderr
    return [json.loads(line) for line in got.stdout.splitlines()]


def asked(prompts):
    return [word for prompt in prompts for word in ('--prompt', prompt)]


def picture(folder, name, colour):
    """A PNG of one colour, 24 x 16 pixels."""
    def chunk(kind, body):
        return (struct.pack('>I', len(body)) + kind + body +
                struct.pack('>I', zlib.crc32(kind + body)))
    rows = (b'\0' + bytes(colour) * 24) * 16
    path = os.path.join(folder, name + '.png')
    with open(path, 'wb') as file:
        file.write(b'\x89PNG\r\n\x1a\n' +
                   chunk(b'IHDR', struct.pack('>IIBBBBB', 24, 16, 8, 2, 0, 0, 0)) +
                   chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
    return path


class Generate(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def file(self, text):
        path = os.path.join(self.home.name, f'prompts{len(os.listdir(self.home.name))}')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def test_the_recorded_samples_come_back(self):
        with open(os.path.join(MODEL, 'samples.jsonl'), encoding='utf-8') as file:
            samples = [json.loads(line) for line in file][:3]
        for sample in samples:
            path = self.file(json.dumps(sample['prompt_ids']))
            got, = lines('--tokens-file', path, '--level', 'L0')
            self.assertEqual(got['tokens'], sample['output_ids'])
            self.assertEqual(got['end'], 'stop')
            self.assertNotIn('drafted', got)

    def test_drafts_change_no_token_and_are_counted(self):
        for level in ('L0', 'L1', 'L2'):
            plain = lines(*asked(PROMPTS), '--max-tokens', '40', '--level', level)
            drafted = lines(*asked(PROMPTS), '--max-tokens', '40', '--level', level,
                            '--draft-tokens', '5')
            self.assertEqual([p['tokens'] for p in plain], [d['tokens'] for d in drafted])
            for before, after in zip(plain, drafted):
                self.assertEqual(len(before['tokens']), 1 + before['steps'])
                self.assertGreater(after['drafted'], 0)
                self.assertAlmostEqual(after['acceptance'],
                                       after['accepted'] / after['drafted'], places=3)
            self.assertLess(sum(d['steps'] for d in drafted), sum(p['steps'] for p in plain))

    def test_a_batch_gives_each_prompt_what_it_gives_alone(self):
        path = self.file('\n'.join(json.dumps(prompt) for prompt in PROMPTS) + '\n\n')
        settings = ['--max-tokens', '30', '--temperature', '0.8', '--seed', '3']
        batch = lines('--prompts-file', path, *settings, '--batch', '2')
        alone = [lines('--prompt', prompt, *settings)[0] for prompt in PROMPTS]
        self.assertEqual(batch, alone)

    def test_text_streams_for_one_prompt_and_is_numbered_for_several(self):
        one = generate('--model', MODEL, '--prompt', PROMPTS[0])
        several = generate('--model', MODEL, *asked([PROMPTS[0]] * 2))
        self.assertTrue(one.stdout.strip())
        self.assertEqual(several.stdout, f'[0] {one.stdout}[1] {one.stdout}')

    def test_kept_rows_matter_only_for_long_prompts(self):
        short = [lines('--prompt', PROMPTS[0], *flags)[0] for flags in
                 ([], ['--kept-rows', 'all'], ['--kept-rows', '128'])]
        self.assertEqual(short[0], short[1])
        self.assertEqual(short[0], short[2])
        self.assertEqual(lines('--prompt', 'again ' * 400, '--kept-rows', '128',
                               '--max-tokens', '3')[0]['end'], 'length')

    def test_pictures_stand_in_the_prompt_where_its_image_tokens_are(self):
        mini = os.path.join(self.home.name, 'mini')
        made = subprocess.run([BINARY, 'model', 'make-random', mini, '--shape', 'mini'],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        image_token, pictures = 151, [picture(mini, name, colour) for name, colour in
                                      [('red', (255, 0, 0)), ('blue', (0, 0, 255))]]
        tokens = self.file(json.dumps([5, image_token, 6, 7, image_token, 8]))

        def with_pictures(chosen, *flags):
            return generate('--model', mini, '--json', '--tokens-file', tokens, '--max-tokens', '12',
                            *[word for p in chosen for word in ('--image', p)], *flags)

        got = json.loads(with_pictures(pictures).stdout)
        text = [t for t in got['prompt'] if t != image_token]
        self.assertEqual(text, [5, 6, 7, 8])
        # 24 x 16 pixels are scaled up to 256: 2 rows of tokens at most 64 in all
        self.assertGreater(len(got['prompt']), 4 + 2 * 4)
        swapped = json.loads(with_pictures(pictures[::-1]).stdout)
        self.assertEqual(got['prompt'], swapped['prompt'])
        self.assertNotEqual(got['tokens'], swapped['tokens'])
        self.assertEqual(got['tokens'],
                         json.loads(with_pictures(pictures, '--draft-tokens', '4').stdout)['tokens'])
        refused = with_pictures(pictures[:1])
        self.assertEqual(refused.returncode, 2)
        self.assertIn('2 image tokens, and 1 images', refused.stderr)
        refused = with_pictures([pictures[0], tokens])
        self.assertEqual(refused.returncode, 2)
        self.assertIn(tokens + ': ', refused.stderr)
        refused = generate('--model', MODEL, '--prompt', 'What is it?', '--image', pictures[0])
        self.assertEqual(refused.returncode, 2)
        self.assertIn('no vision tower', refused.stderr)

    def test_the_published_variable_names_the_folder(self):
        got = generate('--prompt', 'Hello!', '--max-tokens', '2', DEEPINFER_HF_MODEL_DIR=MODEL)
        self.assertEqual(got.returncode, 0, got.stderr)

    def test_what_cannot_be_is_refused_with_what_to_do(self):
        for arguments, said in [
                ([], 'give --prompt'),
                (['--prompt', 'x', '--kept-rows', '127'], 'at least the window, 128'),
                (['--prompt', 'x', '--kept-rows', 'most'], 'a number of rows, or all'),
                (['--prompt', 'x', '--kept-rows', '0'], 'a number of rows, or all'),
                (['--prompt', 'x', '--draft-tokens', '6'], '--draft-tokens'),
                (['--prompt', 'x', '--batch', '65'], '--batch'),
                (['--prompt', 'x', '--level', 'L3'], '--level'),
                (['--prompts-file', self.file('"good"\n{"not": "a string"}\n')], 'line 2'),
                (['--prompts-file', self.file('\n')], 'holds no prompt'),
                (['--prompts-file', self.home.name + '/none'], 'cannot read')]:
            got = generate('--model', MODEL, *arguments)
            self.assertNotEqual(got.returncode, 0, arguments)
            self.assertIn(said, got.stderr, arguments)
            self.assertEqual(got.stdout, '')
        long = self.file(json.dumps([5] * 8192))
        got = generate('--model', MODEL, '--tokens-file', long)
        self.assertEqual(got.returncode, 1)
        self.assertIn('8192', got.stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
