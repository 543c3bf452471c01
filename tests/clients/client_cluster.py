"""A cluster for client libraries; the interpreter that has them.

Import this before a library: `require` starts the test again with the interpreter of
`build-clients/` when this one lacks the library, or ends it as skipped.
"""

import importlib.util
import os
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
CHOSEN = 'DEEPINFER_CLIENTS_PYTHON'

sys.path.insert(0, os.path.join(SOURCE, 'tests', 'integration', 'cluster'))


def require(package):
    if importlib.util.find_spec(package):
        return
    python = os.environ.get(CHOSEN, os.path.join(SOURCE, 'build-clients', 'bin', 'python'))
    # `samefile` would follow the environment's link to the interpreter that made it.
    if os.path.exists(python) and os.path.abspath(python) != os.path.abspath(sys.executable):
        sys.exit(subprocess.run([python, *sys.argv], check=False).returncode)
    print(f'skipped: the Python package {package} is not installed; tests/clients/run installs it')
    sys.exit(SKIPPED)


def tool(name, description, **properties):
    """One function of the samples: {'name', 'description', 'parameters'}."""
    return {'name': name, 'description': description,
            'parameters': {'type': 'object', 'properties': properties,
                           'required': list(properties)}}


# The tools of the bundled model's own samples, which it knows how to call.
WEATHER = tool('get_weather', 'Get the current weather of a city.',
               location={'type': 'string', 'description': 'The city name'})
CALCULATOR = tool('calculator', 'Compute an arithmetic expression.',
                  expression={'type': 'string', 'description': 'The expression to compute'})
TOOLS = [WEATHER, CALCULATOR]
ASK_WEATHER = 'What is the weather in Paris?'
STORY = 'Tell me a story about a cat.'


def left_over(node):
    """Sequences and requests that some actor still holds."""
    return {(actor['kind'], name): actor['counters'][name]
            for actor in node.topology()['actors']
            if actor['kind'] in ('prefill', 'decode', 'gateway')
            for name in ('sequences', 'requests_known', 'staged', 'transfers', 'open')
            if actor['counters'].get(name, 0)}
