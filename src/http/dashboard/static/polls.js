// Updates a visible page without a live stream: the projects, the machines, and the list of the checks of all projects. While the server
// does not answer, a band says so.
import { disconnected, part, swap, undisturbed, unwarn, warn } from './swap.js';
import { now } from './time.js';

const name = ['projects', 'machines', 'list'].find(id => document.getElementById(id));
const icon = document.querySelector('link[rel=icon]');
let lostAt = null;

async function refresh() {
  if (document.hidden || document.querySelector('#bulk :focus')) return;
  const { href } = location;
  let html;
  try {
    html = await part(href, name);
  } catch {
    lostAt ??= now();
    warn(`${disconnected(lostAt)}.`, lostAt);
    return;
  }
  if (lostAt) unwarn();
  lostAt = null;
  await undisturbed();
  // Another list may have been loaded in the meantime.
  if (!html?.includes(`id="${name}"`) || href !== location.href) return;
  swap(html);
  if (name !== 'projects') return;
  const { down, picture } = document.getElementById(name).dataset;
  document.title = down + document.title.replace(/^\d+ down – /, '');
  icon.setAttribute('href', icon.getAttribute('href').replace(/favicon-\w+/, `favicon-${picture}`));
}

if (name) {
  setInterval(refresh, name === 'machines' ? 5_000 : 15_000);
  document.addEventListener('visibilitychange', refresh);
}
