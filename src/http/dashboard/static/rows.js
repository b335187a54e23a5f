// Updates the list in place: rows, counts, title and icon. Rows keep their places until the user sorts again.
import { say } from './app.js';
import { show } from './list.js';
import { ask, onFrame, picture, seldom } from './live.js';
import { parsed, swap, undisturbed } from './swap.js';
import { moment } from './time.js';

const { zone } = document.documentElement.dataset;
const list = () => document.getElementById('list');
const row = id => list()?.querySelector(`.row[data-id="${id}"]`);
const wanted = name => new URL(location).searchParams.getAll(name);
const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

// Rows whose place would differ in a new list.
const moved = new Set();
const stale = element('p', '');
stale.className = 'stale';
stale.append(element('button', ''));
stale.firstChild.type = 'button';
stale.firstChild.addEventListener('click', async () => {
  await show(location.href);
  // The button disappears with the offer, and would take the focus with it.
  list()?.querySelector('.row .name a')?.focus({ preventScroll: true });
});
function offer() {
  if (!stale.isConnected) list()?.before(stale);
  stale.hidden = moved.size === 0;
  stale.firstChild.textContent = `${moved.size} changed. Sort again`;
}
document.addEventListener('list', () => {
  moved.clear();
  again();
  offer();
});

// Announces changes, in at most one sentence in five seconds.
const turned = { 'went down': [], 'came up': [] };
const speak = seldom(() => {
  const said = Object.entries(turned).filter(([, names]) => names.length)
    .map(([what, names]) => `${names.length === 1 ? names[0] : `${names.length} checks`} ${what}`);
  for (const names of Object.values(turned)) names.length = 0;
  if (said.length) say(`${said.join(', ')}.`);
}, 5);
function turn(one, status) {
  const before = one.dataset.status;
  one.dataset.status = status;
  if (before === status) return;
  const what = status === 'down' ? 'went down' : before === 'down' && status === 'up' ? 'came up' : null;
  if (what) {
    turned[what].push(one.querySelector('.name bdi').textContent);
    speak();
  }
  const by = wanted('sort').at(-1) ?? 'status';
  if (/^-?status$/.test(by) || wanted('status').length) moved.add(one.dataset.id);
}

function count(counts) {
  for (const tile of document.querySelectorAll('.tiles a')) {
    const number = tile.querySelector('b'), now = counts[tile.dataset.status];
    if (number.textContent !== String(now)) number.textContent = number.dataset.count = now;
  }
  document.title = (counts.down ? `${counts.down} down – ` : '') + document.title.replace(/^\d+ down – /, '');
  picture(counts.down ? 'down' : counts.late ? 'late' : 'up');
}

// Draws the last outcomes like the server does: two bits each, the newest lowest.
const BARS = [' 11v4', ' 1v14', ' 1.5h2v13h-2z'], KINDS = ['good', 'failed', 'missed'];
function strip(cell, bits) {
  const paths = ['', '', ''], counts = [0, 0, 0];
  let at = 128;
  for (let rest = BigInt(`0x${bits}`); rest; rest >>= 2n) {
    const kind = Number(rest & 3n) - 1;
    counts[kind] += 1;
    paths[kind] += `M${at -= 4}.5${BARS[kind]}`;
  }
  if (at === 128) return;
  const make = (name, values) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in values) made.setAttribute(key, values[key]);
    return made;
  };
  const bad = KINDS.map((kind, at) => at && counts[at] ? `, ${counts[at]} ${kind}` : '').join('');
  const label = `last ${(128 - at) / 4}: ${counts[0]} on time${bad}`;
  const svg = make('svg', { viewBox: '0 0 128 16', width: 128, height: 16, fill: 'none', role: 'img', 'aria-label': label });
  paths.forEach((d, kind) => { if (d) svg.append(make('path', { class: KINDS[kind], d })); });
  cell.replaceChildren(svg);
}

// The reason for a status. That of a failure is known to the server alone.
function explain(one, status, at) {
  if (status !== 'up' && status !== 'running') {
    if (one.dataset.status !== status || status === 'down') refresh();
    return;
  }
  one.querySelector('.why')?.remove();
  if (status === 'up') return;
  const why = element('small', 'running, '), began = moment(at, zone);
  why.className = 'why';
  began.dataset.elapsed = '';
  began.textContent = began.textContent.replace(/ ago$/, '');
  why.append(began);
  one.querySelector('.name').append(why);
}

