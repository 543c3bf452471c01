"""Real clusters for tests: starts nodes, talks HTTP over raw sockets, reads the console.

Every cluster has a runtime directory of its own in a temporary folder, so that clusters of several
tests never meet, and ends only the processes that it started. A wait is for an event, with a
deadline; the deadline only says how long a broken run takes.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]) \
    else os.environ.get('DEEPINFER', 'deepinfer')
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
MODEL = os.path.join(SOURCE, 'examples', 'models', 'tiny-v41')

CLONE_NEWNET = 0x40000000
PATIENCE = 30       # for something that must happen, on a machine that others use too
SEEN_WITHIN = 6     # the promise is 3 s; the rest is for a loaded two-core machine


def samples():
    """What the model must answer, by name: {'messages', 'content', 'reasoning', 'tokens'}."""
    out = {}
    with open(os.path.join(MODEL, 'samples.jsonl'), encoding='utf-8') as lines:
        for sample in map(json.loads, lines):
            prompt = sample['prompt']
            if '## Tools' in prompt:
                continue  # tool calls are the codec's own tests
            effort = re.search(r'Reasoning Effort: (\d+)', prompt)
            messages = []
            for user, answer in re.findall(
                    r'<｜User｜>(.*?)<｜Assistant｜>(?:</think>|<think>)(.*?)(?=<｜end▁of▁sentence｜>|$)',
                    prompt, re.S):
                messages += [{'role': 'user', 'content': user},
                             {'role': 'assistant', 'content': answer}]
            output = sample['output'].removesuffix('<｜end▁of▁sentence｜>')
            reasoning, _, content = output.rpartition('</think>')
            out[sample['name']] = {
                'messages': messages[:-1], 'content': content, 'reasoning': reasoning,
                'effort': int(effort[1]) if effort else None,
                'prompt_tokens': len(sample['prompt_ids']),
                'tokens': len(sample['output_ids'])}
    return out


def wait_until(what, probe, within=PATIENCE, every=0.05):
    """Calls `probe` until it returns something true, and returns (that, seconds it took)."""
    begun = time.monotonic()
    while True:
        got = probe()
        took = time.monotonic() - begun
        if got:
            return got, took
        if took > within:
            raise AssertionError(f'{what}: not within {within} s')
        time.sleep(every)


def chat_body(prompt='Hello!', **fields):
    """A chat request, greedy and without thinking unless `fields` says otherwise."""
    body = {'model': 'default', 'temperature': 0, 'thinking': {'type': 'disabled'},
            'messages': [{'role': 'user', 'content': prompt}] if isinstance(prompt, str)
            else prompt}
    body.update(fields)
    return body


class Address(str):
    """host:port, as it is reached from inside a network namespace (or none)."""
    namespace = None

    @classmethod
    def inside(cls, text, namespace):
        made = cls(text)
        made.namespace = namespace
        return made


@contextlib.contextmanager
def network_of(namespace):
    """This thread makes its sockets inside the namespace meanwhile."""
    if namespace is None:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/thread-self/ns/net', 'rb') as home, \
            open(f'/var/run/netns/{namespace}', 'rb') as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f'cannot enter the namespace {namespace}')
        try:
            yield
        finally:
            if libc.setns(home.fileno(), CLONE_NEWNET) != 0:
                os.abort()  # every later socket would be in the wrong network


class Broken(Exception):
    """The peer ended a connection in the middle of an answer."""


class Connection:
    """One HTTP/1.1 connection, by hand, so that a test sees exactly what comes over the wire."""

    def __init__(self, address, timeout=PATIENCE):
        host, port = address.rsplit(':', 1)
        with network_of(getattr(address, 'namespace', None)):
            self.socket = socket.create_connection((host.strip('[]'), int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, method, path, body=None, headers=()):
        data = b''
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f'{method} {path} HTTP/1.1', 'Host: test', *headers]
        if body is not None:
            head += ['Content-Type: application/json', f'Content-Length: {len(data)}']
        self.socket.sendall('\r\n'.join(head + ['', '']).encode() + data)

    def _more(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise Broken('end of the connection')
        self.buffer += piece

    def _until(self, mark):
        while mark not in self.buffer:
            self._more()
        taken, self.buffer = self.buffer.split(mark, 1)
        return taken

    def _exactly(self, count):
        while len(self.buffer) < count:
            self._more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def head(self):
        """(status, {header: value}) of the next answer."""
        lines = self._until(b'\r\n\r\n').decode().split('\r\n')
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(':')
            headers[name.strip().lower()] = value.strip()
        return int(lines[0].split()[1]), headers

    def chunks(self):
        """The chunks of a chunked body, up to its proper end."""
        while True:
            size = int(self._until(b'\r\n').split(b';')[0], 16)
            data = self._exactly(size)
            self._exactly(2)
            if size == 0:
                return
            yield data

    def call(self, method, path, body=None, headers=()):
        """(status, headers, body) of one exchange."""
        self.send(method, path, body, headers)
        status, answered = self.head()
        if method == 'HEAD' or status in (204, 304):
            return status, answered, b''
        if answered.get('transfer-encoding') == 'chunked':
            return status, answered, b''.join(self.chunks())
        return status, answered, self._exactly(int(answered.get('content-length', 0)))

    def events(self):
        """The data of each server-sent event of the next answer; '[DONE]' included."""
        rest = b''
        for chunk in self.chunks():
            rest += chunk
            while b'\n\n' in rest:
                event, rest = rest.split(b'\n\n', 1)
                for line in event.split(b'\n'):
                    if line.startswith(b'data: '):
                        yield line[6:].decode()
        if rest.strip():
            raise Broken(f'half an event at the end: {rest[:80]!r}')


def call(address, method, path, body=None, headers=(), timeout=PATIENCE):
    with Connection(address, timeout) as connection:
        status, answered, data = connection.call(method, path, body, headers)
    return status, answered, data


class Stream:
    """A streamed chat answer while it comes."""

    def __init__(self, address, body, timeout=PATIENCE, on_event=None):
        self.content = self.reasoning = ''
        self.finish = self.usage = self.error = None
        self.events = 0
        self.done = self.ended = False
        self.longest_pause = 0.0
        self.on_event = on_event
        self.connection = Connection(address, timeout)
        self.connection.send('POST', '/v1/chat/completions', dict(
            body, stream=True, stream_options={'include_usage': True}))
        self.status, self.headers = self.connection.head()
        self._source = None
        if self.status == 200:
            self._source = self.connection.events()
        else:
            self.error = json.loads(
                self.connection._exactly(int(self.headers['content-length'])))['error']
            self.ended = True

    def next(self):
        """Reads one event; False at the end."""
        if self.ended:
            return False
        begun = time.monotonic()
        data = next(self._source, None)
        self.longest_pause = max(self.longest_pause, time.monotonic() - begun)
        if data is None:
            self.ended = True
            return False
        self.events += 1
        if data == '[DONE]':
            self.done = True
            return True
        event = json.loads(data)
        if 'error' in event:
            self.error = event['error']
            return True
        self.usage = event.get('usage') or self.usage
        for choice in event['choices']:
            delta = choice['delta']
            self.content += delta.get('content') or ''
            self.reasoning += delta.get('reasoning_content') or ''
            self.finish = choice['finish_reason'] or self.finish
        return True

    def read_events(self, count):
        while self.events < count and self.next():
            pass
        return self

    def read_all(self):
        while self.next():
            pass
        self.connection.close()
        return self

    def is_complete(self):
        return self.ended and self.done and self.error is None and self.finish is not None

    def is_clean_error(self):
        """An error that the client can read: never a silent cut."""
        return self.ended and self.error is not None and \
            {'message', 'type', 'param', 'code'} <= set(self.error)

    def close(self):
        self.connection.close()


def ask(address, body, timeout=60):
    """A whole answer, not streamed: (status, parsed body)."""
    status, _, data = call(address, 'POST', '/v1/chat/completions', body, timeout=timeout)
    return status, json.loads(data)


class Node:
    """One `deepinfer node` process."""

    def __init__(self, cluster, arguments, namespace=None, environment=None):
        self.cluster = cluster
        self.namespace = namespace
        prefix = ('ip', 'netns', 'exec', namespace) if namespace else ()
        self.log_path = os.path.join(cluster.folder, f'node{len(cluster.nodes)}.log')
        self.started = {}
        with open(self.log_path, 'wb') as log:
            self.process = subprocess.Popen(
                [*prefix, BINARY, 'node', *arguments], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=dict(cluster.environment, **(environment or {})))

    def log(self):
        with open(self.log_path, encoding='utf-8', errors='replace') as log:
            return log.read()

    def wait_started(self):
        """Until the node says that it runs; its addresses are known from then on."""
        def probe():
            found = re.search(r'node\.started (.*)', self.log())
            if not found and self.process.poll() is not None:
                raise AssertionError(f'the node ended: {self.log()}')
            return found
        found, _ = wait_until('node.started', probe)
        self.started = dict(re.findall(r'(\w+)=(\S+)', found[1]))
        return self

    @property
    def id(self):
        return self.started['node']

    @property
    def fabric(self):
        return self.started['fabric']

    @property
    def http(self):
        return Address.inside(self.started['http'], self.namespace)

    @property
    def console(self):
        return Address.inside(self.started['console'], self.namespace)

    def is_ready(self):
        try:
            return call(self.http, 'GET', '/ready', timeout=5)[0] == 200
        except OSError:
            return False

    def wait_ready(self, within=PATIENCE):
        return wait_until(f'{self.http} ready', self.is_ready, within)[1]

    def topology(self):
        """The console's answer over HTTP; what `console topology --json` prints."""
        status, _, data = call(self.console, 'GET', '/api/topology')
        if status != 200:
            raise AssertionError(f'console: {status} {data[:200]}')
        return json.loads(data)

    def states(self):
        """{node id: state} as this node sees it."""
        return {node['id']: node['state'] for node in self.topology()['nodes']}

    def sees(self, *nodes):
        """Whether exactly `nodes` and this one live, as this node sees it."""
        alive = {node for node, state in self.states().items() if state == 'alive'}
        return alive == {node.id for node in (self, *nodes)}

    def state_of(self, node):
        return self.states().get(node.id)

    def counter(self, kind, name, node=None):
        """Sum over the actors of a kind, of one node or of all."""
        return sum(actor['counters'].get(name, 0) for actor in self.topology()['actors']
                   if actor['kind'] == kind and node in (None, actor['node']))

    def epoch_of(self, node):
        return next(n['epoch'] for n in self.topology()['nodes'] if n['id'] == node.id)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def terminate(self, within=20):
        """Ends the node as an operator does and returns its exit code."""
        self.process.terminate()
        return self.process.wait(within)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(10)


