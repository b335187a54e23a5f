// Pages change before one's eyes: the first check, pings, late, down, what others change; without a jump, and also after a time without a
// connection.
'use strict';

// Seconds, more or less: what takes long begins first.
exports.waits = 150;

const row = name => `.row[data-id]:has(bdi:text-is("${name}"))`;
const soon = { timeout: 10_000 };
// The rows as they stand, by number; words of times, which change by themselves, left out.
const rows = page => page.$$eval('.row[data-id]', rows => Object.fromEntries(rows.map(row => {
  const copy = row.cloneNode(true);
  for (const time of copy.querySelectorAll('time')) time.textContent = '';
  return [row.dataset.id, copy.outerHTML.replace(/>\s+</g, '><').replace(/\s+(<\/span>)/g, '$1')];
})));

exports.go = async ({ server, open, look, expect }) => {
  const ping = (check, end = '') => fetch(check.ping_url + end, { method: 'POST' });

  // Whoever has no check pastes a line, and the check appears by itself.
  const page = await open();
  await page.goto('/');
  const line = await page.textContent('#first');
  await page.waitForSelector('#live[data-state=on]', soon);
  await fetch(/"(http[^"]+)"/.exec(line)[1]);
  await page.waitForSelector(row('my-first-check'), soon);

  // This one goes late after a minute, and down after two.
  const short = await server.check({ name: 'short', timeout: 60, grace: 60 }, '');
  const begun = Date.now();
  const others = [];
  for (let number = 0; number < 40; number += 1) others.push(await server.check({ name: `job ${number}` }));
  await page.waitForFunction(() => document.querySelectorAll('.row[data-id]').length === 42, null, soon);
  await page.reload();
  await page.evaluate(() => { window.same = true; });
  await page.waitForSelector('#live[data-state=on]', soon);
  expect((await page.textContent('#live')) === 'Live', await page.textContent('#live'));
  const banner = await open();
  await banner.goto(`/checks/${short.uuid}/details/`);
  await banner.evaluate(() => { window.same = true; });
  await banner.waitForSelector('#live[data-state=on]', soon);

  // Where somebody is, they stay: the field, what is typed in it, the place on the page, the selected row.
  await page.check(`${row('job 39')} [name=check]`);
  await page.focus(`${row('job 30')} .name a`);
  const place = await page.evaluate(() => document.activeElement.getBoundingClientRect().top);
  await ping(others[5], '/start');
  await page.waitForSelector(`${row('job 5')}[data-status=running]`, soon);
  await ping(others[5]);
  await page.waitForSelector(`${row('job 5')}[data-status=up] time`, soon);
  await ping(others[6], '/fail');
  await page.waitForSelector(`${row('job 6')}[data-status=down]`, soon);
  await page.waitForSelector('#said:has-text("job 6 went down")', soon);
  expect((await page.title()).startsWith('1 down – '), await page.title());
  expect((await page.getAttribute('link[rel=icon]', 'href')).includes('favicon-down'), 'the picture of the tab says nothing');
  expect((await page.textContent('.tiles [data-status=down] b')) === '1', 'the tile does not count it');
  expect(await page.evaluate(place => Math.abs(document.activeElement.getBoundingClientRect().top - place) < 1, place), 'it jumped');
  expect(await page.isChecked(`${row('job 39')} [name=check]`), 'what was selected is not any more');
  const anew = await open();
  await anew.goto(page.url());
  const [mine, theirs] = [await rows(page), await rows(anew)];
  for (const id of Object.keys(theirs)) expect(mine[id] === theirs[id], `shown as\n${mine[id]}\n     instead of\n${theirs[id]}`);
  await look(page, 'list-live');
  await page.click('.stale button');
  await page.waitForFunction(() => document.querySelector('.row[data-id]').dataset.status === 'down', null, soon);
  expect(await page.isHidden('.stale'), 'it is sorted, and offers to sort');

  // Settings, and what goes.
  await server.api('POST', `/checks/${others[7].uuid}`, { name: 'renamed', tags: 'new' });
  await page.waitForSelector(row('renamed'), soon);
  await server.api('POST', `/checks/${others[8].uuid}/pause`);
  await page.waitForSelector(`${row('job 8')}[data-status=paused]`, soon);
  await server.api('DELETE', `/checks/${others[9].uuid}`);
  await page.waitForSelector(`${row('job 9')}.gone`, soon);

  // The page of a check. A log that is read stays.
  await ping(short, '/start');
  await banner.waitForSelector('#log li#ping-2', soon);
  await banner.waitForSelector('#standing .status[data-status=running]', soon);
  await banner.click('#log li#ping-2 summary');
  await ping(short);
  const success = Date.now();
  await banner.waitForSelector('[data-new]:has-text("1 new ping")', soon);
  expect(await banner.isVisible('#log li#ping-2 dl'), 'what was open has closed');
  await banner.click('[data-new]');
  await banner.waitForSelector('#log li#ping-3', soon);

  // Without a connection for a moment.
  await page.context().setOffline(true);
  await page.evaluate(() => dispatchEvent(new Event('pagehide')));
  await ping(others[10]);
  await page.context().setOffline(false);
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
  await page.waitForSelector(`${row('job 10')}[data-status=up]`, soon);

  // More tabs than a browser has connections: all load, some of them ask.
  const tabs = [];
  for (let number = 0; number < 9; number += 1) tabs.push(await page.context().newPage());
  for (const tab of tabs) {
    const before = Date.now();
    await tab.goto('/');
    expect(Date.now() - before < 8000, `a tab took ${Date.now() - before} ms`);
    await tab.waitForSelector('#live[data-state=on]', { timeout: 20_000 });
  }
  const told = await Promise.all(tabs.map(tab => tab.textContent('#live')));
  expect(told.includes('Live') && told.includes('Every 15 s'), told.join(', '));
  for (const tab of tabs) await tab.close();

  // By time alone.
  const until = at => Math.max(at - Date.now(), 0) + 30_000;
  await page.waitForSelector(`${row('short')}[data-status=late]`, { timeout: until(success + 60_000) });
  await banner.waitForSelector('#standing[data-status=late]', soon);
  expect(Date.now() - begun > 55_000, 'it is late too early');
  await page.waitForSelector(`${row('short')}[data-status=down]`, { timeout: until(success + 120_000) });
  await banner.waitForSelector('#standing[data-status=down]', soon);
  expect((await banner.textContent('#standing')).includes('It was expected at'), await banner.textContent('#standing'));
  await look(banner, 'check-down');
  expect(await page.evaluate(() => window.same) && await banner.evaluate(() => window.same), 'a page was loaded anew');
};
