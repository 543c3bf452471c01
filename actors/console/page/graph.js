// Nodes as cards, their actors as chips, messages between them as wires.

// Bounds of what is drawn; the rest is counted.
const MAX_REQUESTS_PER_NODE = 6, MAX_WIRES = 400, MAX_LABELS = 16;

function nodeOrder(a, b) {
  const role = node => Math.min(...list(node.roles).map(r => { const at = ROLE_RANK.indexOf(r); return at < 0 ? 9 : at; }), 9);
  return isGone(a) - isGone(b) || role(a) - role(b) || (a.id < b.id ? -1 : 1);
}
/** Chips of a node: its actors, requests beyond the first few as one chip. */
function chipsOf(node) {
  const actors = now.actors.filter(actor => actor.node === node.id);
  actors.sort((a, b) => rankOf(a.kind) - rankOf(b.kind) || (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : a.id - b.id));
  const requests = actors.filter(actor => actor.kind === 'request');
  const rest = requests.slice(MAX_REQUESTS_PER_NODE);
  const chips = actors.filter(actor => !rest.includes(actor)).map(actor => ({key: endOf(actor), actor}));
  if (rest.length > 0) {
    const at = chips.findLastIndex(chip => chip.actor.kind === 'request') + 1;
    chips.splice(at, 0, {key: 'more@' + node.id, more: rest});
  }
  return chips;
}
function drawNodes() {
  now.chipOf = new Map();  // end point -> key of the chip that stands for it
  sync($('nodes'), [...now.nodes].sort(nodeOrder), node => String(node.id), () => {
    const card = make('article', 'node'), head = make('h2');
    head.append(make('span', 'id'), make('span', 'where'), make('span', 'roles'), make('span', 'state'));
    card.append(head, make('div', 'lanes'), make('p', 'empty'));
    return card;
  }, drawNode);
}
function drawNode(card, node) {
  const silent = now.silent.has(node.id), chips = chipsOf(node);
  card.className = ['node', node.id === now.self ? 'self' : '', silent ? 'silent' : '', isGone(node) ? 'gone' : '', node.state === 'suspect' ? 'suspect' : ''].join(' ');
  const [id, where, roles, state] = card.firstChild.children;
  put(id, shortId(node.id));
  id.title = String(node.id);
  put(where, String(node.address ?? ''));
  put(roles, list(node.roles).join(' · '));
  put(state, node.state + (silent ? ', no answer' : '') + (isGone(node) ? '' : ' · up ' + duration(node.uptime_s)));
  put(card.lastChild, isGone(node) ? 'this life of the node is over' : 'no actor of this node answers');
  card.lastChild.hidden = chips.length > 0;
  for (const chip of chips)
    for (const actor of chip.more || [chip.actor]) now.chipOf.set(endOf(actor), chip.key);
  const lanes = LANES.map(lane => ({lane, chips: chips.filter(chip => laneOf(chip.more ? 'request' : chip.actor.kind) === lane)}))
    .filter(entry => entry.chips.length > 0);
  card.children[1].hidden = lanes.length === 0;
  sync(card.children[1], lanes, entry => entry.lane.name, entry => {
    const lane = make('div', 'lane ' + entry.lane.name);
    lane.append(make('h3', '', entry.lane.title), make('div', 'lane'));
    return lane;
  }, (lane, entry) => sync(lane.lastChild, entry.chips, chip => chip.key, makeChip, drawChip));
}
function makeChip(item) {
  const chip = make('button', 'chip'), who = make('div', 'who');
  chip.type = 'button';
  who.append(make('span', 'kind'), make('span', 'number'), make('span', 'mailbox'));
  chip.append(who, make('div', 'what'), make('div', 'work'));
  chip.addEventListener('click', () => { if (!item.more) choose(item.key); });
  return chip;
}
function drawChip(chip, item) {
  const [kind, number, mailbox] = chip.firstChild.children, actor = item.actor;
  const waiting = item.more ? item.more.reduce((sum, one) => sum + (one.mailbox || 0), 0) : actor.mailbox || 0;
  put(kind, item.more ? item.more.length + ' more' : String(actor.kind));
  put(number, item.more ? 'requests' : String(actor.id));
  put(mailbox, count(waiting));
  mailbox.hidden = waiting === 0;
  mailbox.className = 'mailbox' + (waiting >= 100 ? ' bad' : waiting >= 10 ? ' warn' : '');
  mailbox.title = waiting + ' messages wait in the mailbox';
  put(chip.children[1], item.more ? 'see the list below' : String(actor.state ?? ''));
  const work = item.more ? '' : workOf(actor);
  put(chip.children[2], work);
  chip.children[2].hidden = work === '';
  chip.title = item.more ? '' : actor.kind + ' ' + actor.id + '\n' + actor.state + '\n' + countersText(actor, '\n');
  chip.classList.toggle('busy', !item.more && String(actor.state).startsWith('busy'));
  chip.classList.toggle('chosen', chosen === item.key);
}
/** The two busiest counters; what also falls counts no work. */
function workOf(actor) {
  return Object.keys(actor.counters).filter(name => !gauges.has(actor.kind + ' ' + name))
    .map(name => [name, counterRate(actor, name)]).filter(([, r]) => r > 0)
    .sort((a, b) => b[1] - a[1]).slice(0, 2).map(([name, r]) => count(r) + ' ' + name + '/s').join(' · ');
}
function countersText(actor, between) {
  return Object.entries(actor.counters).filter(([, value]) => value !== 0).map(([name, value]) => {
    const r = counterRate(actor, name);
    return name + ' ' + count(value) + (r > 0 && !gauges.has(actor.kind + ' ' + name) ? ' (+' + count(r) + '/s)' : '');
  }).join(between);
}
function choose(key) {
  chosen = chosen === key ? null : key;
  redraw();
}

