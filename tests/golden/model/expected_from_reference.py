#!/usr/bin/env python3
"""Expected tensors of a random mini checkpoint, computed by the NumPy reference of the model.

  expected_from_reference.py REFERENCE.py CHECKPOINT_DIR OUT_DIR

REFERENCE.py is the executable form of the model specification (float64 NumPy; not part of this
repository). CHECKPOINT_DIR comes from `deepinfer model make-random DIR --shape NAME --seed 1234`;
its last component is the shape. Writes OUT_DIR/NAME_{L0,L1,L2}.safetensors and, for `mini`,
OUT_DIR/mini_vision.safetensors. README.md beside this file says what is in them.
"""
import importlib.util
import os
import sys

import numpy as np

import reference_cases as cases

REPLAYS = ('late', 'ced')    # how the decoder's first layer is treated
PROMPT_TOKENS = 70    # more than window 16, ring 22, index_top 8 of any ratio, twice over
SHOWN_ROWS = [0, 1, 2, 3, 7, 8, 14, 15, 16, 17, 18, 22, 31, 32, 33, 47, 48, 49, *range(64, 70)]
DRAFT_POINTS = [1, 7, 16, 40, 70]    # committed tokens: less than the window, all of it, more


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def checkpoint_digest(folder):
    shards = sorted(f for f in os.listdir(folder) if f.startswith('model-'))
    data = b''.join(open(os.path.join(folder, f), 'rb').read() for f in shards)
    return np.array([fnv1a(data)], np.uint64).view(np.int64)


class Golden:
    """One output file."""

    def __init__(self, reference):
        self.reference, self.tensors = reference, {}

    def ints(self, name, values):
        self.tensors[name] = ('I32', np.array(values, np.int32))

    def wide(self, name, values):
        self.tensors[name] = ('I64', np.array(values, np.int64))

    def bytes(self, name, values):
        self.tensors[name] = ('U8', values)

    def floats(self, name, values):
        """F32, or BF16 where that loses nothing: half the size."""
        values = np.asarray(values, np.float32)
        if np.array_equal(self.reference.bf16_round(values), values):
            self.tensors[name] = ('BF16', self.reference.bf16_bits(values))
        else:
            self.tensors[name] = ('F32', values)

    def save(self, path):
        self.reference.save_safetensors(path, self.tensors)
        print(f'{os.path.basename(path)}: {os.path.getsize(path)} bytes')


def put_layers(out, m, prefix, record, fields, rows=None):
    """The layer tensors `fields` of a record, all rows or those listed."""
    for l in range(m.c.L):
        for field in fields:
            value = record.get(f'layer{l}.{field}')
            if value is None:
                continue
            if rows is not None:
                value = value[rows]
            put = out.ints if value.dtype == np.int32 else out.floats
            put(f'{prefix}.layer{l}.{field}', value)


def put_cache_rows(out, m, prefix, record):
    """Compressed entries and index keys: packed where the level quantises them."""
    for l in m.c.kv_src:
        for field, kind in (('ckv', 'fp4c'), ('ikey', 'fp4k')):
            value = record[f'layer{l}.{field}']
            if m.o.kv_quant:
                out.bytes(f'{prefix}.layer{l}.{field}', out.reference.pack_row(value, kind))
            else:
                out.floats(f'{prefix}.layer{l}.{field}', value)


OPERATORS = ('attn_in', 'attn_out', 'ffn_in', 'ffn_out')
CHOICES = ('experts', 'expert_w', 'topk')


def put_text(out, source, ids, layers):
    """The prompt in one go, end to end."""
    m, record = source.exact, {}
    logits, taps = m.forward_full(ids, rec=record)
    out.ints('prompt', ids)
    out.floats('full.logits', logits)
    out.floats('full.taps', taps)
    out.ints('greedy', cases.greedy_case(m, ids)[0])
    if source.level == 'L0' and layers:
        out.wide('full.engram_ids', record['engram_ids'])
        out.ints('full.rows', SHOWN_ROWS)
        put_layers(out, m, 'full', record, OPERATORS + CHOICES + ('stream', 'pre'), SHOWN_ROWS)
    if layers:
        put_cache_rows(out, m, 'full', record)
    return taps


