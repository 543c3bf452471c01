"""A server that stands for a node: canned topology, or chat answers that go wrong in chosen ways."""

import contextlib
import http.server
import json
import os
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
TOPOLOGY = os.path.join(HERE, '..', '..', 'golden', 'console', 'topology.json')

# What comes from other nodes and from models is not trusted.
HOSTILE = '<img src=x onerror=alert(1)>\x1b[2J\x1b]0;owned\x07'

MESSAGES_WHOLE = {
    'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'm', 'stop_reason': 'end_turn',
    'stop_sequence': None, 'usage': {'input_tokens': 1, 'output_tokens': 2},
    'content': [{'type': 'thinking', 'thinking': 'hm', 'signature': 's'},
                {'type': 'text', 'text': 'Hello, wörld'}]}
MESSAGES_EVENTS = [
    {'type': 'message_start', 'message': dict(MESSAGES_WHOLE, content=[], stop_reason=None)},
    {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'thinking',
                                                                  'thinking': ''}},
    {'type': 'ping'},
    {'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'thinking_delta',
                                                          'thinking': 'hm'}},
    {'type': 'content_block_stop', 'index': 0},
    {'type': 'content_block_start', 'index': 1, 'content_block': {'type': 'text', 'text': ''}},
    {'type': 'content_block_delta', 'index': 1, 'delta': {'type': 'text_delta', 'text': 'Hello, '}},
    {'type': 'content_block_delta', 'index': 1, 'delta': {'type': 'text_delta', 'text': 'wörld'}},
    {'type': 'content_block_stop', 'index': 1},
    {'type': 'message_delta', 'delta': {'stop_reason': 'end_turn', 'stop_sequence': None},
     'usage': {'output_tokens': 2}},
    {'type': 'message_stop'}]
RESPONSES_WHOLE = {
    'id': 'resp_1', 'object': 'response', 'status': 'completed', 'error': None,
    'incomplete_details': None, 'output': [
        {'type': 'reasoning', 'id': 'rs_1', 'summary': [],
         'content': [{'type': 'reasoning_text', 'text': 'hm'}]},
        {'type': 'message', 'id': 'msg_1', 'role': 'assistant',
         'content': [{'type': 'output_text', 'text': 'Hello, wörld', 'annotations': []}]}]}
RESPONSES_EVENTS = [
    {'type': 'response.created', 'response': dict(RESPONSES_WHOLE, status='in_progress',
                                                  output=[])},
    {'type': 'response.output_item.added', 'output_index': 0, 'item': {'type': 'reasoning'}},
    {'type': 'response.reasoning_text.delta', 'output_index': 0, 'delta': 'hm'},
    {'type': 'response.output_text.delta', 'output_index': 1, 'delta': 'Hello, '},
    {'type': 'response.output_text.delta', 'output_index': 1, 'delta': 'wörld'},
    {'type': 'response.output_text.done', 'output_index': 1, 'text': 'Hello, wörld'},
    {'type': 'response.completed', 'response': RESPONSES_WHOLE}]


