// By time alone a check goes late and then down, and its page says why.
'use strict';

// Seconds, more or less: what takes long begins first.
exports.waits = 130;

exports.go = async ({ server, open, look, expect }) => {
  const check = await server.check({ name: 'short', timeout: 60, grace: 60 }, '');
  const [list, page] = [await open(), await open()];
  await list.goto('/');
  await page.goto(`/checks/${check.uuid}/details/`);
  for (const one of [list, page]) {
    await one.evaluate(() => { window.same = true; });
    await one.waitForSelector('#live[data-state=on]');
  }
  for (const status of ['late', 'down']) {
    await list.waitForSelector(`.row[data-status=${status}]`);
    await page.waitForSelector(`#standing[data-status=${status}]`);
    expect((await page.textContent('#standing')).includes(status === 'late' ? 'goes down' : 'It was expected at'), await page.textContent('#standing'));
  }
  await look(page, 'check-down');
  expect(await list.evaluate(() => window.same) && await page.evaluate(() => window.same), 'a page was loaded anew');
};
