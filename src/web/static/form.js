// Forms: a preview while somebody types, a slider for lengths of time, a proposed slug, and a question before typed words are lost.
import { part, swap } from './swap.js';

for (const form of document.querySelectorAll('form[data-edit]')) {
  const first = new URLSearchParams(new FormData(form)).toString();
  let sent = false;
  form.addEventListener('submit', () => { sent = true; });
  window.addEventListener('beforeunload', event => {
    if (!sent && new URLSearchParams(new FormData(form)).toString() !== first) event.preventDefault();
  });

  const { preview } = form.dataset;
  if (preview) {
    let timer, asked = new AbortController();
    form.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        asked.abort();
        asked = new AbortController();
        const url = new URL(preview, location);
        url.search = new URLSearchParams(new FormData(form));
        try {
          const html = await part(url, 'preview', asked.signal);
          if (html !== null) swap(html);
        } catch (error) {
          if (error.name !== 'AbortError') throw error;
        }
      }, 250);
    });
    for (const button of form.querySelectorAll('button[name=preview]')) button.hidden = true;
  }

  for (const length of form.querySelectorAll('[data-length]')) slide(length);

  // A slug follows the name until somebody writes one.
  const { name, slug } = form.elements;
  if (slug && name && !slug.value) {
    let own = false;
    slug.addEventListener('input', () => { own = slug.value !== ''; });
    name.addEventListener('input', () => {
      if (own) return;
      slug.value = name.value.normalize('NFKD').toLowerCase().replace(/[^a-z0-9_\s-]/g, '').trim().replace(/[\s-]+/g, '-');
    });
  }
}

// A slider beside a number and its unit: 60 steps from a minute to a year, each a quarter longer than the one before.
function slide(length) {
  const [number, unit] = length.querySelectorAll('input, select');
  const secs = { s: 1, min: 60, h: 3600, d: 86400 };
  const range = document.createElement('input');
  Object.assign(range, { type: 'range', max: 59, ariaLabel: length.dataset.length });
  const say = () => { range.ariaValueText = `${number.value} ${unit.selectedOptions[0].textContent}`; };
  const follow = () => {
    range.value = 59 * Math.log(Math.max(1, number.value * secs[unit.value] / 60)) / Math.log(525600);
    say();
  };
  range.addEventListener('input', () => {
    const wanted = 60 * 525600 ** (range.value / 59);
    unit.value = wanted < 3570 ? 'min' : wanted < 84600 ? 'h' : 'd';
    number.value = Math.round(wanted / secs[unit.value]);
    say();
  });
  number.addEventListener('input', follow);
  unit.addEventListener('input', follow);
  follow();
  length.after(range);
}
