// Updates the visible list of projects: counts, order, title and icon.
import { part, swap, undisturbed } from './swap.js';

const EVERY = 15_000;
const icon = document.querySelector('link[rel=icon]');

async function refresh() {
  if (document.hidden) return;
  const html = await part(location.href, 'projects').catch(() => null);
  if (html === null) return;
  await undisturbed();
  swap(html);
  const { down, picture } = document.getElementById('projects').dataset;
  document.title = down + document.title.replace(/^\d+ down – /, '');
  icon.setAttribute('href', icon.getAttribute('href').replace(/favicon-\w+/, `favicon-${picture}`));
}

if (document.getElementById('projects')) {
  setInterval(refresh, EVERY);
  document.addEventListener('visibilitychange', refresh);
}
