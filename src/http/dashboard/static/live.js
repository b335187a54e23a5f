// Sends a page the changes on the server: by an event stream while the page is visible, by polling while it is hidden or where streams do
// not work. Events have ids, so that the next connection brings the missed ones. While the page is not current, a band above it says so.
import { disconnected, unwarn, warn } from './swap.js';
import { now } from './time.js';

const place = document.getElementById('live');
const listeners = [];
// Maximum number of tabs with a stream. Browsers open six connections to a host.
const MOST_STREAMS = 4;
const EVERY = 15, HIDDEN_EVERY = 60, FIRST_EVERY = 3;
// Seconds between attempts to reach a server that does not answer, during the first minute, and before a band says so.
const RETRY_EVERY = 3, BAND_AFTER = 4;

let since = place?.dataset.since, source = null, timer, failures = 0, polls = 0, lostAt = null, isUnreachable = false, isOver = false;

// Registers a function that is called with every frame.
export function onFrame(listener) {
  listeners.push(listener);
  if (place && listeners.length === 1) {
    place.hidden = false;
    begin();
  }
}
const tell = frame => { for (const listener of listeners) listener(frame); };

// The icon of the tab, which is grey while disconnected.
let shown = null;
const icon = document.querySelector('link[rel=icon]');
function draw(name) {
  const href = icon.getAttribute('href').replace(/favicon-\w+/, `favicon-${name}`);
  if (href !== icon.getAttribute('href')) icon.setAttribute('href', href);
}
export function picture(name) {
  shown = name;
  if (lostAt === null) draw(name);
}

function say(text) {
  if (place.textContent !== text) place.textContent = text;
}
let bandTimer = null;

function connected(text) {
  failures = 0;
  lostAt = null;
  clearTimeout(bandTimer);
  bandTimer = null;
  unwarn();
  if (shown) draw(shown);
  place.dataset.state = 'on';
  place.dataset.by = source ? 'stream' : 'asking';
  say(text);
}
function lost() {
  lostAt ??= now();
  const text = disconnected(lostAt);
  bandTimer ??= setTimeout(warn, BAND_AFTER * 1000, `${text}.`, lostAt);
  shown ??= /favicon-(\w+)/.exec(icon.getAttribute('href'))[1];
  draw('off');
  place.dataset.state = 'off';
  say(text);
}

// Returns the current version of a part of this page, or null.
export async function ask(name) {
  const answer = await fetch(location.href, { headers: { 'X-Fragment': name } }).catch(() => null);
  if (answer?.status === 401) over();
  if (answer?.status === 403 || answer?.status === 404) removed();
  return answer?.ok && !answer.redirected ? answer.text() : null;
}

// After the session or the access has ended the page keeps its contents and the input.
function stop(text, label, url) {
  if (isOver) return;
  isOver = true;
  end();
  clearTimeout(bandTimer);
  warn(text, lostAt ?? now(), label, url);
  say('Not updated');
  place.dataset.state = 'off';
}
const over = () => stop('You were signed out.', 'Sign in again', location.href);
const removed = () => stop('This page no longer exists, or you no longer have access to it.', 'All projects', document.querySelector('.mark').href);

function url() {
  const url = new URL(place.dataset.events, location);
  url.searchParams.set('since', since);
  return url;
}

function end() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

function stream() {
  end();
  const mine = source = new EventSource(url());
  // Some proxies buffer events.
  timer = setTimeout(() => { if (mine.readyState !== EventSource.OPEN) poll(); }, 5000);
  mine.onopen = () => connected('Live');
  mine.addEventListener('checks', event => {
    since = event.lastEventId;
    tell(JSON.parse(event.data));
  });
  mine.addEventListener('over', over);
  mine.onerror = () => {
    if (mine !== source) return;
    lost();
    if (mine.readyState === EventSource.CLOSED || ++failures >= 3) poll();
  };
}

async function poll() {
  end();
  const every = document.hidden ? HIDDEN_EVERY : document.getElementById('waiting') ? FIRST_EVERY : EVERY;
  try {
    const answer = await fetch(url(), { headers: { Accept: 'application/json', 'X-Fragment': 'events' } });
    if (answer.status === 401) return over();
    if (answer.status === 403 || answer.status === 404) return removed();
    if (!answer.ok) throw new Error(answer.statusText);
    const { id, frames } = await answer.json();
    since = id;
    connected(`Every ${every} s`);
    frames.forEach(tell);
    // The server answers again: a stream can be opened at once.
    const isBack = isUnreachable;
    isUnreachable = false;
    if (isBack && !document.hidden) {
      begin();
      return;
    }
  } catch {
    isUnreachable = true;
    lost();
  }
  if (isOver || source) return;
  clearTimeout(timer);
  if (isUnreachable && now() - lostAt < 60_000) {
    timer = setTimeout(poll, RETRY_EVERY * 1000);
    return;
  }
  // Tries a stream again after a minute.
  timer = setTimeout(() => (++polls % 4 || document.hidden ? poll() : begin()), every * 1000);
}

// Tabs count each other, because pages over plain HTTP have no locks. After a late answer this tab closes its stream again.
const tabs = new BroadcastChannel('overdue streams');
const own = Math.random();
let others = 0;
tabs.onmessage = ({ data: { who, to } }) => {
  if (who && source) tabs.postMessage({ to: who });
  if (to === own && ++others >= MOST_STREAMS && source) poll();
};
async function begin() {
  if (isOver) return;
  if (document.hidden) return poll();
  others = 0;
  tabs.postMessage({ who: own });
  await new Promise(done => setTimeout(done, 60));
  if (others < MOST_STREAMS) stream(); else poll();
}

let hideTimer;
document.addEventListener('visibilitychange', () => {
  if (!place || !listeners.length || isOver) return;
  clearTimeout(hideTimer);
  if (document.hidden) hideTimer = setTimeout(poll, 10000);
  else if (!source) begin();
});
// A page in the back/forward cache keeps no connection.
addEventListener('pagehide', () => { if (place) end(); });
addEventListener('pageshow', event => { if (event.persisted && listeners.length) begin(); });

// Limits how often a function runs: at most once in this number of seconds, less often if it takes long. `spread` delays the calls of many
// open pages by different times.
export function seldom(act, seconds) {
  let due = null, next = 0;
  return (spread = 0) => {
    due ??= setTimeout(async () => {
      const begun = performance.now();
      due = null;
      next = Infinity;
      await act();
      next = performance.now() + Math.max(seconds * 1000, 10 * (performance.now() - begun));
    }, Math.max(Math.random() * spread, Number.isFinite(next) ? next - performance.now() : seconds * 1000));
  };
}
