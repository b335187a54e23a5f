// Tests if event streams reach this browser: some proxies buffer responses.
const place = document.getElementById('events');
const TIMEOUT_MS = 5000;

async function begins() {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), TIMEOUT_MS);
  try {
    const answer = await fetch(place.dataset.events, { headers: { Accept: 'text/event-stream' }, signal: over.signal });
    const { value } = await answer.body.getReader().read();
    return answer.ok && value?.length > 0;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

if (place) {
  place.textContent = 'testing…';
  place.textContent = await begins() ? place.dataset.yes : place.dataset.no;
}