// ---- wires

/** Sums edges between the same two chips. */
function wires() {
  const sums = new Map();
  for (const edge of now.edges) {
    const from = now.chipOf.get(edge.from), to = now.chipOf.get(edge.to);
    if (!from || !to || from === to) continue;  // "all others", or an actor that has ended
    const key = from + '>' + to;
    const wire = sums.get(key) || {key, from, to, rate: 0, lane: laneOf(now.byEnd.get(edge.from)?.kind).name};
    wire.rate += edge.rate || 0;
    sums.set(key, wire);
  }
  const all = [...sums.values()].sort((a, b) => b.rate - a.rate).slice(0, MAX_WIRES);
  all.forEach((wire, at) => { wire.label = wire.rate >= 0.05 && (at < MAX_LABELS || isNear(wire)); });
  return all;
}
const isNear = wire => chosen !== null && (wire.from === chosen || wire.to === chosen);

/** A curve that leaves and enters chips at the sides that face each other; the ways there and back
    run beside each other, and their labels stand apart. */
function curve(a, b, shift) {
  const ay = a.y + a.h / 2 + shift, by = b.y + b.h / 2 + shift;
  const overlap = Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x);
  if (overlap > 20) {
    const left = shift < 0, ax = left ? a.x : a.x + a.w, bx = left ? b.x : b.x + b.w;
    const out = (left ? Math.min(ax, bx) : Math.max(ax, bx)) + (left ? -1 : 1) * Math.min(34, 14 + Math.abs(by - ay) / 14);
    return bezier([ax, ay], [out, ay], [out, by], [bx, by], .5);
  }
  const forward = b.x > a.x, ax = forward ? a.x + a.w : a.x, bx = forward ? b.x : b.x + b.w;
  const bend = (forward ? 1 : -1) * Math.max(18, Math.abs(bx - ax) / 2);
  return bezier([ax, ay], [ax + bend, ay], [bx - bend, by], [bx, by], .38);
}
function bezier(p, q, r, s, t) {
  const u = 1 - t, at = i => u * u * u * p[i] + 3 * u * u * t * q[i] + 3 * u * t * t * r[i] + t * t * t * s[i];
  return {path: `M${p}C${q} ${r} ${s}`, x: at(0), y: at(1)};
}
function drawWires() {
  const origin = $('graph').getBoundingClientRect(), places = new Map(), drawn = wires(), labels = [];
  for (const chip of document.querySelectorAll('.chip')) {
    const r = chip.getBoundingClientRect();
    places.set(chip.dataset.key, {x: r.x - origin.x, y: r.y - origin.y, w: r.width, h: r.height});
    const near = chip.dataset.key === chosen || drawn.some(wire => isNear(wire) && (wire.from === chip.dataset.key || wire.to === chip.dataset.key));
    chip.classList.toggle('near', near);
  }
  $('nodes').classList.toggle('dimmed', chosen !== null && places.has(chosen));
  sync($('wires'), drawn, wire => wire.key, () => {
    const group = svg('g', {});
    group.append(svg('path', {}), svg('text', {}));
    return group;
  }, (group, wire) => {
    const line = curve(places.get(wire.from), places.get(wire.to), wire.from < wire.to ? -4 : 4);
    const [path, label] = group.children;
    path.setAttribute('d', line.path);
    path.setAttribute('stroke-width', (1.1 + Math.min(4, Math.log2(1 + wire.rate) * .5)).toFixed(1));
    path.setAttribute('class', wire.lane + (wire.rate > 0 ? ' active' : '') + (isNear(wire) ? ' near' : chosen ? ' far' : ''));
    path.style.setProperty('--pace', (wire.rate > 50 ? .45 : wire.rate > 5 ? .8 : 1.6) + 's');
    // the busiest come first; a label that would cover another one is left out
    const isShown = wire.label && (!chosen || isNear(wire)) && !labels.some(other => Math.abs(other.x - line.x) < 38 && Math.abs(other.y - line.y) < 13);
    if (isShown) labels.push(line);
    label.setAttribute('x', line.x);
    label.setAttribute('y', line.y);
    put(label, isShown ? count(wire.rate) + '/s' : '');
  });
}
