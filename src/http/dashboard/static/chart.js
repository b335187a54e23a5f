// Names the mark of a chart that is under the pointer, touched, or chosen by the arrow keys, in the caption below the chart.
const captions = new WeakMap();
const marks = chart => [...chart.querySelectorAll('title')].map(title => title.parentElement);

function name(chart, mark) {
  const caption = chart.parentElement.querySelector('[data-caption]');
  if (!caption) return;
  if (!captions.has(caption)) captions.set(caption, [...caption.childNodes].map(node => node.cloneNode(true)));
  for (const one of chart.querySelectorAll('[data-named]')) delete one.dataset.named;
  if (mark) mark.dataset.named = '';
  caption.replaceChildren(...(mark ? [mark.querySelector('title').textContent] : captions.get(caption).map(node => node.cloneNode(true))));
}

const chartOf = event => event.target.closest?.('[data-chart]');
function point(event) {
  const chart = chartOf(event);
  const mark = chart && marks(chart).find(one => one.contains(event.target));
  if (mark) name(chart, mark);
}
document.addEventListener('pointerover', point);
document.addEventListener('click', point);
document.addEventListener('pointerout', event => {
  const chart = chartOf(event);
  if (chart && !chart.contains(event.relatedTarget) && document.activeElement !== chart) name(chart);
});
document.addEventListener('focusout', event => {
  const chart = chartOf(event);
  if (chart) name(chart);
});
document.addEventListener('keydown', event => {
  const chart = chartOf(event), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!chart || !step) return;
  event.preventDefault();
  const all = marks(chart), at = all.findIndex(mark => 'named' in mark.dataset);
  name(chart, all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)]);
});
