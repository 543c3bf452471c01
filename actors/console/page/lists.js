// The tables below the graph.

const MAX_ROWS = 500;

const nameOf = end => {
  const [id, node] = String(end).split('@');
  if (id === '0') return 'others';
  const kind = now.byEnd.get(end)?.kind;
  // requests end and their counts stay: all of them together are of interest
  if (!kind && !now.silent.has(node)) return 'ended actors';
  return (kind || 'actor') + ' ' + id + (now.nodes.length > 1 ? ' @ ' + shortId(node) : '');
};

/** Edges by the names of their ends. */
function flows() {
  const sums = new Map();
  for (const edge of now.edges) {
    const from = nameOf(edge.from), to = nameOf(edge.to), key = from + '>' + to;
    const flow = sums.get(key) || {key, from, to, end: edge.from, messages: 0, rate: undefined};
    flow.messages += edge.messages;
    if (edge.rate !== undefined) flow.rate = (flow.rate || 0) + edge.rate;
    sums.set(key, flow);
  }
  return [...sums.values()];
}

const TABS = [
  {name: 'Actors', rows: () => now.actors, key: endOf, choose: endOf, sort: [0, 1], columns: [
    {title: 'kind', text: a => String(a.kind), order: a => rankOf(a.kind), tight: true},
    {title: 'id', text: a => String(a.id), order: a => a.id, number: true},
    {title: 'node', text: a => shortId(a.node), mono: true, tight: true},
    {title: 'state', text: a => String(a.state ?? ''), wide: true},
    {title: 'mailbox', text: a => count(a.mailbox), order: a => a.mailbox, number: true},
    {title: 'sent/s', text: a => count(now.sent.get(endOf(a))), order: a => now.sent.get(endOf(a)) ?? -1, number: true},
    {title: 'counters', text: a => countersText(a, ', '), wide: true},
  ]},
  {name: 'Edges', rows: flows, key: e => e.key, choose: e => e.end, sort: [2, -1], columns: [
    {title: 'from', text: e => e.from, tight: true},
    {title: 'to', text: e => e.to, tight: true},
    {title: 'per second', text: e => count(e.rate), order: e => e.rate ?? -1, number: true},
    {title: 'all', text: e => count(e.messages), order: e => e.messages, number: true},
  ]},
  {name: 'Nodes', rows: () => now.nodes, key: n => String(n.id), gone: isGone, sort: [-1, 1], columns: [
    {title: 'node', text: n => String(n.id), mono: true},
    {title: 'address', text: n => String(n.address ?? ''), tight: true},
    {title: 'roles', text: n => list(n.roles).join(', ')},
    {title: 'state', text: n => n.state + (now.silent.has(n.id) ? ', no answer' : '')},
    {title: 'uptime', text: n => duration(n.uptime_s), order: n => n.uptime_s, number: true},
    {title: 'epoch', text: n => String(n.epoch), number: true},
    {title: 'actors', text: n => String(now.actors.filter(a => a.node === n.id).length), number: true},
  ]},
  {name: 'Events'},
];
let tab = TABS[0];

function drawTabs() {
  sync($('tabs'), TABS, entry => entry.name, entry => {
    const button = make('button', '', entry.name);
    button.type = 'button';
    button.setAttribute('role', 'tab');
    button.addEventListener('click', () => { tab = entry; $('list').replaceChildren(); redraw(); });
    return button;
  }, (button, entry) => button.setAttribute('aria-selected', String(entry === tab)));
}
function drawList() {
  const wanted = $('filter').value.trim().toLowerCase();
  if (tab.columns) drawTable(wanted); else drawEvents(wanted);
}
function drawTable(wanted) {
  if (!$('list').querySelector('table')) $('list').replaceChildren(makeTable(), make('p', 'empty'));
  const [at, direction] = tab.sort, column = tab.columns[at];
  const value = column && (column.order || column.text);
  let rows = tab.rows().filter(row => !wanted || tab.columns.some(c => c.text(row).toLowerCase().includes(wanted)));
  rows = rows.map((row, i) => [row, column ? value(row) : 0, i])
    .sort((a, b) => (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0) * direction || a[2] - b[2]).map(entry => entry[0]);
  const hidden = Math.max(0, rows.length - MAX_ROWS);
  const [table, note] = $('list').children;
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    if (i === at) cell.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending'); else cell.removeAttribute('aria-sort');
  });
  sync(table.tBodies[0], rows.slice(0, MAX_ROWS), tab.key, makeRow, (line, row) => {
    tab.columns.forEach((c, i) => put(line.cells[i], c.text(row)));
    line.className = (tab.gone?.(row) ? 'gone ' : '') + (chosen && tab.choose?.(row) === chosen ? 'chosen' : '');
  });
  put(note, hidden ? hidden + ' more; filter to see them' : rows.length === 0 ? 'nothing to show' : '');
  note.hidden = note.textContent === '';
}
function makeTable() {
  const table = make('table'), head = table.createTHead().insertRow();
  table.createTBody();
  tab.columns.forEach((column, at) => {
    const cell = make('th', column.number ? 'number' : ''), button = make('button', '', column.title);
    button.type = 'button';
    button.addEventListener('click', () => { tab.sort = [at, tab.sort[0] === at ? -tab.sort[1] : column.number ? -1 : 1]; drawList(); });
    cell.append(button);
    head.append(cell);
  });
  return table;
}
function makeRow(row) {
  const line = make('tr');
  for (const column of tab.columns)
    line.append(make('td', ['number', 'mono', 'tight', 'wide'].filter(name => column[name]).join(' ')));
  if (tab.choose) {
    const key = tab.choose(row);
    line.tabIndex = 0;
    line.addEventListener('click', () => choose(key));
    line.addEventListener('keydown', event => { if (event.key === 'Enter') choose(key); });
  }
  return line;
}
function drawEvents(wanted) {
  if (!$('list').querySelector('.log')) $('list').replaceChildren(make('div', 'log'), make('p', 'empty'));
  const [log, note] = $('list').children;
  const lines = events.filter(line => line.toLowerCase().includes(wanted)).slice(-MAX_ROWS).reverse();
  sync(log, lines.map((text, i) => ({text, key: i + text})), line => line.key, () => make('div'), (line, {text}) => {
    put(line, text);
    line.className = /\b(error|critical)\b/i.test(text) ? 'error' : /\bwarn(ing)?\b/i.test(text) ? 'warn' : '';
  });
  log.hidden = lines.length === 0;
  put(note, 'no events of this node' + (wanted ? ' match' : ' yet'));
  note.hidden = lines.length > 0;
}
