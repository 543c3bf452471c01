#!/usr/bin/env python3
"""The official OpenAI library against a running node. openai_test.py BINARY"""

import json

import client_cluster
from client_cluster import ASK_WEATHER, STORY, TOOLS, left_over

client_cluster.require('openai')

import openai  # noqa: E402  (only now is it known to be there)

import cluster  # noqa: E402
from cluster import MODEL, wait_until  # noqa: E402

PLAIN = {'extra_body': {'thinking': {'type': 'disabled'}}, 'temperature': 0}
CHAT_TOOLS = [{'type': 'function', 'function': one} for one in TOOLS]
RESPONSES_TOOLS = [{'type': 'function', **one} for one in TOOLS]
HELLO = [{'role': 'user', 'content': 'Hello!'}]
GREETING = 'Hello! How can I help you?'


class WithNode(cluster.ClusterTest):
    settings = ('recipe.thinking_forces_temperature=false', 'recipe.report_reasoning_tokens=true')

    def setUp(self):
        super().setUp()
        more = [part for setting in self.settings for part in ('--set', setting)]
        self.node = self.cluster.start('--model', MODEL, *more)
        self.node.wait_ready()
        self.client = openai.OpenAI(base_url=f'http://{self.node.http}/v1', api_key='none',
                                    max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def assert_all_freed(self):
        wait_until('all memory back', lambda: not left_over(self.node))


class Chat(WithNode):
    def test_a_plain_answer(self):
        answer = self.client.chat.completions.create(model='default', messages=HELLO, **PLAIN)
        self.assertEqual(answer.choices[0].message.content, GREETING)
        self.assertEqual(answer.choices[0].finish_reason, 'stop')
        self.assertEqual(answer.usage.prompt_tokens, 6)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertTrue(answer._request_id)
        self.assertEqual(answer.model, self.client.models.list().data[0].id)

    def test_a_stream(self):
        stream = self.client.chat.completions.create(
            model='default', messages=HELLO, stream=True, stream_options={'include_usage': True},
            **PLAIN)
        chunks = list(stream)
        text = ''.join(c.choices[0].delta.content or '' for c in chunks if c.choices)
        self.assertEqual(text, GREETING)
        self.assertEqual(chunks[-1].usage.completion_tokens, 8)
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})

    def test_the_stream_helper_collects_what_create_answers(self):
        with self.client.chat.completions.stream(model='default', messages=HELLO,
                                                 **PLAIN) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn('content.delta', kinds)
        self.assertEqual(final.choices[0].message.content, GREETING)

    def test_thinking_comes_as_reasoning_content(self):
        answer = self.client.chat.completions.create(
            model='default', messages=[{'role': 'user', 'content': 'What can you do?'}],
            temperature=0)
        self.assertEqual(answer.choices[0].message.reasoning_content,
                         'The user asks about me. I will answer in a few words.')
        self.assertEqual(answer.choices[0].message.content,
                         'I am the tiny demo model of this project.')
        self.assertGreater(answer.usage.completion_tokens_details.reasoning_tokens, 5)

    def test_effort_none_means_no_thinking(self):
        answer = self.client.chat.completions.create(
            model='default', messages=HELLO, reasoning_effort='none', temperature=0)
        self.assertEqual(answer.choices[0].message.content, GREETING)

    def test_a_tool_is_called_and_its_result_goes_back(self):
        messages = [{'role': 'user', 'content': ASK_WEATHER}]
        first = self.client.chat.completions.create(model='default', messages=messages,
                                                    tools=CHAT_TOOLS, **PLAIN)
        self.assertEqual(first.choices[0].finish_reason, 'tool_calls')
        call = first.choices[0].message.tool_calls[0]
        self.assertEqual(call.function.name, 'get_weather')
        self.assertIn('location', json.loads(call.function.arguments))
        messages += [first.choices[0].message,
                     {'role': 'tool', 'tool_call_id': call.id, 'content': '{"celsius": 20}'}]
        second = self.client.chat.completions.create(
            model='default', messages=messages, tools=CHAT_TOOLS, max_tokens=40, **PLAIN)
        self.assertGreater(second.usage.prompt_tokens, first.usage.prompt_tokens)

    def test_streamed_calls_add_up_to_the_same(self):
        ask = dict(model='default', messages=[{'role': 'user', 'content': ASK_WEATHER}],
                   tools=CHAT_TOOLS, **PLAIN)
        whole = self.client.chat.completions.create(**ask).choices[0].message.tool_calls[0]
        with self.client.chat.completions.stream(**ask) as stream:
            final = stream.get_final_completion()
        joined = final.choices[0].message.tool_calls[0]
        self.assertEqual(joined.function.name, whole.function.name)
        self.assertEqual(joined.function.arguments, whole.function.arguments)

    def test_several_choices_and_their_probabilities(self):
        answer = self.client.chat.completions.create(
            model='default', messages=[{'role': 'user', 'content': STORY}], n=3, temperature=1.5,
            seed=7, max_tokens=12, logprobs=True, top_logprobs=2,
            extra_body={'thinking': {'type': 'disabled'}})
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        for choice in answer.choices:
            tokens = choice.logprobs.content
            self.assertEqual(''.join(t.token for t in tokens), choice.message.content)
            for token in tokens:
                self.assertLessEqual(token.logprob, 0)
                self.assertEqual(len(token.top_logprobs), 2)
        self.assertGreater(len({choice.message.content for choice in answer.choices}), 1)

    def test_what_is_wrong_arrives_as_the_right_exception(self):
        create = self.client.chat.completions.create
        with self.assertRaises(openai.BadRequestError) as bad:
            create(model='default', messages=HELLO, temperature=3)
        self.assertIn('temperature', str(bad.exception))
        self.assertEqual(bad.exception.type, 'invalid_request_error')
        self.assertTrue(bad.exception.request_id)
        with self.assertRaises(openai.NotFoundError) as missing:
            create(model='other', messages=HELLO)
        self.assertEqual(missing.exception.code, 'model_not_found')
        with self.assertRaises(openai.BadRequestError) as schema:
            create(model='default', messages=HELLO, response_format={
                'type': 'json_schema', 'json_schema': {'name': 'a', 'schema': {'type': 'object'}}})
        self.assertIn('json_schema', str(schema.exception))
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve('other')
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model='default', input='x')

    def test_a_client_that_waits_too_long_gives_up_and_nothing_stays(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.2).chat.completions.create(
                model='default', messages=[{'role': 'user', 'content': STORY}], max_tokens=6000,
                extra_body={'thinking': {'type': 'disabled'}, 'ignore_eos': True})
        self.assert_all_freed()

    def test_a_stream_that_is_left_frees_everything(self):
        stream = self.client.chat.completions.create(
            model='default', messages=[{'role': 'user', 'content': STORY}], stream=True,
            max_tokens=6000, extra_body={'thinking': {'type': 'disabled'}, 'ignore_eos': True})
        for _, _ in zip(range(5), stream):
            pass
        stream.close()
        self.assert_all_freed()

    def test_models_can_be_looked_at(self):
        name = self.client.models.list().data[0].id
        self.assertEqual(self.client.models.retrieve(name).id, name)

    def test_plain_completions(self):
        answer = self.client.completions.create(model='default', prompt='Once upon a time',
                                                max_tokens=5, temperature=0, echo=True)
        self.assertTrue(answer.choices[0].text.startswith('Once upon a time'))
        stream = self.client.completions.create(model='default', prompt='Once upon a time',
                                                max_tokens=5, temperature=0, stream=True)
        text = ''.join(chunk.choices[0].text for chunk in stream)
        self.assertEqual('Once upon a time' + text, answer.choices[0].text)
        scored = self.client.completions.create(model='default', prompt='Once upon a time',
                                                max_tokens=3, temperature=0, logprobs=2)
        self.assertEqual(len(scored.choices[0].logprobs.token_logprobs), 3)


