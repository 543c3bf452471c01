// The head of the page, and the loop that keeps all of it up to date.

const POLL_MS = 1000, ANSWER_MS = 8000;

function drawHead() {
  put($('cluster'), now.cluster);
  document.title = now.cluster + ' – deepinfer console';
  const nodes = now.nodes.filter(node => !node.helper), gone = nodes.filter(isGone).length;
  const tiles = [
    {name: 'nodes', value: String(nodes.length - gone)},
    {name: gone === 1 ? 'node gone' : 'nodes gone', key: 'gone', value: String(gone), bad: true, hide: gone === 0},
    {name: 'silent', value: String(now.silent.size), bad: true, hide: now.silent.size === 0},
    {name: 'requests', value: String(now.actors.filter(actor => actor.kind === 'request').length)},
    {name: 'waiting', value: count(now.actors.reduce((sum, actor) => sum + (actor.mailbox || 0), 0))},
    {name: 'messages/s', value: count(history.messages.at(-1)), series: history.messages},
    {name: 'tokens/s', value: count(history.tokens.at(-1)), series: history.tokens},
  ].filter(tile => !tile.hide);
  sync($('tiles'), tiles, tile => tile.key || tile.name, tile => {
    const box = make('div', tile.bad ? 'bad' : '');
    box.append(make('dt'), make('dd'));
    if (tile.series) {
      box.append(svg('svg', {viewBox: '0 0 64 20', 'aria-hidden': 'true'}));
      box.lastChild.append(svg('polyline', {fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5, 'stroke-linejoin': 'round'}));
    }
    return box;
  }, (box, tile) => {
    put(box.children[0], tile.name);
    put(box.children[1], tile.value);
    if (tile.series) box.querySelector('polyline').setAttribute('points', spark(tile.series));
  });
}
function spark(series) {
  const top = Math.max(...series, 1e-9), first = HISTORY - series.length;
  return series.map((value, i) => ((first + i) * 64 / (HISTORY - 1)).toFixed(1) + ',' + (18.5 - 17 * value / top).toFixed(1)).join(' ');
}
function drawPulse(trouble) {
  const pulse = $('pulse');
  pulse.className = trouble ? (lastAnswer ? 'lost' : 'waiting') : 'live';
  put(pulse, !trouble ? 'live' : lastAnswer ? 'no answer for ' + duration((performance.now() - lastAnswer) / 1000) : trouble);
  document.body.classList.toggle('lost-contact', Boolean(trouble && lastAnswer));
}

// ---- the loop

function redraw() {
  drawTabs();
  if (!now) return;
  if (chosen && !now.byEnd.has(chosen)) chosen = null;
  drawHead();
  drawNodes();
  drawWires();
  drawList();
}
async function get(path) {
  const answer = await fetch(path, {signal: AbortSignal.timeout(ANSWER_MS), cache: 'no-store'});
  if (!answer.ok) throw new Error('HTTP ' + answer.status);
  return answer.json();
}
async function poll() {
  const started = performance.now();
  if (!document.hidden) {
    try {
      // the time of asking: answers of busy nodes take long, counts are from then
      const [topology, log] = await Promise.all([get('/api/topology'), tab.columns ? null : get('/api/events')]);
      before = now;
      now = read(topology, started);
      if (log) events = list(log.lines).map(String);
      measure();
      lastAnswer = performance.now();
      drawPulse('');
      redraw();
    } catch (error) {
      drawPulse(error.message || 'no answer');
    }
  }
  setTimeout(poll, Math.max(100, POLL_MS - (performance.now() - started)));
}

$('filter').addEventListener('input', () => { if (now) drawList(); });
addEventListener('keydown', event => { if (event.key === 'Escape' && chosen) choose(chosen); });
new ResizeObserver(() => { if (now) drawWires(); }).observe($('graph'));
drawTabs();
poll();