class Cluster:
    """Nodes with one runtime directory."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix='deepinfer-test-')
        self.folder = self._folder.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith('DEEPINFER_')}
        self.environment['DEEPINFER_RUNTIME_DIR'] = os.path.join(self.folder, 'run')
        self.environment['XDG_CACHE_HOME'] = os.path.join(self.folder, 'cache')
        # A node dials the address of a lost one again; another test's node may have that port now.
        self.name = os.path.basename(self.folder)
        self.environment['DEEPINFER_NODE_CLUSTER'] = self.name
        self.nodes = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for node in self.nodes:
            node.end()
        if kind is not None:
            self.show_logs()
        self._folder.cleanup()

    def show_logs(self):
        for node in self.nodes:
            sys.stderr.write(f'--- {node.log_path} {node.process.args}\n{node.log()[-4000:]}\n')

    def launch(self, *arguments, **options):
        """Starts a node without waiting for it."""
        self.nodes.append(Node(self, arguments, **options))
        return self.nodes[-1]

    def start(self, *arguments, **options):
        return self.launch(*arguments, **options).wait_started()

    def start_roles(self, *roles, more=()):
        """One node for each text of roles, all at once; they know no more than that."""
        nodes = [self.launch('--roles', text, '--model', MODEL, *more) for text in roles]
        return [node.wait_started() for node in nodes]

    def command(self, *arguments, timeout=30, text=''):
        """`text` is its standard input."""
        return subprocess.run([BINARY, *arguments], capture_output=True, timeout=timeout,
                              check=False, env=self.environment, input=text.encode())


class ClusterTest(unittest.TestCase):
    """A test with one cluster of its own; shows the logs of its nodes when it fails."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.cluster = self.stack.enter_context(Cluster())
        problems = self._problems()
        self.addCleanup(lambda: self._problems() > problems and self.cluster.show_logs())

    def _problems(self):
        result = self._outcome.result
        return len(result.failures) + len(result.errors)

    def assert_complete(self, stream, reference):
        """A whole answer, equal to an undisturbed one in text and count of tokens."""
        self.assertTrue(stream.is_complete(), f'{stream.error} done={stream.done}')
        self.assertEqual(stream.content, reference.content)
        self.assertEqual(stream.finish, reference.finish)
        self.assertEqual(stream.usage['completion_tokens'], reference.usage['completion_tokens'])

    def report(self, what, seconds):
        print(f'{what}: {seconds:.2f} s', file=sys.stderr)


def main():
    unittest.main(verbosity=2)
