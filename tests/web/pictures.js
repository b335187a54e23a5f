// The pictures of the README: the list and a check, light and dark. Made when asked for: PICTURES=src/docs .ci/browser BINARY pictures
'use strict';
const path = require('node:path');

exports.whenNamed = true;

exports.go = async ({ server, open, out, expect }) => {
  const channel = await fetch(`${server.base}/api/overdue/v1/channels`, {
    method: 'POST', headers: { 'X-Api-Key': server.key }, body: JSON.stringify({ kind: 'ntfy', name: 'phone', settings: { topic: 'alerts' } }),
  });
  expect(channel.ok, await channel.text());
  const made = (settings, ...pings) => server.check({ channels: '*', ...settings }, ...pings);
  const ups = number => Array(number).fill('');
  const backup = await made({ name: 'Nightly backup', tags: 'nas prod', schedule: '30 3 * * *', tz: 'Europe/Riga', grace: 900, desc: 'Restic to the NAS in the cellar. How to restore: https://wiki.example.org/restore' }, ...ups(28), '/fail', ...ups(6));
  for (let run = 0; run < 12; run += 1) {
    await fetch(`${backup.ping_url}/start`, { method: 'POST' });
    await new Promise(done => setTimeout(done, 120 + 60 * (run % 5)));
    await fetch(backup.ping_url, { method: 'POST', body: 'snapshot saved' });
  }
  await fetch(`${backup.ping_url}/start`, { method: 'POST' });
  await fetch(`${backup.ping_url}/3`, { method: 'POST', body: 'repository is already locked' });
  await made({ name: 'certbot renew', tags: 'mail', timeout: 43_200 }, ...ups(20), '/fail');
  await made({ name: 'photo sync', tags: 'nas eu', timeout: 300 }, ...ups(32), '/start');
  await made({ name: 'dns zone push', timeout: 3600 }, ...ups(30));
  await made({ name: 'database dump', tags: 'prod', schedule: '0 * * * *', tz: 'UTC' }, ...ups(25), '/fail', ...ups(6));
  await made({ name: 'mail queue', tags: 'mail', timeout: 600 }, ...ups(32));
  await made({ name: 'disk health', tags: 'nas', timeout: 86_400 }, ...ups(14));
  await made({ name: 'renew leases', tags: 'eu', timeout: 1800 });
  const paused = await made({ name: 'zfs scrub', tags: 'nas', schedule: 'Sun 02:00', tz: 'UTC' }, ...ups(9));
  await server.api('POST', `/checks/${paused.uuid}/pause`);
  for (const colorScheme of ['light', 'dark']) {
    const page = await open({ colorScheme, viewport: { width: 1200, height: 640 }, timezoneId: 'Europe/Riga' });
    await page.goto('/');
    await page.waitForSelector('#live[data-state=on]');
    await page.screenshot({ path: path.join(out, `dashboard-list-${colorScheme}.png`) });
    await page.goto(`/checks/${backup.uuid}/details/`);
    await page.waitForSelector('#live[data-state=on]');
    await page.screenshot({ path: path.join(out, `dashboard-check-${colorScheme}.png`) });
  }
};
