"""The house rules as data: which room may include what, how long things may be, which words are
not written where. To allow something new, change a row here and say why in the commit."""

import re

# What may lie at the top level. Names that start with a dot are listed too: a stray one is junk.
TOP_LEVEL = {
    'actors', 'runtime', 'kernels', 'proto', 'storage', 'tests', 'examples', 'deploy',
    'meson.build', 'meson_options.txt', 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md',
    'LICENSE', '.ci', '.clang-format', '.clang-tidy', '.gitignore', '.gitattributes',
}

# Which of our rooms a file may include from; the longest matching room counts.
OURS = {
    'proto/types/': ['proto/types/'],
    'proto/wire/': ['proto/wire/'],
    'proto/codec/': ['proto/'],
    'kernels/api/': ['kernels/api/'],
    'kernels/ref/': ['kernels/api/', 'kernels/ref/'],
    'kernels/cpu/': ['kernels/api/', 'kernels/cpu/'],
    'kernels/cuda/': ['kernels/api/', 'kernels/cuda/'],
    'kernels/': ['kernels/'],
    'storage/': ['proto/types/', 'storage/'],
    'runtime/': ['proto/types/', 'storage/', 'kernels/api/', 'runtime/'],
    'runtime/image/': ['proto/types/', 'kernels/api/', 'runtime/image/'],
    'runtime/net/': ['proto/types/', 'proto/codec/', 'runtime/net/', 'runtime/base/'],
    # plain structs of pure code travel between actors of one process
    'actors/messages/': ['proto/', 'storage/', 'runtime/', 'actors/messages/'],
    'actors/': ['proto/', 'storage/', 'kernels/api/', 'runtime/', 'actors/'],
    'tests/': ['proto/', 'storage/', 'kernels/', 'runtime/', 'actors/', 'tests/'],
    'examples/': ['proto/', 'storage/', 'kernels/', 'runtime/', 'actors/', 'examples/'],
}

# One foreign library lives in one room, which alone translates its errors. A header (or folder
# of headers, ending in '/') -> the rooms that may include it. What is neither here nor standard
# nor of the operating system is a finding.
FOREIGN = {
    'caf/': ['actors/', 'tests/actor/', 'tests/sim/', 'tests/integration/', 'tests/bench/',
             'tests/support/', 'examples/'],
    'capnp/': ['proto/codec/', 'tests/fuzz/'],
    'kj/': ['proto/codec/'],
    'xxhash.h': ['proto/codec/', 'storage/', 'runtime/'],
    'rocksdb/': ['storage/rocks/', 'tests/bench/'],
    'liburing.h': ['storage/'],
    'rdma/': ['runtime/net/fabric/', 'tests/bench/'],
    'boost/': ['runtime/http/'],
    'openssl/': ['runtime/net/', 'runtime/base/', 'runtime/http/', 'storage/block/'],
    'simdjson.h': ['runtime/', 'actors/node/', 'actors/console/', 'tests/'],
    'rapidjson/': ['runtime/', 'actors/node/', 'actors/console/', 'tests/'],
    'toml++/': ['runtime/base/'],
    'CLI/': ['actors/node/'],
    'spdlog/': ['runtime/base/', 'actors/'],
    'fmt/': ['runtime/base/', 'actors/'],
    'prometheus/': ['runtime/base/'],
    'pcre2.h': ['runtime/tokenizer/', 'runtime/grammar/'],
    'utf8proc.h': ['runtime/tokenizer/'],
    'png.h': ['runtime/image/'],
    'jpeglib.h': ['runtime/image/'],
    'jerror.h': ['runtime/image/'],
    'webp/': ['runtime/image/'],
    'gif_lib.h': ['runtime/image/'],
    'zlib.h': ['runtime/'],
    'hwy/': ['kernels/cpu/'],
    'cblas.h': ['kernels/cpu/'],
    'cuda': ['kernels/cuda/'],
    'cublas': ['kernels/cuda/'],
    'nccl.h': ['kernels/cuda/'],
    'immintrin.h': ['kernels/cpu/', 'storage/block/'],
    'arm_neon.h': ['kernels/cpu/'],
    'cpuid.h': ['kernels/', 'storage/block/'],
    'doctest/': ['tests/'],
}

# Generated from proto/wire: only code that builds or reads messages sees them. Pure code below
# actors/ is handed plain values.
GENERATED_MESSAGES = ['proto/codec/', 'actors/', 'tests/', 'examples/']

STANDARD = set('''
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
cinttypes climits clocale cmath codecvt compare complex concepts condition_variable coroutine
csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque
exception execution filesystem format forward_list fstream functional future initializer_list
iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string
string_view syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
unordered_set utility valarray variant vector version stdint.h stddef.h
'''.split())

