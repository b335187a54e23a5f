// Updates a public status page while it is visible.
import { parsed, swap } from './swap.js';

const EVERY = 60_000;

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href).catch(() => null);
  const fresh = answer?.ok && parsed(await answer.text()).querySelector('#status');
  if (fresh) swap({ children: [fresh] });
}

setInterval(refresh, EVERY);
document.addEventListener('visibilitychange', refresh);
