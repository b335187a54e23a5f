// Searches, filters, sorts and pages the list without loading the page again, and moves between rows by keys.
import { copy, onKey, say } from './app.js';
import { parsed, part, swap, undisturbed } from './swap.js';

const form = document.querySelector('form.search');
const line = document.getElementById('loading');
let request = new AbortController();

// For the response to a form.
history.replaceState(null, '', document.getElementById('list')?.dataset.at);
// Pages of checks lead back to the last view of the list.
const remember = () => sessionStorage.setItem(location.pathname, location.search);
remember();

// Shows the filter of a URL in the form. Links outside the form change the filter too.
function fill(url) {
  const wanted = new URL(url, location).searchParams, tags = new Set(wanted.getAll('tag'));
  form.q.value = wanted.get('q') ?? '';
  form.group.value = wanted.get('group') ?? '';
  for (const box of form.querySelectorAll('[name=tag]')) box.checked = tags.has(box.value);
  countTags();
}
function countTags() {
  const summary = form.querySelector('summary'), number = form.querySelectorAll('[name=tag]:checked').length;
  if (!summary) return;
  summary.querySelector('b')?.remove();
  if (number) summary.append(Object.assign(document.createElement('b'), { textContent: number }));
}

// Shows the list at this URL, with an indicator if it is slow. `keep` says what happens to the history: a new entry (`push`), another URL
// for the current one (`replace`), or nothing.
export async function show(url, keep = '') {
  request.abort();
  const mine = request = new AbortController();
  const slow = setTimeout(() => line?.removeAttribute('hidden'), 150);
  try {
    const html = await part(url, 'list', mine.signal);
    if (html === null) return;
    await undisturbed();
    if (mine.signal.aborted) return;
    swap(html);
    if (keep) history[`${keep}State`](null, '', url);
    remember();
    document.dispatchEvent(new Event('list'));
  } catch (error) {
    // A newer request has replaced this one.
    if (error.name !== 'AbortError') say('Failed. Reload the page.');
  } finally {
    clearTimeout(slow);
    if (mine === request) line?.setAttribute('hidden', '');
  }
}

// A list without checks waits for the first one.
document.getElementById('waiting')?.removeAttribute('hidden');

function wanted() {
  const url = new URL(location);
  for (const name of ['q', 'tag', 'group', 'page']) url.searchParams.delete(name);
  const fields = new FormData(form);
  if (fields.get('q').trim()) url.searchParams.set('q', fields.get('q').trim());
  for (const tag of fields.getAll('tag')) url.searchParams.append('tag', tag);
  if (fields.get('group')) url.searchParams.set('group', fields.get('group'));
  return url;
}

if (form) {
  let timer, searches = false;
  // One search is one entry of the history, however many letters it has.
  const search = () => {
    clearTimeout(timer);
    show(wanted(), searches ? 'replace' : 'push');
    searches = true;
  };
  form.addEventListener('input', event => {
    clearTimeout(timer);
    if (event.target.name !== 'q') {
      searches = false;
      countTags();
    }
    timer = setTimeout(search, 120);
  });
  form.q.addEventListener('focus', () => { searches = false; });
  form.addEventListener('submit', event => {
    event.preventDefault();
    search();
  });
  form.q.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || !form.q.value) return;
    event.preventDefault();
    form.q.value = '';
    search();
  });
  addEventListener('popstate', () => {
    clearTimeout(timer);
    fill(location);
    show(location.href);
  });
}