def put_given(out, source, streams):
    """Every layer on given inputs: the streams of an L2 run, which bf16 holds exactly."""
    m, ids = source.exact, streams['ids']

    def run(m, record):
        return m.forward_full(ids, rec=record)
    record = cases.layered(m, run, None if source.level == 'L2' else streams)
    out.ints('given.prompt', ids)
    put_layers(out, m, 'given', record, ('attn_out', 'ffn_out') + CHOICES)
    put_cache_rows(out, m, 'given', record)
    if source.level == 'L2':    # and what was given
        put_layers(out, m, 'given', record, ('attn_in', 'ffn_in', 'stream', 'pre'))
    out.floats('given.logits', record['logits'])


def put_image(out, source, prompt):
    m, record = source.exact, {}
    ids, types, rows = prompt
    out.ints('image.prompt', ids)
    out.ints('image.types', types)
    out.floats('image.rows', rows[types >= 0])
    if source.level == 'L2':
        record = cases.layered(m, lambda m, record: cases.image_case(m, prompt, record))
        put_layers(out, m, 'image', record, OPERATORS + CHOICES + ('stream', 'pre'))
    else:
        record['logits'], record['taps'] = cases.image_case(m, prompt, record)
        put_layers(out, m, 'image', record, ('experts', 'expert_w', 'topk'))
    out.wide('image.engram_ids', record['engram_ids'])
    out.floats('image.logits', record['logits'])
    put_cache_rows(out, m, 'image', record)


def put_drafts(out, source, taps):
    """Drafts at several places of the prompt, from the taps stored in this file."""
    taps = np.asarray(taps, np.float32)
    anchors, found = [], []
    for at in DRAFT_POINTS:
        anchor = source.find(f'draft at {at}', lambda r: cases.tokens(source.exact, r, 1)[0],
                             {'L0': 1e-4, 'L1': 2e-3, 'L2': 0.05}[source.level],
                             lambda m, a, at=at: cases.draft_case(m, taps, at, a))
        anchors.append(anchor)
        found.append(cases.draft_case(source.exact, taps, at, anchor))
    out.ints('draft.at', DRAFT_POINTS)
    out.ints('draft.tokens', [f[0] for f in found])
    out.floats('draft.logits', [f[1] for f in found])
    out.floats('draft.confidence', [f[2] for f in found])


def put_verification(out, source, ids):
    at = 37    # in the middle of a group of 2 and at the second token of a group of 3
    c = source.exact.c
    block, following = source.find(
        'verification',
        lambda r: (cases.tokens(source.exact, r, 1 + c.B), cases.tokens(source.exact, r, 3)),
        source.tolerance, lambda m, v: cases.verify_case(m, ids, at, *v))
    logits, after = cases.verify_case(source.exact, ids, at, block, following)
    out.ints('verify.at', [at])
    out.ints('verify.block', block)
    out.ints('verify.following', following)
    out.floats('verify.logits', logits)
    out.floats('verify.after', after)


def put_replay(out, source, ids):
    c = source.exact.c
    out.ints('replay.tail', [cases.TAIL])
    following = ids[:4]
    out.ints('replay.following', following)
    for variant in REPLAYS:
        logits, taps, rings, then = cases.replay_case(source.exact, ids, variant, following)
        out.floats(f'replay.{variant}.logits', logits)
        out.floats(f'replay.{variant}.taps', taps)
        out.floats(f'replay.{variant}.then', then)
        if source.level == 'L0':
            for l in (c.n_enc, c.n_enc + 1, c.L - 1):
                out.floats(f'replay.{variant}.ring{l}', rings[l - c.n_enc])


def put_resume(out, source, ids, hits):
    """After a prefix hit: window rings rebuilt from the last `window` tokens of the prefix."""
    for hit, count in hits:
        prompt = ids if count == len(ids) else source.find(
            f'resume at {hit}', lambda r: cases.tokens(source.exact, r, count),
            source.tolerance, lambda m, p: cases.resume_case(m, p, hit))
        out.ints(f'resume{hit}.prompt', prompt)
        out.floats(f'resume{hit}.logits', cases.resume_case(source.exact, prompt, hit)[0])


