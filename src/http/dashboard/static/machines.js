// Updates the visible page about the machines of a cluster.
import { part, swap, undisturbed } from './swap.js';

const EVERY = 5_000;

async function refresh() {
  if (document.hidden) return;
  const html = await part(location.href, 'machines').catch(() => null);
  if (!html?.includes('id="machines"')) return;
  await undisturbed();
  swap(html);
}

setInterval(refresh, EVERY);
document.addEventListener('visibilitychange', refresh);