class Node(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.polls = 0           # of the topology
        self.page = b''
        self.chat = 'good'       # how the next answer ends
        self.bodies = []         # of chat requests
        self.paths = []
        self.hold = threading.Event()  # ends answers that wait
        self.client_left = threading.Event()

    def handle_error(self, *_):
        """A client that goes away is part of the tests."""

    @property
    def address(self):
        return f'127.0.0.1:{self.server_address[1]}'

    def topology(self):
        """Each poll finds more messages than the one before."""
        self.polls += 1
        with open(TOPOLOGY, encoding='utf-8') as file:
            topology = json.load(file)
        topology['edges'][1]['messages'] += 40 * self.polls
        topology['actors'][0]['state'] = f'poll {self.polls} {HOSTILE}'
        return topology


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def answer(self, status, kind, body, headers=()):
        self.send_response(status)
        self.send_header('content-type', kind)
        self.send_header('content-length', str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.paths.append(self.path)
        if self.path == '/api/topology':
            self.answer(200, 'application/json', json.dumps(self.server.topology()).encode())
        elif self.path == '/api/events':
            lines = ['node.started address=127.0.0.1:7400', f'WARN {HOSTILE}']
            self.answer(200, 'application/json', json.dumps({'node': '0c1d', 'lines': lines}).encode())
        elif self.path == '/metrics':
            self.answer(200, 'text/plain', b'# TYPE up gauge\nup{role="gateway"} 1\n')
        elif self.path == '/':
            # the policy of actors/console/console_http.cpp
            policy = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                      "connect-src 'self'; img-src data:; frame-ancestors 'none'")
            self.answer(200, 'text/html; charset=utf-8', self.server.page,
                        [('content-security-policy', policy)])
        else:
            self.answer(404, 'application/json', b'{"error":{"message":"No such route."}}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        self.server.paths.append(self.path)
        self.server.bodies.append(json.loads(body))
        how = self.server.chat
        if how == 'refused':
            self.answer(400, 'application/json', json.dumps(
                {'error': {'message': f'Field model is wrong {HOSTILE}'}}).encode())
        elif how == 'no json':
            self.answer(502, 'text/html', b'<html>proxy</html>')
        elif how == 'other':
            self.answer(200, 'text/html', b'<html>hello</html>')
        elif not self.path.endswith('/chat/completions'):
            self.recorded()
        elif self.server.bodies[-1]['stream']:
            self.stream(how)
        else:
            self.answer(200, 'application/json', json.dumps({'choices': [{
                'message': {'role': 'assistant', 'content': 'Hello, wörld', 'reasoning_content': 'hm'},
                'finish_reason': 'stop'}]}).encode())

    def recorded(self):
        """The same answer in the words of Responses or Messages, as a public server sends it."""
        is_messages = self.path.endswith('/messages')
        if self.server.bodies[-1]['stream']:
            events = MESSAGES_EVENTS if is_messages else RESPONSES_EVENTS
            if self.server.chat == 'cut':
                events = events[:-1]
            if self.server.chat == 'error event':
                error = {'type': 'overloaded_error', 'message': 'the engine was lost'}
                events = events[:2] + [{'type': 'error', 'error': error} if is_messages else
                                       {'type': 'response.failed', 'response': {'error': error}}]
            body = ''.join(f'event: {e["type"]}\ndata: {json.dumps(e)}\n\n' for e in events)
            return self.answer(200, 'text/event-stream', body.encode())
        whole = MESSAGES_WHOLE if is_messages else RESPONSES_WHOLE
        return self.answer(200, 'application/json', json.dumps(whole).encode())

    def chunk(self, data):
        self.wfile.write(f'{len(data):x}\r\n'.encode() + data + b'\r\n')
        self.wfile.flush()

    def event(self, delta, finish=None):
        value = {'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]}
        self.chunk(f'data: {json.dumps(value)}\n\n'.encode())

    def stream(self, how):
        self.send_response(200)
        self.send_header('content-type', 'text/event-stream')
        self.send_header('transfer-encoding', 'chunked')
        self.end_headers()
        self.event({'role': 'assistant', 'content': None, 'reasoning_content': ''})
        self.event({'content': None, 'reasoning_content': 'hm'})
        for word in ('Hello, ', 'wörld'):
            self.event({'content': word, 'reasoning_content': None})
        if how == 'cut':  # the connection ends inside the body
            self.close_connection = True
            return
        if how in ('waits', 'endless'):
            self.wait(how == 'endless')
            return
        if how == 'hostile':
            self.event({'content': HOSTILE})
        if how == 'error event':
            self.chunk(b'data: {"error":{"message":"the engine was lost","type":"server_error"}}\n\n')
        elif how != 'no finish':
            self.event({'content': ''}, 'length' if how == 'length' else 'stop')
        if how not in ('error event', 'no done'):
            self.chunk(b'data: [DONE]\n\n')
        self.wfile.write(b'0\r\n\r\n')

    def wait(self, with_words):
        """Comments, or words, until the client has gone."""
        with contextlib.suppress(OSError):
            while not self.server.hold.wait(0.05):
                self.chunk(b': ping\n\n')
                if with_words:
                    self.event({'content': 'and\n'})
        self.server.client_left.set()
        self.close_connection = True


@contextlib.contextmanager
def running():
    node = Node()
    thread = threading.Thread(target=node.serve_forever, kwargs={'poll_interval': 0.02})
    thread.start()
    try:
        yield node
    finally:
        node.hold.set()
        node.shutdown()
        thread.join()
        node.server_close()
