// Replaces parts of a page with new versions from the server. Keeps the focus, the selection in a field, ticked boxes, open menus and the
// scroll position.
import { clock } from './time.js';

const policy = window.trustedTypes?.createPolicy('swap', { createHTML: text => text }) ?? { createHTML: text => text };

// Returns a part of the page at a URL, or null if the whole page has to be loaded, such as after signing out.
export async function part(url, name, signal) {
  const answer = await fetch(url, { headers: { 'X-Fragment': name }, signal });
  if (answer.redirected || answer.status === 401) {
    location.assign(url);
    return null;
  }
  if (answer.status >= 500) throw new Error(answer.statusText);
  return answer.text();
}

// The band above a page that is not current since `at`.
const { zone } = document.documentElement.dataset;
const band = Object.assign(document.createElement('p'), { className: 'notice down outdated' });
band.setAttribute('role', 'alert');
export function warn(text, at, label, url) {
  band.textContent = `${text} Shown as of ${clock(at, zone)}. `;
  if (label) band.append(Object.assign(document.createElement('a'), { href: url, textContent: label }));
  const main = document.getElementById('main');
  main.prepend(band);
  main.dataset.outdated = '';
}
export function unwarn() {
  band.remove();
  delete document.getElementById('main').dataset.outdated;
}
export const disconnected = at => `Disconnected since ${clock(at, zone)}, reconnecting`;

// Data with which an element is found again after its neighbours were replaced.
function address(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const near = element.closest('[id], [data-id]');
  if (!near) return null;
  const of = near.id ? `#${CSS.escape(near.id)}` : `[data-id="${CSS.escape(near.dataset.id)}"]`;
  const same = [...near.querySelectorAll(element.localName)];
  return { of, name: element.localName, at: same.indexOf(element) };
}
const found = where => typeof where === 'string' ? document.querySelector(where)
  : where && document.querySelector(where.of)?.querySelectorAll(where.name)[where.at];

// Parses HTML from the server.
export function parsed(html) {
  const fresh = document.createElement('template');
  fresh.innerHTML = policy.createHTML(html);
  return fresh.content;
}

// Waits until no dialog is open: a dialog that closes moves the focus back to its opener, which has to exist then.
export const undisturbed = () => new Promise(done => {
  const dialog = document.querySelector('dialog[open]');
  if (dialog) dialog.addEventListener('close', done); else done();
});

export function swap(html) {
  const fresh = typeof html === 'string' ? parsed(html) : html;
  const active = document.activeElement;
  const focused = active && active !== document.body ? address(active) : null;
  const span = active && 'selectionStart' in active && active.type !== 'checkbox' ? [active.selectionStart, active.selectionEnd] : null;
  const ticked = new Set([...document.querySelectorAll('input[name=check]:checked')].map(box => box.value));
  const opened = [...document.querySelectorAll('details[open]')].map(address);
  for (const element of [...fresh.children]) {
    const old = element.id && document.getElementById(element.id);
    if (old && !old.isEqualNode(element)) old.replaceWith(element);
  }
  for (const box of document.querySelectorAll('input[name=check]')) box.checked = ticked.has(box.value);
  for (const details of opened.map(found)) if (details) details.open = true;
  const again = found(focused);
  if (again && again !== document.activeElement) {
    again.focus({ preventScroll: true });
    if (span && span[0] !== null) again.setSelectionRange(...span);
  }
}
