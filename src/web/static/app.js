// What every page gains by script: menus that close, copying, keys, notices that leave the address, times that stay true.
import { keepTimes } from './time.js';

const root = document.documentElement;

// Menus: one open at a time; Escape, or a click elsewhere, closes it.
const open = () => document.querySelector('details.menu[open]');
document.addEventListener('click', event => {
  for (const menu of document.querySelectorAll('details.menu[open]')) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape' || !open()) return;
  const menu = open();
  menu.open = false;
  menu.querySelector('summary').focus();
  event.stopImmediatePropagation();
});

// The menu of projects says how their checks are, once it is opened.
for (const menu of document.querySelectorAll('[data-counts]')) {
  menu.addEventListener('toggle', async () => {
    if (!menu.open) return;
    const { part, swap } = await import('./swap.js');
    const html = await part(menu.dataset.counts, 'switcher').catch(() => null);
    if (html !== null && menu.open) swap(html);
  });
}

// A notice says what was done. Loading the page again does not say it again.
const here = new URL(location);
if (here.searchParams.has('m')) {
  here.searchParams.delete('m');
  history.replaceState(history.state, '', here);
}

// The way back to a list leads to the list as it was seen last.
for (const link of document.querySelectorAll('a[data-back]')) link.search = sessionStorage.getItem(link.pathname) ?? link.search;

// Copying. Pages that came by plain HTTP have no clipboard: there the text is selected and the browser asked to copy it.
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'only-read';
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
}

// Says something to whoever does not see the screen, and to whoever does.
export function say(text) {
  const place = document.getElementById('said');
  if (!place) return;
  place.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { place.textContent = ''; }, 4000);
}

for (const button of document.querySelectorAll('[data-copy], [data-copy-of]')) button.hidden = false;
document.addEventListener('click', async event => {
  const button = event.target.closest('[data-copy], [data-copy-of]');
  if (!button) return;
  const focused = document.activeElement;
  await copy(button.dataset.copy ?? document.getElementById(button.dataset.copyOf).textContent.trim());
  focused?.focus();
  say('Copied.');
});

// Keys. Each is a link or a function; none counts while somebody types, or in a dialog, which has keys of its own.
const keys = new Map();
export const onKey = (key, act) => keys.set(key, act);
export const typing = target => target.closest('input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]');
let before = '';
document.addEventListener('keydown', event => {
  if (root.dataset.keys === 'off' || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || help?.open) return;
  const act = keys.get(before + event.key) ?? keys.get(event.key);
  const link = document.querySelector(`[data-key="${CSS.escape(before + event.key)}"]`);
  before = event.key === 'g' && !before ? 'g ' : '';
  if (!act && !link) return;
  event.preventDefault();
  if (act) act(); else link.click();
});
const help = document.getElementById('keys');
if (help) {
  onKey('?', () => help.showModal());
  help.addEventListener('click', event => { if (event.target === help) help.close(); });
}
const search = document.querySelector('[type=search]');
if (search) onKey('/', () => search.select());

keepTimes();