def put_sizes(out, source):
    sizes = out.reference.kv_bytes(source.exact.c)
    for name in ('compressed_row', 'index_row', 'window_row', 'block_bytes', 'swa_ring_layer',
                 'dspark_ring', 'partial_group'):
        out.wide('sizes.' + name, [sizes[name]])


def write_vision(reference, folder, out_dir):
    """Images alone, at L0 and L2, and the span of one of them."""
    out, random = Golden(reference), np.random.default_rng(3)
    models = [cases.Source(reference, folder, level).exact for level in ('L0', 'L2')]
    p = models[0].c.v['patch_size']
    out.wide('checkpoint', checkpoint_digest(folder))
    for high, wide in ((3, 3), (4, 5), (7, 2)):
        name = f'grid{high}x{wide}'
        patches = random.uniform(-1, 1, (high * wide, 3, p, p)).astype(np.float32)
        patches = reference.bf16_round(patches)
        out.floats(f'{name}.patches', patches)
        for model in models:
            out.floats(f'{name}.{model.o.level}.rows', model.vision_encode(patches, high, wide))
            if (high, wide) == (4, 5):
                types, rows = model.image_span(patches, high, wide)
                out.ints(f'{name}.span.types', types)
                out.floats(f'{name}.{model.o.level}.span.rows', rows)
    out.save(os.path.join(out_dir, 'mini_vision.safetensors'))


def hits_of(shape, level):
    """(hit, prompt tokens): one any length, one whole blocks of 128 that every ratio divides."""
    if shape == 'mini':
        return [(48, PROMPT_TOKENS), (128, 150)]
    return [(48, PROMPT_TOKENS)] + ([(384, 400)] if level == 'L0' else [])


def write_shape(reference, folder, shape, out_dir):
    sources = {level: cases.Source(reference, folder, level) for level in ('L0', 'L1', 'L2')}
    sources['L0'].tolerance, sources['L1'].tolerance = 1e-4, 2e-3
    full = shape != 'mini8'
    strict = sources['L1']

    demands = [cases.text_case, cases.greedy_case]
    if full:
        demands.append(lambda m, ids: cases.resume_case(m, ids, 48))
        for variant in REPLAYS:
            demands.append(lambda m, ids, v=variant: cases.replay_case(m, ids, v, ids[:4]))
    # one prompt for all levels, found at the level where a rounding does most
    ids = strict.find('prompt', lambda r: cases.tokens(strict.exact, r, PROMPT_TOKENS),
                      strict.tolerance, *demands)
    if not all(sources['L0'].holds(lambda m, c=c: c(m, ids), 1e-4) for c in demands):
        raise SystemExit('the prompt hangs on a rounding at L0')
    given = cases.layered(sources['L2'].exact, lambda m, record: m.forward_full(ids, rec=record))
    given['ids'] = ids
    picture = sources['L0'].find('image', lambda r: cases.image_prompt(sources['L0'].exact, r),
                                 1e-4, cases.image_case) if full else None
    for level, source in sources.items():
        out = Golden(reference)
        out.wide('checkpoint', checkpoint_digest(folder))
        if level != 'L2':
            taps = put_text(out, source, ids, layers=full)
        if full:
            if level != 'L0':
                put_given(out, source, given)
            if level == 'L0' or (level, shape) == ('L2', 'mini'):
                put_image(out, source, picture)
            put_drafts(out, source, given['taps'] if level == 'L2' else taps)
            if level == 'L2':
                out.floats('full.taps', given['taps'])
            else:
                put_verification(out, source, ids)
                put_replay(out, source, ids)
                put_resume(out, source, ids, hits_of(shape, level))
            put_sizes(out, source)
        if full or level != 'L2':
            out.save(os.path.join(out_dir, f'{shape}_{level}.safetensors'))


def main():
    spec = importlib.util.spec_from_file_location('reference', sys.argv[1])
    reference = importlib.util.module_from_spec(spec)
    sys.modules['reference'] = reference
    spec.loader.exec_module(reference)
    folder, out_dir = sys.argv[2], sys.argv[3]
    shape = os.path.basename(os.path.normpath(folder))
    if shape == 'mini':
        write_vision(reference, folder, out_dir)
    write_shape(reference, folder, shape, out_dir)


if __name__ == '__main__':
    main()
