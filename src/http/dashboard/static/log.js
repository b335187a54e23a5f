// Shows the body of a ping below its row when the row is opened. Without this script its page shows it.
import { part, parsed } from './swap.js';

document.addEventListener('toggle', async event => {
  if (!event.target.matches('.log details[open]')) return;
  const inside = event.target.querySelector('.inside'), link = inside.querySelector('a[data-body]');
  if (!link || inside.querySelector('pre')) return;
  const html = await part(link.href, 'body').catch(() => null);
  if (html && !inside.querySelector('pre')) inside.append(parsed(html));
}, true);