class Responses(WithNode):
    NO_THINKING = {'reasoning': {'effort': 'none'}, 'temperature': 0}

    def test_a_plain_answer(self):
        answer = self.client.responses.create(model='default', input='Hello!', **self.NO_THINKING)
        self.assertEqual(answer.output_text, GREETING)
        self.assertEqual(answer.status, 'completed')
        self.assertEqual(answer.usage.input_tokens, 6)

    def test_a_stream_is_typed_events_in_order(self):
        events = list(self.client.responses.create(model='default', input='Hello!', stream=True,
                                                   **self.NO_THINKING))
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        self.assertEqual(events[0].type, 'response.created')
        self.assertEqual(events[-1].type, 'response.completed')
        text = ''.join(e.delta for e in events if e.type == 'response.output_text.delta')
        self.assertEqual(text, GREETING)
        self.assertEqual(events[-1].response.output_text, GREETING)

    def test_the_stream_helper_collects_what_create_answers(self):
        with self.client.responses.stream(model='default', input='Hello!',
                                          **self.NO_THINKING) as stream:
            for _ in stream:
                pass
            final = stream.get_final_response()
        self.assertEqual(final.output_text, GREETING)

    def test_reasoning_is_an_item_of_its_own(self):
        answer = self.client.responses.create(model='default', input='What can you do?',
                                              temperature=0)
        self.assertEqual([item.type for item in answer.output], ['reasoning', 'message'])
        self.assertIn('The user asks', answer.output[0].content[0].text)

    def test_a_tool_is_called_and_its_result_goes_back(self):
        talk = [{'role': 'user', 'content': ASK_WEATHER}]
        first = self.client.responses.create(model='default', input=talk, tools=RESPONSES_TOOLS,
                                             **self.NO_THINKING)
        call = next(item for item in first.output if item.type == 'function_call')
        self.assertEqual(call.name, 'get_weather')
        talk += first.output
        talk.append({'type': 'function_call_output', 'call_id': call.call_id,
                     'output': '{"celsius": 20}'})
        second = self.client.responses.create(model='default', input=talk, tools=RESPONSES_TOOLS,
                                              max_output_tokens=40, **self.NO_THINKING)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)

    def test_streamed_calls_add_up_to_the_same(self):
        ask = dict(model='default', input=ASK_WEATHER, tools=RESPONSES_TOOLS, **self.NO_THINKING)
        whole = next(item for item in self.client.responses.create(**ask).output
                     if item.type == 'function_call')
        with self.client.responses.stream(**ask) as stream:
            deltas = [e.delta for e in stream
                      if e.type == 'response.function_call_arguments.delta']
            final = stream.get_final_response()
        self.assertEqual(''.join(deltas), whole.arguments)
        joined = next(item for item in final.output if item.type == 'function_call')
        self.assertEqual((joined.name, joined.arguments), (whole.name, whole.arguments))

    def test_an_answer_that_was_cut_says_so(self):
        answer = self.client.responses.create(model='default', input=STORY, max_output_tokens=3,
                                              **self.NO_THINKING)
        self.assertEqual(answer.status, 'incomplete')
        self.assertEqual(answer.incomplete_details.reason, 'max_output_tokens')

    def test_what_is_wrong_arrives_as_the_right_exception(self):
        with self.assertRaises(openai.BadRequestError):
            self.client.responses.create(model='default', input=[])
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.create(model='other', input='Hello!')

    def test_a_stream_that_is_left_frees_everything(self):
        stream = self.client.responses.create(model='default', input=STORY, stream=True,
                                              max_output_tokens=6000,
                                              extra_body={'ignore_eos': True}, **self.NO_THINKING)
        for _, _ in zip(range(8), stream):
            pass
        stream.close()
        self.assert_all_freed()


if __name__ == '__main__':
    cluster.main()
