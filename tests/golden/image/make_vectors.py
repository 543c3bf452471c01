#!/usr/bin/env python3
"""Small image files, the pixels that Pillow reads from them, and what it makes when scaling.

  make_vectors.py [OUT.safetensors]

Needs NumPy and Pillow. `file.X` are the bytes of a file, `pixels.X` its `convert("RGB")`; for
gray16 and rgb16 the high bytes. `resize` rows: seed, width, height, new width, new height, mode
(0 resize, 1 ImageOps.pad on gray 127, 2 the tower's patches with 4 pixels a side); `resize.digest`:
FNV-1a of the result. `fit` rows: rule (0 release, 1 small), width, height, target width, target
height, tokens, by a transcription of the model specification. Pictures to scale are drawn by the
generator of tests/support/rng.hpp.
"""
import io
import json
import math
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

MASK = (1 << 64) - 1


class Rng:
    """splitmix64, as tests/support/rng.hpp."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)


def noise(seed, width, height):
    rng = Rng(seed)
    values = [rng.next() % 256 for _ in range(width * height * 3)]
    return np.array(values, np.uint8).reshape(height, width, 3)


def smooth(width, height, channels):
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 100 * np.sin(x / (3.0 + c) + c) * np.cos(y / 4.0 - c) for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def png(rows, colour, bits, interlaced=False):
    """Pillow writes neither 16-bit colour nor Adam7. `rows`: [height][width][bytes of a pixel]."""
    height, width = rows.shape[:2]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    raw = b''
    for left, top, right, down in passes:
        part = rows[top::down, left::right]
        if part.size:
            raw += b''.join(b'\0' + line.tobytes() for line in part)
    header = struct.pack('>IIBBBBB', width, height, bits, colour, 0, 0, int(interlaced))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(raw, 9)) +
            chunk(b'IEND', b''))


def saved(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def pixels(data):
    return np.array(Image.open(io.BytesIO(data)).convert('RGB'))


def files():
    rgb = Image.fromarray(smooth(13, 9, 3))
    rgba = Image.fromarray(smooth(13, 9, 4))
    photo = Image.fromarray(smooth(21, 18, 3))
    few = rgb.quantize(7)
    out = {
        'png.rgb': saved(rgb, 'PNG'), 'png.rgba': saved(rgba, 'PNG'),
        'png.gray': saved(rgb.convert('L'), 'PNG'), 'png.gray_alpha': saved(rgba.convert('LA'), 'PNG'),
        'png.bilevel': saved(rgb.convert('1'), 'PNG'), 'png.palette': saved(few, 'PNG', bits=4),
        'png.palette_alpha': saved(few, 'PNG', transparency=bytes([0, 128, 255])),
        'png.interlaced': png(smooth(13, 9, 3), 2, 8, True),
        'jpeg.rgb': saved(photo, 'JPEG', quality=80), 'jpeg.full': saved(photo, 'JPEG', subsampling=0),
        'jpeg.gray': saved(photo.convert('L'), 'JPEG'),
        'jpeg.progressive': saved(photo, 'JPEG', progressive=True),
        'jpeg.inks': saved(photo.convert('CMYK'), 'JPEG'),
        'webp.lossy': saved(photo, 'WEBP', quality=60), 'webp.lossless': saved(rgb, 'WEBP', lossless=True),
        'webp.alpha': saved(rgba, 'WEBP', lossless=True, exact=True),
        'webp.animated': saved(rgb, 'WEBP', save_all=True, append_images=[rgb.rotate(180)], lossless=True),
        'gif.still': saved(few, 'GIF', interlace=0), 'gif.interlaced': saved(few, 'GIF', interlace=1),
        'gif.animated': saved(few, 'GIF', save_all=True, append_images=[few.rotate(180)]),
    }
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn it by a quarter": not followed
    out['jpeg.turned'] = saved(photo, 'JPEG', exif=exif)
    # a frame of 13 x 9 at (2, 1) of a screen of 17 x 12, with a transparent colour outside of it
    framed = bytearray(saved(few, 'GIF', interlace=0, transparency=3))
    framed[6:10] = struct.pack('<HH', 17, 12)
    at = framed.index(b'\x2c\0\0\0\0' + struct.pack('<HH', 13, 9))
    framed[at + 1:at + 5] = struct.pack('<HH', 2, 1)
    out['gif.framed'] = bytes(framed)
    wanted = {name: pixels(data) for name, data in out.items()}
    deep = noise(9, 2 * 13, 9).reshape(9, 13, 6)
    out['png.rgb16'], wanted['png.rgb16'] = png(deep, 2, 16), deep[:, :, 0::2]
    out['png.gray16'] = png(deep[:, :, :2], 0, 16)
    wanted['png.gray16'] = np.repeat(deep[:, :, :1], 3, 2)
    return out, wanted


def fit(rule, w, h):
    patch, merge, most, least = ((14, 3, 1024, 295936), (4, 3, 64, 256))[rule]
    cell = patch * merge

    def cost(width, height):
        return math.ceil(height // patch / merge) * (math.ceil(width // patch / merge) + 1) + 2
    for _ in range(10):
        before = w, h
        if w * h < least:
            scale = math.sqrt(least / (w * h))
            w, h = int(w * scale), int(h * scale)
        width, height = math.ceil(w / patch) * patch, math.ceil(h / patch) * patch
        if cost(width, height) > most:
            shape = h / w
            mw = math.sqrt((most - 2) / shape + 0.25) - 0.5
            mh = mw * shape
            if mw < 1:
                width, height = cell, (most - 2) // 2 * cell
            elif mh < 1:
                width, height = (most - 3) * cell, cell
            else:
                beta = min(math.floor(mw) * cell / w, math.floor(mh) * cell / h)
                width, height = math.floor(w * beta / patch) * patch, math.floor(h * beta / patch) * patch
        w, h = width, height
        if (w, h) == before:
            break
    return w, h, cost(w, h)


def fits():
    sizes = [(544, 544), (543, 545), (640, 480), (1024, 1024), (1920, 1080), (4000, 3000), (100, 2000),
             (3, 5000), (5000, 3), (1, 1), (8192, 8192), (8192, 1), (1, 8192), (371, 1), (2, 2907),
             (16, 16), (65535, 65535), (65535, 1)]
    rng = Rng(3)
    sizes += [tuple(1 + rng.next() % (1 << (1 + rng.next() % 13)) for _ in range(2)) for _ in range(60)]
    return [(rule, w, h, *fit(rule, w, h)) for rule in (0, 1) for w, h in sizes]


def bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def scaled(seed, w, h, width, height, mode):
    picture = Image.fromarray(noise(seed, w, h))
    bicubic = Image.Resampling.BICUBIC
    if mode == 0:
        return np.array(picture.resize((width, height), bicubic))
    padded = np.array(ImageOps.pad(picture, (width, height), bicubic, (127, 127, 127)))
    if mode == 1:
        return padded
    cells = padded.reshape(height // 4, 4, width // 4, 4, 3).transpose(0, 2, 4, 1, 3)
    return bf16((cells / 255.0 - 0.5) / 0.5)


def resizes():
    # Pillow 13 runs the vertical pass first when the height shrinks much more than the width; those
    # cases, which padding never asks for, are left out.
    cases = [(1, 5, 4, 9, 7, 0), (2, 31, 17, 10, 6, 0), (3, 31, 17, 31, 40, 0), (4, 17, 31, 40, 31, 0),
             (5, 12, 12, 12, 12, 0), (6, 1, 1, 8, 8, 0), (7, 64, 48, 3, 5, 0), (8, 90, 60, 200, 133, 0),
             (9, 30, 20, 42, 56, 1), (10, 20, 30, 56, 42, 1), (11, 50, 50, 28, 28, 1), (12, 1, 90, 42, 84, 1),
             (13, 90, 1, 84, 42, 1), (14, 37, 23, 44, 28, 1), (15, 200, 1, 28, 14, 1), (16, 30, 20, 24, 16, 2),
             (17, 7, 9, 16, 20, 2), (18, 150, 97, 112, 70, 1), (19, 41, 27, 45, 28, 1), (20, 60, 40, 61, 56, 1)]
    return cases, [scaled(*case) for case in cases]


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), 'vectors.safetensors')
    encoded, wanted = files()
    tensors = {'file.' + name: np.frombuffer(data, np.uint8) for name, data in encoded.items()}
    tensors.update({'pixels.' + name: values for name, values in wanted.items()})
    cases, results = resizes()
    tensors['resize'] = np.array(cases, np.int32)
    tensors['resize.digest'] = np.array([fnv1a(r.tobytes()) for r in results], np.uint64).view(np.int64)
    tensors['resize.first'] = results[0]
    tensors['fit'] = np.array(fits(), np.int32)
    names = {'uint8': 'U8', 'int32': 'I32', 'int64': 'I64'}
    header, data = {}, b''
    for name, values in sorted(tensors.items()):
        header[name] = {'dtype': names[values.dtype.name], 'shape': list(values.shape),
                        'data_offsets': [len(data), len(data) + values.nbytes]}
        data += np.ascontiguousarray(values).tobytes()
    text = json.dumps(header).encode()
    with open(out, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)
    print(out, len(data), 'bytes of data')


if __name__ == '__main__':
    main()
