#!/usr/bin/env python3
"""The official Anthropic library against a running node. anthropic_test.py BINARY"""

import client_cluster
from client_cluster import ASK_WEATHER, STORY, TOOLS, left_over

client_cluster.require('anthropic')

import anthropic  # noqa: E402  (only now is it known to be there)

import cluster  # noqa: E402
from cluster import MODEL, wait_until  # noqa: E402

HELLO = [{'role': 'user', 'content': 'Hello!'}]
GREETING = 'Hello! How can I help you?'
# The library no longer names `temperature`; the protocol still has it.
PLAIN = {'model': 'default', 'max_tokens': 200, 'extra_body': {'temperature': 0},
         'thinking': {'type': 'disabled'}}
MESSAGES_TOOLS = [{'name': one['name'], 'description': one['description'],
                   'input_schema': one['parameters']} for one in TOOLS]
ENDLESS = dict(PLAIN, max_tokens=6000, messages=[{'role': 'user', 'content': STORY}],
               extra_body={'ignore_eos': True})


class Messages(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.node = self.cluster.start('--model', MODEL, '--set',
                                       'recipe.thinking_forces_temperature=false')
        self.node.wait_ready()
        self.client = anthropic.Anthropic(base_url=f'http://{self.node.http}', api_key='none',
                                          max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def assert_all_freed(self):
        wait_until('all memory back', lambda: not left_over(self.node))

    def test_a_plain_answer(self):
        answer = self.client.messages.create(messages=HELLO, **PLAIN)
        self.assertEqual([block.type for block in answer.content], ['text'])
        self.assertEqual(answer.content[0].text, GREETING)
        self.assertEqual(answer.stop_reason, 'end_turn')
        self.assertEqual((answer.usage.input_tokens, answer.usage.output_tokens), (6, 8))
        self.assertTrue(answer._request_id)

    def test_a_stream_collects_to_the_same(self):
        with self.client.messages.stream(messages=HELLO, **PLAIN) as stream:
            text = ''.join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, GREETING)
        self.assertEqual(final.content[0].text, GREETING)
        self.assertEqual(final.usage.output_tokens, 8)
        self.assertEqual(final.stop_reason, 'end_turn')

    def test_raw_events_come_in_order(self):
        kinds = [event.type for event in self.client.messages.create(messages=HELLO, stream=True,
                                                                     **PLAIN)]
        self.assertEqual(kinds[0], 'message_start')
        self.assertEqual(kinds[-2:], ['message_delta', 'message_stop'])
        self.assertLess(kinds.index('content_block_start'), kinds.index('content_block_delta'))

    def test_thinking_is_a_block_with_a_signature(self):
        ask = dict(PLAIN, thinking={'type': 'enabled', 'budget_tokens': 1024},
                   messages=[{'role': 'user', 'content': 'What can you do?'}])
        answer = self.client.messages.create(**ask)
        self.assertEqual([block.type for block in answer.content], ['thinking', 'text'])
        self.assertIn('The user asks', answer.content[0].thinking)
        self.assertTrue(answer.content[0].signature)
        with self.client.messages.stream(**ask) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.content[0].thinking, answer.content[0].thinking)
        self.assertEqual(final.content[1].text, answer.content[1].text)
        # What came back may be sent again.
        again = dict(ask, messages=ask['messages'] + [
            {'role': 'assistant', 'content': answer.content},
            {'role': 'user', 'content': 'Thank you!'}])
        self.assertGreater(self.client.messages.create(**again).usage.input_tokens,
                           answer.usage.input_tokens)

    def test_a_tool_is_called_and_its_result_goes_back(self):
        ask = dict(PLAIN, tools=MESSAGES_TOOLS, messages=[{'role': 'user', 'content': ASK_WEATHER}])
        first = self.client.messages.create(**ask)
        self.assertEqual(first.stop_reason, 'tool_use')
        call = first.content[-1]
        self.assertEqual((call.type, call.name), ('tool_use', 'get_weather'))
        self.assertIn('location', call.input)
        with self.client.messages.stream(**ask) as stream:
            parts = [event.partial_json for event in stream if event.type == 'input_json']
            final = stream.get_final_message()
        self.assertGreater(len(parts), 1)
        self.assertEqual(final.content[-1].input, call.input)
        ask['messages'] = ask['messages'] + [
            {'role': 'assistant', 'content': first.content},
            {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': call.id,
                                          'content': [{'type': 'text', 'text': '20 degrees'}]}]}]
        second = self.client.messages.create(**ask)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)

    def test_a_stop_sequence_is_named(self):
        answer = self.client.messages.create(messages=HELLO, stop_sequences=[' can I'], **PLAIN)
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ('stop_sequence', ' can I'))
        self.assertEqual(answer.content[0].text, 'Hello! How')

    def test_tokens_are_counted_without_an_answer(self):
        counted = self.client.messages.count_tokens(
            model='default', messages=HELLO, thinking={'type': 'disabled'})
        self.assertEqual(counted.input_tokens, 6)

    def test_what_is_wrong_arrives_as_the_right_exception(self):
        create = self.client.messages.create
        with self.assertRaises(anthropic.BadRequestError) as bad:
            create(messages=HELLO, **dict(PLAIN, extra_body={'temperature': 3}))
        self.assertEqual(bad.exception.body['error']['type'], 'invalid_request_error')
        self.assertIn('temperature', bad.exception.body['error']['message'])
        self.assertTrue(bad.exception.request_id)
        with self.assertRaises(anthropic.NotFoundError) as missing:
            create(messages=HELLO, **dict(PLAIN, model='other'))
        self.assertEqual(missing.exception.body['error']['type'], 'not_found_error')
        with self.assertRaises(anthropic.BadRequestError):
            create(messages=[], **PLAIN)

    def test_a_client_that_waits_too_long_gives_up_and_nothing_stays(self):
        with self.assertRaises(anthropic.APITimeoutError):
            self.client.with_options(timeout=0.2).messages.create(**ENDLESS)
        self.assert_all_freed()

    def test_a_stream_that_is_left_frees_everything(self):
        with self.client.messages.stream(**ENDLESS) as stream:
            for _, _ in zip(range(5), stream.text_stream):
                pass
        self.assert_all_freed()

    def test_models_can_be_listed(self):
        models = self.client.models.list().data
        self.assertEqual(len(models), 1)
        self.assertEqual(self.client.models.retrieve(models[0].id).id, models[0].id)


if __name__ == '__main__':
    cluster.main()
