// What the server said last and before, and what changed between the two.

const HISTORY = 60;  // readings that the small curves show

const LANES = [
  {name: 'edge', title: 'requests', kinds: ['gateway', 'codec', 'request']},
  {name: 'route', title: 'routing', kinds: ['vision_balancer', 'prefill_balancer', 'decode_balancer', 'expert_balancer']},
  {name: 'compute', title: 'engines', kinds: ['vision', 'prefill', 'decode', 'batch', 'expert_group', 'kv_check', 'kv_fetch', 'kv_store', 'kv_sweep', 'kv_mover', 'ring_host']},
  {name: 'cluster', title: 'cluster', kinds: ['node', 'membership', 'fleet', 'autoscaler', 'console']},
];
const laneOf = kind => LANES.find(lane => lane.kinds.includes(kind)) || LANES[3];
const rankOf = kind => { const at = LANES.flatMap(lane => lane.kinds).indexOf(kind); return at < 0 ? 99 : at; };
const ROLE_RANK = ['gateway', 'vision', 'prefill', 'decode', 'kvstore', 'controller'];

let now = null;                // the last topology, made uniform by `read`
let before = null;
let events = [];
let lastAnswer = 0;
let chosen = null;             // end point of the actor that was clicked
const gauges = new Set();      // "kind name" of counters that were once seen to fall
const history = {messages: [], tokens: []};

function read(raw, at) {
  const topology = {
    at, cluster: String(raw.cluster ?? ''), self: raw.self, silent: new Set(list(raw.unreachable)),
    nodes: [...list(raw.nodes), ...list(raw.fetch_processes).map(node => ({...node, roles: ['fetch process'], helper: true}))],
    actors: list(raw.actors), edges: list(raw.edges), byEnd: new Map(), messages: new Map(),
  };
  for (const actor of topology.actors) { actor.counters ??= {}; topology.byEnd.set(endOf(actor), actor); }
  for (const edge of topology.edges) topology.messages.set(edge.from + '>' + edge.to, edge.messages);
  return topology;
}
/** Change per second; nothing where the earlier count is missing or belongs to another life. */
function rate(old, value) {
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  return seconds > 0 && old !== undefined && value >= old ? (value - old) / seconds : undefined;
}
const edgeRate = edge => rate(before?.messages.get(edge.from + '>' + edge.to), edge.messages);
const counterRate = (actor, name) => rate(before?.byEnd.get(endOf(actor))?.counters[name], actor.counters[name]);

function measure() {
  for (const actor of now.actors)
    for (const [name, value] of Object.entries(actor.counters))
      if (value < before?.byEnd.get(endOf(actor))?.counters[name]) gauges.add(actor.kind + ' ' + name);
  for (const edge of now.edges) edge.rate = edgeRate(edge);
  now.sent = new Map();
  for (const edge of now.edges)
    if (edge.rate !== undefined) now.sent.set(edge.from, (now.sent.get(edge.from) || 0) + edge.rate);
  if (!before) return;
  const engines = now.actors.filter(actor => actor.kind === 'prefill' || actor.kind === 'decode');
  push(history.messages, [...now.sent.values()].reduce((sum, r) => sum + r, 0));
  push(history.tokens, engines.reduce((sum, actor) => sum + (counterRate(actor, 'tokens') || 0), 0));
}
function push(series, value) { series.push(value); if (series.length > HISTORY) series.shift(); }
