// Scripts of every page: menus, copying, keyboard shortcuts, messages that leave the URL, current times.
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

// The menu of projects loads the counts of their checks when it is opened.
for (const menu of document.querySelectorAll('[data-counts]')) {
  menu.addEventListener('toggle', async () => {
    if (!menu.open) return;
    const { part, swap } = await import('./swap.js');
    const html = await part(menu.dataset.counts, 'switcher').catch(() => null);
    if (html !== null && menu.open) swap(html);
  });
}

// An account without a time zone gets that of the browser. The page is loaded again with it.
const { zoneTo } = root.dataset;
if (zoneTo) {
  const body = new URLSearchParams({ zone: Intl.DateTimeFormat().resolvedOptions().timeZone ?? '' });
  fetch(zoneTo, { method: 'POST', body, redirect: 'manual' })
    .then(answer => { if (answer.type === 'opaqueredirect') location.reload(); })
    .catch(() => {});
}

// Removes the message of an action from the URL, so that a reload does not repeat it.
const here = new URL(location);
if (here.searchParams.has('m')) {
  for (const name of ['m', 'undo', 'changed', 'same', 'gone', 'refused']) here.searchParams.delete(name);
  history.replaceState(history.state, '', here);
}

// An action can be undone for 30 seconds. Then its button disappears.
setTimeout(() => document.querySelectorAll('main form[data-undo]').forEach(form => form.remove()), 30_000);

// Links back to a list keep its last filter, order and page.
for (const link of document.querySelectorAll('a[data-back]')) link.search = sessionStorage.getItem(link.pathname) ?? link.search;

// Shows the choice in a form of filters at once.
for (const form of document.querySelectorAll('form[data-auto]')) {
  const chosen = sessionStorage.getItem('chosen');
  sessionStorage.removeItem('chosen');
  if (chosen) form.elements[chosen]?.focus();
  form.addEventListener('change', ({ target }) => {
    sessionStorage.setItem('chosen', [...form.elements].indexOf(target));
    form.requestSubmit();
  });
}

// Copies a text. Pages over plain HTTP have no clipboard API: there the text is selected and copied by a command.
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

// Shows a short message, a text or nodes, which screen readers announce.
export function say(message, duration = 4_000) {
  const place = document.getElementById('said');
  if (!place) return;
  place.replaceChildren(message);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => place.replaceChildren(), duration);
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

// Keyboard shortcuts: links or functions. They are off in input fields and in dialogs.
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
// Ctrl+K opens the search over everything, also from a field.
const palette = document.querySelector('[data-palette]');
const find = async event => {
  event.preventDefault();
  (await import('./palette.js')).open();
};
palette?.addEventListener('click', event => { if (!event.ctrlKey && !event.metaKey) find(event); });
document.addEventListener('keydown', event => {
  if (palette && event.key === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && root.dataset.keys !== 'off') find(event);
});
const search = document.querySelector('main [type=search]');
if (search) onKey('/', () => search.select());

keepTimes();
