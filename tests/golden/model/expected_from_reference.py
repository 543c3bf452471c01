#!/usr/bin/env python3
"""Expected tensors of a random mini checkpoint, computed by the NumPy reference of the model.

  expected_from_reference.py REFERENCE.py CHECKPOINT_DIR OUT_DIR [tokens]

REFERENCE.py is the executable form of the model specification (float64 NumPy; not part of this
repository). CHECKPOINT_DIR comes from `deepinfer model make-random DIR --shape NAME --seed 1234`.
Writes OUT_DIR/NAME_L0.safetensors (every layer) and NAME_L1.safetensors (logits, cache rows).
"""
import importlib.util
import os
import sys

import numpy as np


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def checkpoint_digest(folder):
    shards = sorted(f for f in os.listdir(folder) if f.startswith('model-'))
    data = b''.join(open(os.path.join(folder, f), 'rb').read() for f in shards)
    return np.array([fnv1a(data)], np.uint64).view(np.int64)


def expected(reference, folder, level, tokens):
    model = reference.load_checkpoint(folder, reference.Opts(level, np.float64))
    ids = [int(x) for x in np.random.default_rng(7).integers(0, model.c.vocab, tokens)]
    record = {}
    logits, _ = model.forward_full(ids, rec=record)
    out = {'checkpoint': ('I64', checkpoint_digest(folder)),
           'prompt': ('I32', np.array(ids, np.int32)),
           'full.logits': ('F32', logits.astype(np.float32)),
           'greedy': ('I32', np.array(reference.generate_plain(model, ids, 16), np.int32))}
    if level == 'L0':
        for name, value in record.items():
            if name == 'engram_ids':
                out['full.' + name] = ('I64', value.astype(np.int64))
            elif value.dtype == np.int32:
                out['full.' + name] = ('I32', value)
            else:
                out['full.' + name] = ('F32', value.astype(np.float32))
    for layer in model.c.kv_src if level == 'L1' else ():
        rows = {'ckv': 'fp4c', 'ikey': 'fp4k'}
        for name, kind in rows.items():
            packed = reference.pack_row(record[f'layer{layer}.{name}'], kind)
            out[f'packed.layer{layer}.{name}'] = ('U8', packed)
    return out


def main():
    spec = importlib.util.spec_from_file_location('reference', sys.argv[1])
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    folder, out_dir = sys.argv[2], sys.argv[3]
    tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 48
    for level in ('L0', 'L1'):
        name = f'{os.path.basename(os.path.normpath(folder))}_{level}.safetensors'
        reference.save_safetensors(os.path.join(out_dir, name),
                                   expected(reference, folder, level, tokens))
        print(name)


if __name__ == '__main__':
    main()
