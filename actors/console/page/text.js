// Elements and texts. Everything that comes from the server becomes text nodes or attributes of
// elements made here; nothing is ever parsed as HTML.

const $ = id => document.getElementById(id);
function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}
function svg(tag, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
function put(element, text) { if (element.textContent !== text) element.textContent = text; }
function list(value) { return Array.isArray(value) ? value : []; }

/** Makes the children of `parent` match `items`; those that stay keep their element. */
function sync(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].map(child => [child.dataset.key, child]));
  items.forEach((item, at) => {
    const key = keyOf(item);
    let child = old.get(key);
    if (child) old.delete(key); else { child = create(item); child.dataset.key = key; }
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] || null);
    update(child, item);
  });
  for (const child of old.values()) child.remove();
}

function count(value) {
  if (!Number.isFinite(value)) return '–';
  const units = ['', 'k', 'M', 'G', 'T'];
  let unit = 0, size = Math.abs(value);
  while (size >= 999.5 && unit < 4) { size /= 1000; ++unit; }
  const digits = size >= 9.95 || (unit === 0 && Number.isInteger(size)) ? 0 : 1;
  return (value < 0 ? '-' : '') + size.toFixed(digits) + units[unit];
}
function duration(seconds) {
  if (!(seconds >= 0)) return '–';
  const s = Math.floor(seconds), two = n => String(n).padStart(2, '0');
  if (s < 60) return s + 's';
  if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
  if (s < 86400) return Math.floor(s / 3600) + 'h' + two(Math.floor(s / 60) % 60) + 'm';
  return Math.floor(s / 86400) + 'd' + two(Math.floor(s / 3600) % 24) + 'h';
}

const shortId = id => String(id).slice(0, 8);
const endOf = actor => actor.id + '@' + actor.node;
const isGone = node => node.state === 'dead' || node.state === 'left';
