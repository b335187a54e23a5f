// Forms: a preview during input, a slider for durations, a proposed slug, and a warning before input is lost.
import { say } from './app.js';
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
    let timer, request = new AbortController();
    form.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        request.abort();
        request = new AbortController();
        const url = new URL(preview, location);
        url.search = new URLSearchParams(new FormData(form));
        try {
          const html = await part(url, 'preview', request.signal);
          if (html !== null) swap(html);
        } catch (error) {
          // The next input tries again.
          if (error.name !== 'AbortError') say('The preview is not current: the server does not answer.');
        }
      }, 250);
    });
    for (const button of form.querySelectorAll('button[name=preview]')) button.hidden = true;
  }

  for (const length of form.querySelectorAll('[data-length]')) slide(length);

  // The slug follows the name until the user edits the slug.
  const { name, slug } = form.elements;
  if (slug && name && !slug.value) {
    let isEdited = false;
    slug.addEventListener('input', () => { isEdited = slug.value !== ''; });
    name.addEventListener('input', () => {
      if (isEdited) return;
      slug.value = name.value.normalize('NFKD').toLowerCase().replace(/[^a-z0-9_\s-]/g, '').trim().replace(/[\s-]+/g, '-');
    });
  }
}

// Adds a slider next to a number and its unit: 60 steps from a minute to a year, each a quarter longer than the previous one.
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
    const seconds = 60 * 525600 ** (range.value / 59);
    unit.value = seconds < 3570 ? 'min' : seconds < 84600 ? 'h' : 'd';
    number.value = Math.round(seconds / secs[unit.value]);
    say();
  });
  number.addEventListener('input', follow);
  unit.addEventListener('input', follow);
  follow();
  length.after(range);
}
