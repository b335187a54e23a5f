// Sends a test with the settings in the form of a channel, and shows the result below them. The input stays, secrets included.
import { swap } from './swap.js';

const button = document.querySelector('[data-try]');
let submits = false;
button?.addEventListener('click', async event => {
  const { form } = button;
  if (submits || !form.checkValidity()) return;
  event.preventDefault();
  button.disabled = true;
  document.getElementById('test-result').textContent = 'Sending a test…';
  const body = new URLSearchParams(new FormData(form));
  body.set(button.name, button.value);
  const answer = await fetch(form.action, { method: 'POST', body, headers: { 'X-Fragment': 'test' } }).catch(() => null);
  button.disabled = false;
  if (answer?.ok) return swap(await answer.text());
  // The page shows the errors of the form.
  submits = true;
  form.requestSubmit(button);
});
