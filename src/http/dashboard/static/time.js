// Updates relative times while the page is open, in the same words as the server.
const skew = Number(document.documentElement.dataset.now) * 1000 - Date.now() || 0;

export const now = () => Date.now() + skew;

export function words(at) {
  const away = (at - now()) / 1000;
  const seconds = Math.floor(Math.abs(away));
  const far = seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
    : seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : seconds < 1209600 ? `${Math.floor(seconds / 86400)} d` : '';
  if (seconds < 5 && away < 1) return 'just now';
  return far && (away < 0 ? `${far} ago` : `in ${far}`);
}

// Exact time with its zone, as the server formats it. A browser may not know the zone.
function exact(at, zone) {
  const said = zone => new Date(at).toLocaleString('en-GB', { timeZone: zone, dateStyle: 'medium', timeStyle: 'medium' }).replace('Sept', 'Sep');
  try { return `${said(zone)} (${zone})`; } catch { return `${said('UTC')} (UTC)`; }
}

// Time of day, to the minute.
export function clock(at, zone) {
  const said = timeZone => new Date(at).toLocaleTimeString('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
  try { return said(zone); } catch { return `${said('UTC')} UTC`; }
}

// Element for a time in seconds since 1970, as the server renders it.
export function moment(seconds, zone) {
  const time = document.createElement('time'), at = seconds * 1000;
  time.dateTime = `${new Date(at).toISOString().slice(0, 19)}+00:00`;
  time.title = exact(at, zone);
  time.textContent = words(at) || time.title.split(',')[0];
  return time;
}

function refresh() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const relative = words(Date.parse(time.dateTime));
    const text = time.hasAttribute('data-elapsed') ? relative.replace(/ ago$/, '') : relative;
    if (text && !time.hasAttribute('data-fixed') && time.textContent !== text) time.textContent = text;
  }
}

export function keepTimes() {
  setInterval(() => { if (!document.hidden) refresh(); }, 5000);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
}