document.addEventListener('click', event => {
  const link = event.target.closest('a[data-list]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  // The account keeps the last order and number of rows.
  const { account } = document.getElementById('list').dataset;
  if (account && 'keep' in link.dataset) {
    fetch(account, { method: 'POST', body: new URL(link.href).searchParams, redirect: 'manual', keepalive: true }).catch(() => {});
  }
  if (form) fill(link.href);
  show(link.href, 'push');
});

// Keys move between the links of the rows.
const links = () => [...document.querySelectorAll('.row .title > a')].filter(link => link.closest('[data-id]'));
const row = () => document.activeElement?.closest('.row[data-id]');
function go(by) {
  const all = links();
  const at = all.indexOf(row()?.querySelector('.name a'));
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}
onKey('j', () => go(1));
onKey('k', () => go(-1));
export async function pauseOrResume(one) {
  if (!one || !document.querySelector('#list[data-writes]')) return;
  const resumes = one.dataset.status === 'paused';
  const url = new URL(resumes ? '../resume/' : '../pause/', one.querySelector('.name a').href);
  const answer = await fetch(url, { method: 'POST', headers: { 'X-Fragment': 'message' }, redirect: 'manual' }).catch(() => null);
  const name = one.querySelector('.name bdi').textContent;
  if (!answer?.ok) {
    const reason = answer ? 'Reload the page.' : 'The server does not answer.';
    say(`${name} was not ${resumes ? 'resumed' : 'paused'}. ${reason}`);
    return;
  }
  // The message has a button that undoes the action.
  say(parsed(await answer.text()), 30_000);
  // With a live stream the row is updated in place.
  if (document.getElementById('live')?.dataset.by !== 'stream') await show(location.href);
}
export async function copyUrl(one) {
  const link = one?.querySelector('.name a');
  if (!link) return;
  await copy(document.getElementById('list').dataset.ping + link.pathname.split('/').at(-3));
  link.focus();
  say('Ping URL copied.');
}
export async function pinOrUnpin(one) {
  const body = new URLSearchParams({ uuid: one.querySelector('.name a').pathname.split('/').at(-3) });
  const pinned = 'pinned' in one.dataset;
  if (!pinned) body.set('pinned', '1');
  const answer = await fetch(document.getElementById('list').dataset.pins, { method: 'POST', body, redirect: 'manual' }).catch(() => null);
  if (answer?.type !== 'opaqueredirect') return say(answer ? 'Not pinned.' : 'The server does not answer.');
  await show(location.href);
  say(pinned ? 'Unpinned.' : 'Pinned to the top.');
}
// A filter is saved as the list shows it now.
const saved = document.getElementById('filters');
saved?.addEventListener('submit', () => { saved.elements.query.value = location.search; });
onKey('p', () => pauseOrResume(row()));
onKey('c', () => copyUrl(row()));

// A click beside the links of a row opens its check.
document.addEventListener('click', event => {
  const one = event.target.closest('.row[data-id]');
  if (!one || event.defaultPrevented || event.target.closest('a, button, label, input') || !getSelection().isCollapsed) return;
  const link = one.querySelector('.name a');
  if (event.ctrlKey || event.metaKey) open(link.href); else link.click();
});

// Loads the menu of a row on demand.
document.addEventListener('click', async event => {
  const link = event.target.closest('a[data-more]');
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  (await import('./menu.js')).toggle(link);
});

// Selects rows; Shift selects a range.
const boxes = () => [...document.querySelectorAll('.row input[name=check]')];
let last = null;
function count() {
  const bar = document.getElementById('bulk');
  if (!bar) return;
  const label = bar.querySelector('[data-chosen]'), all = bar.querySelector('[name=all]');
  const number = boxes().filter(box => box.checked).length;
  bar.toggleAttribute('data-any', number > 0 || all.checked);
  label.hidden = false;
  label.textContent = all.checked ? 'All selected' : `${number} selected`;
  const page = document.querySelector('[data-page]');
  [page.checked, page.indeterminate] = [number > 0 && number === boxes().length, number > 0 && number < boxes().length];
}
document.addEventListener('change', event => { if (event.target.name === 'all') count(); });
document.addEventListener('click', event => {
  if (event.target.matches('[data-page]')) {
    for (const box of boxes()) box.checked = event.target.checked;
    count();
    return;
  }
  const box = event.target.closest('.row input[name=check]');
  if (!box) return;
  const all = boxes(), from = all.indexOf(last), to = all.indexOf(box);
  if (event.shiftKey && from >= 0) for (const one of all.slice(Math.min(from, to), Math.max(from, to) + 1)) one.checked = box.checked;
  last = box;
  count();
});
document.addEventListener('list', count);
count();
onKey('x', () => row()?.querySelector('input[name=check]')?.click());
onKey('Escape', () => {
  for (const box of [...boxes(), ...document.querySelectorAll('#bulk [name=all]')]) box.checked = false;
  count();
});
count();
