// A server that stops while a page is open: the page says since when it is not current, and is live again soon after the server is back.
'use strict';

exports.go = async ({ server, open, expect, findings, out }) => {
  const check = await server.check({ name: 'backup' }, '');
  await server.check({ name: 'sync' }, '', '/3');
  const page = await open();
  await page.goto('/');
  await page.waitForSelector('#live[data-by=stream]');
  // Lists without a stream.
  const asking = await open();
  await asking.goto('/projects/add/');
  await asking.fill('#name', 'Second');
  await asking.click('button:has-text("Create project")');
  await asking.waitForURL(/projects\/[0-9a-f-]+/);
  const others = [];
  for (const [path, part] of [['/checks/', '#list .row'], ['/', '#projects']]) {
    const other = await open();
    await other.goto(path);
    await other.waitForSelector(part);
    others.push(other);
  }
  const asks = other => other.evaluate(() => { document.dispatchEvent(new Event('visibilitychange')); });
  // Browsers report each request that fails.
  const before = findings.length;
  await server.halt();
  await page.waitForSelector('.outdated:has-text("Disconnected since"):has-text("Shown as of")');
  expect(await page.isVisible('#main[data-outdated] .row'), 'the rows look current');
  await page.screenshot({ path: `${out}/outage.png` });

  for (const other of others) {
    await asks(other);
    await other.waitForSelector('.outdated:has-text("Disconnected since"):has-text("Shown as of")');
  }

  // An action without a server is reported.
  await page.evaluate(() => {
    window.said = '';
    new MutationObserver(() => { window.said += document.getElementById('said').textContent; }).observe(document.getElementById('said'), { childList: true });
  });
  await page.focus('.row:has(bdi:text-is("backup")) .name a');
  await page.keyboard.press('p');
  await page.waitForFunction(() => window.said.includes('backup was not paused. The server does not answer.'));

  await server.begin();
  const begun = Date.now();
  await page.waitForSelector('#live[data-by=stream]');
  await page.waitForSelector('.outdated', { state: 'detached' });
  for (const other of others) {
    await asks(other);
    await other.waitForSelector('.outdated', { state: 'detached' });
  }
  const took = Date.now() - begun;
  expect(took < 20_000, `live again after ${took} ms`);
  await fetch(`${check.ping_url}/fail`, { method: 'POST' });
  await page.waitForSelector('.row[data-status=down]:has(bdi:text-is("backup")) .why:has-text("reported a failure")');

  // The page of a check shows what its job has said, and the log shows it in place.
  await page.goto(`/checks/${check.uuid}/details/`);
  await page.waitForSelector('#log li#ping-1 .text:has-text("output of the job")');
  await page.click('#log li#ping-1 summary');
  await page.waitForSelector('#log li#ping-1 pre:has-text("output of the job")');
  findings.push(...findings.splice(before).filter(finding => !/ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/.test(finding)));
};