# What a meson.build asks for -> the Debian package that brings it, which deploy/packages.txt must
# list; otherwise a fresh machine does not build.
DEPENDENCIES = {
    'boost': 'libboost1.81-dev', 'caf_core': 'libcaf-dev', 'capnp': 'libcapnp-dev', 'CLI11': 'libcli11-dev',
    'doctest': 'doctest-dev', 'libfabric': 'libfabric-dev', 'libgif': 'libgif-dev',
    'libjpeg': 'libjpeg62-turbo-dev', 'libpng': 'libpng-dev', 'libwebp': 'libwebp-dev',
    'libwebpdemux': 'libwebp-dev',
    'libpcre2-8': 'libpcre2-dev', 'libutf8proc': 'libutf8proc-dev', 'libxxhash': 'libxxhash-dev',
    'liburing': 'liburing-dev', 'openssl': 'libssl-dev', 'rocksdb': 'librocksdb-dev', 'prometheus-cpp-core': 'prometheus-cpp-dev', 'python3': 'python3',
    'simdjson': 'libsimdjson-dev', 'spdlog': 'libspdlog-dev', 'tomlplusplus': 'libtomlplusplus-dev',
    'threads': None,       # comes with the compiler
    'cuda': None,          # only -Dcuda=enabled needs it
}
PROGRAMS = {'capnp': 'capnproto'}  # where a program and a library share a name

# Headers of the operating system, and the rooms that may ask it for something.
SYSTEM = re.compile(r'(sys|netinet|arpa|net|linux|asm)/|'
                    r'(unistd|fcntl|poll|dirent|dlfcn|errno|netdb|pthread|pwd|sched|signal|spawn|'
                    r'stdio|stdlib|string|malloc|termios|time|ifaddrs|cxxabi|execinfo|grp)\.h$')
SYSTEM_ROOMS = ['storage/', 'runtime/', 'actors/', 'kernels/cpu/', 'kernels/cuda/', 'tests/',
                'examples/']

# Headers that C++17 does not have, for kernels/api and everything nvcc compiles.
AFTER_CXX17 = set('''barrier bit compare concepts coroutine format latch numbers ranges semaphore
source_location span stop_token syncstream version'''.split())

# Lines: (a warning above, an error above).
FILE_LINES = {'.hpp': (200, 600), '.h': (200, 600), '.cuh': (200, 600), '': (400, 600)}
FUNCTION_LINES = (60, 80)
README_LINES = (5, 15)

# No file or folder is named after "things I could not place".
VAGUE_NAME = re.compile(r'(^|_)(utils?|helpers?|common|misc|manager)$')
VAGUE_ALLOWED = {'proto/wire/common.capnp'}

BELOW_ACTORS = ['proto/', 'storage/', 'kernels/', 'runtime/']
PRODUCT = BELOW_ACTORS + ['actors/']


class Word:
    """A text that is not written. `code`: comments and strings do not count. `rooms`: where the
    ban holds ([''] = everywhere); `but`: places inside them that may."""

    def __init__(self, name, pattern, advice, rooms=('',), but=(), code=True):
        self.name, self.pattern, self.advice = name, re.compile(pattern), advice
        self.rooms, self.but, self.code = tuple(rooms), tuple(but), code


WORDS = [
    Word('caf-all', r'caf/all\.hpp', 'include the single CAF headers you use (compile time)',
         code=False),
    Word('sleep', r'\bsleep_(for|until)\b|\busleep\s*\(',
         'wait for the event itself, with a deadline', code=False),
    Word('randomness', r'\brandom_device\b',
         'take an rng or a seed as an argument; only the node draws real randomness',
         but=['actors/node/', 'runtime/base/entropy']),
    Word('wall-clock', r'\bsystem_clock::now\b|\btime\s*\(\s*(nullptr|NULL|0)\s*\)',
         'take the time as an argument; wall time is read in actors/node and runtime/base/clock',
         but=['actors/node/', 'runtime/base/clock']),
    Word('clock', r'\b(steady_clock|high_resolution_clock)::now\b|\bclock_gettime\s*\(',
         'below actors/ time comes in as an argument', rooms=BELOW_ACTORS,
         but=['runtime/base/clock', 'runtime/net/fabric/', 'runtime/http/', 'kernels/cpu/device']),
    Word('thread', r'\bstd::j?thread\b(?!::)|\bstd::async\b|\bpthread_create\b',
         'below actors/ nothing starts a thread but the transport, the HTTP server and the CPU device',
         rooms=BELOW_ACTORS,
         but=['runtime/net/fabric/', 'runtime/http/', 'storage/rocks/', 'kernels/cpu/device']),
    Word('log', r'\bstd::(cout|cerr|clog)\b|(?<![\w.>])(std::)?f?printf\s*\(|\bspdlog::',
         'below actors/ nothing logs: return a failure or a value',
         rooms=BELOW_ACTORS, but=['proto/types/check.hpp', 'runtime/base/']),
    Word('environment', r'\bgetenv\s*\(',
         'main() reads config once; take the value as an argument',
         rooms=PRODUCT, but=['runtime/base/config', 'actors/node/']),
    Word('throw', r'\bthrow\b', 'return a failure; our code does not throw', rooms=PRODUCT),
    Word('caf-infinite', r'\bcaf::infinite\b', 'every wait has a deadline', rooms=PRODUCT),
    Word('hash-table', r'\bunordered_(multi)?(map|set)\b',
         'clients choose these keys, and can choose them all of one hash: use std::map or std::set',
         rooms=['runtime/recipe/']),
    Word('todo', r'\bTODO\b(?!\(#\d+\))', 'write TODO(#number) with an issue, or do it',
         code=False),
    Word('fixme', r'\bFIXME\b', 'fix it, or write TODO(#number)', code=False),
    Word('machine-path', r'(?<![\w.$}])/(work|farm)/|/tmp/wt\b',
         'name no path of one machine; make it an argument or relative to the sources',
         code=False),
]
