// Pages change before one's eyes: the first check, pings, what others change; without a jump, and also after a time without a connection.
'use strict';

// Seconds, more or less: what takes long begins first.
exports.waits = 60;

const row = name => `.row[data-id]:has(bdi:text-is("${name}"))`;
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
  await page.waitForSelector('#live[data-state=on]');
  await fetch(/"(http[^"]+)"/.exec(line)[1]);
  await page.waitForSelector(row('my-first-check'));

  const short = await server.check({ name: 'short', schedule: '* * * * *', tz: 'UTC' });
  const others = [];
  for (let number = 0; number < 40; number += 1) others.push(await server.check({ name: `job ${number}` }));
  await page.waitForFunction(() => document.querySelectorAll('.row[data-id]').length === 42);
  await page.reload();
  // What is said is said for a short while.
  await page.evaluate(() => {
    window.same = true;
    window.said = [];
    new MutationObserver(() => window.said.push(document.getElementById('said').textContent)).observe(document.getElementById('said'), { childList: true });
  });
  await page.waitForSelector('#live[data-state=on]');
  expect((await page.textContent('#live')) === 'Live', await page.textContent('#live'));
  const banner = await open();
  await banner.goto(`/checks/${short.uuid}/details/`);
  await banner.evaluate(() => { window.same = true; });
  await banner.waitForSelector('#live[data-state=on]');

  // Where somebody is, they stay: the field, what is typed in it, the place on the page, the selected row.
  await page.check(`${row('job 39')} [name=check]`);
  await page.focus(`${row('job 30')} .name a`);
  const place = await page.evaluate(() => document.activeElement.getBoundingClientRect().top);
  await ping(others[5], '/start');
  await page.waitForSelector(`${row('job 5')}[data-status=running]`);
  await ping(others[5]);
  await page.waitForSelector(`${row('job 5')}[data-status=up] time`);
  await ping(others[6], '/fail');
  await page.waitForSelector(`${row('job 6')}[data-status=down] .why:has-text("reported a failure")`);
  await page.waitForFunction(() => window.said.some(text => text.includes('job 6 went down')));
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
  await page.waitForFunction(() => document.querySelector('.row[data-id]').dataset.status === 'down');
  expect(await page.isHidden('.stale'), 'it is sorted, and offers to sort');
  expect(await page.evaluate(() => document.activeElement.matches('.row .name a')), 'the focus is lost after sorting');

  // Settings, and what goes.
  await server.api('POST', `/checks/${others[7].uuid}`, { name: 'renamed', tags: 'new' });
  await page.waitForSelector(row('renamed'));
  await server.api('POST', `/checks/${others[8].uuid}/pause`);
  await page.waitForSelector(`${row('job 8')}[data-status=paused]`);
  await server.api('DELETE', `/checks/${others[9].uuid}`);
  await page.waitForSelector(`${row('job 9')}.gone`);

  // The page of a check. A log that is read stays.
  await ping(short, '/start');
  await banner.waitForSelector('#log li#ping-1');
  await banner.waitForSelector('#standing .status[data-status=running]');
  await banner.click('#log li#ping-1 summary');
  await ping(short);
  await banner.waitForSelector('[data-new]:has-text("1 new ping")');
  expect(await banner.isVisible('#log li#ping-1 dl'), 'what was open has closed');
  await banner.click('[data-new]');
  await banner.waitForSelector('#log li#ping-2');

  // Without a connection for a moment.
  await page.context().setOffline(true);
  await page.evaluate(() => dispatchEvent(new Event('pagehide')));
  await ping(others[10]);
  await page.context().setOffline(false);
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
  await page.waitForSelector(`${row('job 10')}[data-status=up]`);

  // More tabs than a browser has connections: all load, some of them ask.
  const tabs = [];
  for (let number = 0; number < 9; number += 1) tabs.push(await page.context().newPage());
  for (const tab of tabs) {
    await tab.goto('/');
    await tab.waitForSelector('#live[data-state=on]');
  }
  const told = await Promise.all(tabs.map(tab => tab.textContent('#live')));
  expect(told.includes('Live') && told.includes('Every 15 s'), told.join(', '));
  for (const tab of tabs) await tab.close();

  // By time alone, within a minute: it is expected each minute.
  await page.waitForSelector(`${row('short')}[data-status=late]`);
  await banner.waitForSelector('#standing[data-status=late]');
  expect(await page.evaluate(() => window.same) && await banner.evaluate(() => window.same), 'a page was loaded anew');
};
