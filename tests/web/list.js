// The list of checks: found, filtered and gone through without loading the page anew; and all of it without script.
'use strict';

const names = page => page.$$eval('.row[data-id] .name a bdi', names => names.map(name => name.textContent));
const until = async (page, wanted) => page.waitForFunction(
  wanted => [...document.querySelectorAll('.row[data-id]')].length === wanted, wanted, { timeout: 5000 });

exports.go = async ({ server, open, look, expect }) => {
  for (let number = 0; number < 30; number += 1) await server.check({ name: `job ${number}`, tags: number % 2 ? 'odd' : 'even' }, '');
  await server.check({ name: 'Nightly backup', tags: 'nas' }, '/fail');

  const page = await open();
  await page.goto('/');
  await page.evaluate(() => { window.same = true; });
  expect((await page.title()).startsWith('1 down'), await page.title());

  // Searching.
  await page.keyboard.press('/');
  await page.keyboard.type('job 1');
  await until(page, 12);
  expect(new URL(page.url()).searchParams.get('q') === 'job 1', page.url());
  expect(await page.evaluate(() => document.activeElement.type === 'search'), 'the field has lost the focus');
  await page.keyboard.press('Escape');
  await until(page, 31);

  // Filtering by a tile and by a tag; the menu stays open.
  await page.click('.tiles a[data-status=down]');
  await until(page, 1);
  expect((await names(page))[0] === 'Nightly backup', 'the wrong row');
  await page.click('.tiles a[data-status=down]');
  await until(page, 31);
  await page.click('.search summary');
  await page.click('.search label:has-text("odd")');
  await until(page, 15);
  expect(await page.isVisible('.search label'), 'the menu has closed');
  await look(page, 'list-menu');
  await page.keyboard.press('Escape');
  expect(!(await page.isVisible('.search label')), 'Escape leaves the menu open');

  // Keys and their list.
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('j');
  await page.keyboard.press('p');
  await page.waitForSelector('.row[data-status=paused]');
  await page.keyboard.press('x');
  expect((await page.textContent('[data-chosen]')) === '1 selected', 'nothing is said of what is selected');
  await page.keyboard.press('p');
  await page.waitForSelector('.row[data-status=paused]', { state: 'detached' });
  expect(await page.isChecked('.row [name=check]:checked'), 'what was selected is not selected any more');
  await page.keyboard.press('?');
  expect(await page.isVisible('#keys'), 'there is no list of keys');
  await look(page, 'keys');
  await page.keyboard.press('Escape');
  expect(await page.evaluate(() => window.same), 'the page was loaded anew');

  // The same without script.
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto('/');
  await plain.fill('[type=search]', 'job 1');
  await Promise.all([plain.waitForURL(/q=job/), plain.keyboard.press('Enter')]);
  expect((await names(plain)).length === 12, `without script: ${plain.url()}`);
};
