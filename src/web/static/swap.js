// Puts parts of a page that the server has made anew in the place of the old ones. What somebody was doing stays as it was: focus, what is
// selected in a field, what is ticked, which menus are open, and where the page is scrolled to.
const policy = window.trustedTypes?.createPolicy('swap', { createHTML: text => text }) ?? { createHTML: text => text };

// A part of the page at a URL, or nothing when the page has to be loaded as a whole, as after signing out.
export async function part(url, name, signal) {
  const answer = await fetch(url, { headers: { 'X-Fragment': name }, signal });
  if (answer.redirected || answer.status === 401) {
    location.assign(url);
    return null;
  }
  return answer.text();
}

// What an element is found by after its neighbours were replaced.
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

// What the server has made, as elements.
export function parsed(html) {
  const fresh = document.createElement('template');
  fresh.innerHTML = policy.createHTML(html);
  return fresh.content;
}

// Until no dialog is open. One that closes leads back to the element that it was opened from, which has to be there.
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
