// Updates the page of a check in place: status, buttons and log. A log that the user reads is not replaced; a button offers the new pings.
import { say } from './app.js';
import { ask, onFrame, picture, seldom } from './live.js';
import { parsed, swap, undisturbed } from './swap.js';

const log = () => document.getElementById('log');
const standing = () => document.getElementById('standing');

function isRead() {
  const own = log(), chosen = getSelection();
  return own.querySelector('li details[open]') || own.contains(document.activeElement) || own.getBoundingClientRect().top < 0
    || (!chosen.isCollapsed && own.contains(chosen.anchorNode));
}

function offer(fresh) {
  const number = [...fresh.querySelectorAll('li[id]')].filter(entry => !document.getElementById(entry.id)).length;
  if (!number) return;
  let button = log().querySelector('[data-new]');
  if (!button) {
    button = document.createElement('button');
    button.dataset.new = '';
    button.type = 'button';
    log().querySelector('.head h2').after(button);
  }
  button.textContent = `${number} new ${number === 1 ? 'ping' : 'pings'}`;
  button.onclick = () => log().replaceWith(fresh);
}

const refresh = seldom(async () => {
  const html = await ask('check');
  if (html === null) return;
  await undisturbed();
  const before = standing().dataset.status, content = parsed(html), fresh = content.querySelector('#log');
  if (isRead()) {
    fresh.remove();
    offer(fresh);
  }
  swap(content);
  const { status } = standing().dataset;
  picture(status === 'down' || status === 'late' ? status : 'up');
  if (before !== status) say(standing().querySelector('strong').textContent);
}, 1);

// Another period of the timeline.
document.addEventListener('click', event => {
  const link = event.target.closest('a[data-period]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  history.replaceState(history.state, '', link.href);
  refresh();
});

onFrame(() => refresh());
// The page contains relative times.
setInterval(() => { if (!document.hidden) refresh(); }, 60000);

// The snippet that was opened last is open on the next page.
const last = document.getElementById(localStorage.getItem('snippet'))?.closest('.tabs details');
if (last) last.open = true;
document.querySelector('.tabs').addEventListener('toggle', ({ target }) => {
  if (target.open) localStorage.setItem('snippet', target.querySelector('pre').id);
}, true);
