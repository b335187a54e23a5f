// The menu of a row of the list. All rows share one menu.
import { copyUrl, pauseOrResume, pinOrUnpin } from './list.js';

const menu = document.getElementById('row-menu');
let opener = null;
const rowOf = () => opener?.closest('.row');

function close(focuses) {
  if (!opener) return;
  menu.hidden = true;
  opener.removeAttribute('aria-expanded');
  if (focuses) opener.focus();
  opener = null;
}

export function toggle(link) {
  const again = link === opener;
  close(again);
  if (again) return;
  opener = link;
  link.setAttribute('aria-expanded', 'true');
  for (const item of menu.querySelectorAll('[data-to]')) {
    const url = new URL(`../${item.dataset.to}/${link.search}`, link.href).href;
    if (item.localName === 'a') item.href = url; else if (item.type === 'submit') item.formAction = url;
    if (item.dataset.to === 'pin') item.textContent = 'pinned' in rowOf().dataset ? 'Unpin' : 'Pin to the top';
    if (item.dataset.other) item.textContent = rowOf().dataset.status === 'paused' ? item.dataset.other : 'Pause';
  }
  menu.hidden = false;
  const at = link.getBoundingClientRect(), { offsetWidth, offsetHeight } = menu;
  const below = at.bottom + offsetHeight < innerHeight || at.top < offsetHeight;
  menu.style.left = `${Math.max(8, at.right - offsetWidth) + scrollX}px`;
  menu.style.top = `${(below ? at.bottom : at.top - offsetHeight) + scrollY}px`;
  menu.querySelector('a').focus();
}

document.addEventListener('click', event => {
  if (event.target.closest('a[data-more]')) return;
  const item = event.target.closest('#row-menu [type=button]'), one = rowOf();
  close(Boolean(item));
  if (item?.dataset.to === 'pause') pauseOrResume(one);
  if (item?.dataset.to === 'copy-url') copyUrl(one);
  if (item?.dataset.to === 'pin') pinOrUnpin(one);
});
menu.addEventListener('keydown', event => {
  if (event.key === 'Escape') { event.stopPropagation(); close(true); }
});
menu.addEventListener('focusout', event => { if (event.relatedTarget && !menu.contains(event.relatedTarget)) close(); });
// A reloaded list has the row again or no longer has it.
document.addEventListener('list', () => {
  if (!opener || opener.isConnected) return;
  const again = document.querySelector(`.row[data-id="${rowOf().dataset.id}"] a[data-more]`);
  if (!again) return close();
  opener = again;
  again.setAttribute('aria-expanded', 'true');
});