function patch([id, status, last, took, waits, at, bits]) {
  const one = row(id);
  if (!one) return;
  const shape = one.querySelector('.status');
  shape.dataset.status = status;
  shape.firstElementChild.textContent = document.querySelector(`.tiles a[data-status=${status}] .word`).textContent;
  one.querySelector('.last').replaceChildren(last === null ? 'never' : moment(last, zone), ...(took ? [element('small', took)] : []));
  const before = { o: ['expected '], r: ['began '] }[waits] ?? [];
  one.querySelector('.next').replaceChildren(...(waits ? [...before, moment(at, zone)] : ['–']));
  strip(one.querySelector('.strip'), bits);
  explain(one, status, at);
  turn(one, status);
  if (/^-?(last|next)$/.test(wanted('sort').at(-1) ?? '')) moved.add(one.dataset.id);
}

// Updates that arrived while a list was loading may be newer than the list.
const recent = new Map();
function again() {
  const now = performance.now();
  for (const [id, { at, one }] of recent) if (now - at < 3000) patch(one); else recent.delete(id);
}

function gone(id) {
  const one = row(id);
  if (!one) return;
  one.classList.add('gone');
  const box = one.querySelector('input');
  if (box) box.checked = !(box.disabled = true);
  one.querySelector('.status .word').textContent = 'Deleted';
  moved.add(one.dataset.id);
}

// Replaces the cells of a row that differ from a new version of the row.
function renew(one, fresh) {
  turn(one, fresh.dataset.status);
  const cells = [...one.children];
  [...fresh.children].forEach((cell, at) => {
    const old = cells[at];
    if (!old || old.isEqualNode(cell) || old.querySelector('[aria-expanded]')) return;
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    const box = cell.querySelector('input[type=checkbox]');
    if (box) box.checked = old.querySelector('input[type=checkbox]')?.checked ?? false;
    old.replaceWith(cell);
    if (active) cell.querySelector(active.localName)?.focus({ preventScroll: true });
  });
}

// Loads the list again: there are new rows, other settings or unknown changes.
const refresh = seldom(async () => {
  const html = await ask('list');
  if (html === null) return;
  await undisturbed();
  const fresh = parsed(html), rows = list()?.querySelector('.rows'), found = [...fresh.querySelectorAll('.row[data-id]')];
  if (!rows || !list()) {
    swap(html);
    document.dispatchEvent(new Event('list'));
    return;
  }
  count(Object.fromEntries([...fresh.querySelectorAll('.tiles a')].map(tile => [tile.dataset.status, Number(tile.querySelector('b').textContent)])));
  // If there is only one page, new rows are appended for now.
  const isAll = !list().querySelector('[rel=prev], [rel=next]') && !fresh.querySelector('[rel=prev], [rel=next]');
  const ids = new Set(found.map(one => one.dataset.id));
  for (const one of rows.querySelectorAll('.row[data-id]')) if (!ids.has(one.dataset.id)) moved.add(one.dataset.id);
  let last = null;
  for (const one of found) {
    const mine = row(one.dataset.id);
    if (mine) renew(mine, one);
    else {
      const isLast = one === found.at(-1) && last === rows.lastElementChild;
      if (!isLast) moved.add(one.dataset.id);
      if (isAll) rows.append(one);
    }
    last = mine ?? one;
  }
  const below = fresh.querySelector('.below');
  if (isAll && below) list().querySelector('.below')?.replaceWith(below);
  again();
  offer();
}, 2);

// The page is loaded again for its first check, but not during a click, nor if the click leads elsewhere.
let isPressed = false, isLeaving = false;
addEventListener('pointerdown', () => { isPressed = true; });
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => setTimeout(() => { isPressed = false; }, 50));
addEventListener('beforeunload', () => { isLeaving = true; });
async function reload() {
  await undisturbed();
  while (isPressed) await new Promise(done => setTimeout(done, 50));
  if (!isLeaving) location.reload();
}

const often = seldom(refresh, 8);
onFrame(frame => {
  if (document.getElementById('waiting')) {
    if (frame.whole || frame.edited.length) reload();
    return;
  }
  if (frame.counts) count(frame.counts);
  for (const one of frame.rows ?? []) recent.set(one[0], { at: performance.now(), one });
  if (frame.rows) again();
  frame.gone?.forEach(gone);
  if (frame.whole) often(1000);
  if (frame.edited?.length) refresh();
  offer();
});
