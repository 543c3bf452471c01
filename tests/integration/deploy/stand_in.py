#!/usr/bin/env python3
"""Stands in for the program in the tests of deploy/up: the parts of its command line that the
script uses, without a model. STAND_IN chooses what goes wrong."""

import http.server
import json
import os
import signal
import sys
import threading
import time
import urllib.request

WRONG = os.environ.get('STAND_IN', '')


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Gateway(http.server.BaseHTTPRequestHandler):
    ready_at = 0.0

    def do_GET(self):
        ready = time.monotonic() >= self.ready_at
        body = json.dumps({'ready': ready, 'reason': '' if ready else 'loading weights'}).encode()
        self.send_response(200 if ready else 503)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def node():
    print('roles', option('--roles'), 'cluster', option('--cluster'), flush=True)
    stop = threading.Event()
    if WRONG != 'deaf':
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if WRONG == 'dies' and 'decode' in option('--roles'):
        print('cannot load the weights: no such file', flush=True)
        return 1
    if option('--roles') == 'all' or 'gateway' in option('--roles'):
        Gateway.ready_at = time.monotonic() + 0.5
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Gateway)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        print(f'2026-01-01T00:00:00.000Z info node.started http=127.0.0.1:{port} console=127.0.0.1:{port}',
              flush=True)
    stop.wait()
    print('left', flush=True)
    return 0


def chat():
    with urllib.request.urlopen(option('--url') + '/ready', timeout=5) as answer:
        print('answer to', sys.argv[2], answer.status)
    return 1 if WRONG == 'chat' else 0


if __name__ == '__main__':
    sys.exit({'node': node, 'chat': chat}[sys.argv[1]]())
