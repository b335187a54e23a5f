// The list without loading its page anew: searching, filtering, sorting and paging; moving from row to row by keys.
import { copy, onKey, say } from './app.js';
import { part, swap, undisturbed } from './swap.js';

const form = document.querySelector('form.search');
const line = document.getElementById('loading');
let asked = new AbortController();

// It may be a form's answer.
history.replaceState(null, '', document.getElementById('list')?.dataset.at);
// Pages of checks lead back to the list as it was seen last.
const seen = () => sessionStorage.setItem(location.pathname, location.search);
seen();

// Shows the list at this URL, and that a slow one is waited for.
export async function show(url, remember = true) {
  asked.abort();
  const mine = asked = new AbortController();
  const slow = setTimeout(() => line?.removeAttribute('hidden'), 150);
  try {
    const html = await part(url, 'list', mine.signal);
    if (html === null) return;
    await undisturbed();
    if (mine.signal.aborted) return;
    swap(html);
    if (remember) history.replaceState(null, '', url);
    seen();
    document.dispatchEvent(new Event('list'));
  } catch (error) {
    // Somebody is on the way to another page.
    if (error.name !== 'AbortError') say('Not done. Load the page again.');
  } finally {
    clearTimeout(slow);
    if (mine === asked) line?.setAttribute('hidden', '');
  }
}

// Without checks, the first one is waited for.
document.getElementById('waiting')?.removeAttribute('hidden');

function wanted() {
  const url = new URL(location);
  for (const name of ['q', 'tag', 'page']) url.searchParams.delete(name);
  const fields = new FormData(form);
  if (fields.get('q').trim()) url.searchParams.set('q', fields.get('q').trim());
  for (const tag of fields.getAll('tag')) url.searchParams.append('tag', tag);
  return url;
}

if (form) {
  let timer;
  form.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => show(wanted()), 120);
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    clearTimeout(timer);
    show(wanted());
  });
  form.q.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || !form.q.value) return;
    event.preventDefault();
    form.q.value = '';
    show(wanted());
  });
}

document.addEventListener('click', event => {
  const link = event.target.closest('a[data-list]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  // How it was sorted last, and its number of rows, is kept in the account.
  const { account } = document.getElementById('list').dataset;
  if (account && 'keep' in link.dataset) {
    fetch(account, { method: 'POST', body: new URL(link.href).searchParams, redirect: 'manual', keepalive: true }).catch(() => {});
  }
  show(link.href);
});

// Keys: rows are gone through by their links.
const links = () => [...document.querySelectorAll('.row .name a')];
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
  // What is done leads to the check, and nobody goes there.
  const answer = await fetch(url, { method: 'POST', headers: { 'X-Fragment': 'list' }, redirect: 'manual' });
  say(answer.type !== 'opaqueredirect' ? 'Not done. Load the page again.' : resumes ? 'Resumed.' : 'Paused.');
  // Where changes are shown as they happen, the row stays where it is.
  if (document.getElementById('live')?.dataset.by !== 'stream') await show(location.href, false);
}
export async function copyUrl(one) {
  const link = one?.querySelector('.name a');
  if (!link) return;
  await copy(document.getElementById('list').dataset.ping + link.pathname.split('/').at(-3));
  link.focus();
  say('Ping URL copied.');
}
onKey('p', () => pauseOrResume(row()));
onKey('c', () => copyUrl(row()));

// The menu of a row comes when it is first asked for.
document.addEventListener('click', async event => {
  const link = event.target.closest('a[data-more]');
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  (await import('./menu.js')).toggle(link);
});

// Choosing rows, with Shift a range.
const boxes = () => [...document.querySelectorAll('.row input[name=check]')];
let last = null;
function count() {
  const bar = document.getElementById('bulk');
  if (!bar) return;
  const [told, all] = [bar.querySelector('[data-chosen]'), bar.querySelector('[name=all]')];
  const number = boxes().filter(box => box.checked).length;
  bar.toggleAttribute('data-any', number > 0 || all.checked);
  told.hidden = false;
  told.textContent = all.checked ? 'All selected' : `${number} selected`;
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
