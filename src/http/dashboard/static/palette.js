// Dialog that finds checks, projects, pages and actions.
import { part, parsed } from './swap.js';

const opener = document.querySelector('[data-palette]');
const dialog = document.getElementById('palette');
const field = dialog.querySelector('input');
const found = () => document.getElementById('found');
const links = () => [...found().querySelectorAll('a')];
let request = new AbortController(), timer;

// The selected result, which Enter opens. The focus stays in the field.
function select(at) {
  const all = links();
  for (const link of all) link.removeAttribute('aria-selected');
  const one = all[(at + all.length) % all.length];
  one?.setAttribute('aria-selected', 'true');
  one?.scrollIntoView({ block: 'nearest' });
  if (one) field.setAttribute('aria-activedescendant', one.id); else field.removeAttribute('aria-activedescendant');
}
const selected = () => links().findIndex(link => link.hasAttribute('aria-selected'));

async function search() {
  request.abort();
  const mine = request = new AbortController();
  const url = new URL(opener.href);
  url.searchParams.set('q', field.value);
  const html = await part(url, 'results', mine.signal).catch(() => null);
  if (html === null || mine.signal.aborted) return;
  found().replaceWith(parsed(html));
  select(0);
}

field.addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(search, 80);
});
field.addEventListener('keydown', event => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    select(selected() + (event.key === 'ArrowDown' ? 1 : -1));
  }
  // In a search field, Escape would only clear the text.
  if (event.key === 'Escape') {
    event.preventDefault();
    dialog.close();
  }
  if (event.key === 'Enter') {
    event.preventDefault();
    links()[selected()]?.click();
  }
});
dialog.addEventListener('click', event => { if (event.target === dialog) dialog.close(); });

export function open() {
  if (dialog.open) return;
  dialog.showModal();
  field.select();
  search();
}
