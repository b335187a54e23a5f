// The list of checks: found, filtered and gone through without loading the page anew; and all of it without script.
'use strict';

const names = page => page.$$eval('.row[data-id] .name a bdi', names => names.map(name => name.textContent));
const until = async (page, wanted) => page.waitForFunction(
  wanted => document.querySelectorAll('.row[data-id]').length === wanted, wanted);

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

  // Without filters the fields are empty, too, and each choice is an entry of the history.
  await page.keyboard.press('/');
  await page.keyboard.type('nothing like it');
  await page.waitForSelector('.empty');
  await page.click('.empty a');
  await until(page, 31);
  expect(await page.inputValue('[type=search]') === '', 'the search is still there');
  expect(await page.$$eval('[name=tag]:checked', boxes => boxes.length) === 0, 'a tag is still selected');
  expect(await page.$('.search summary b') === null, 'a number of tags is shown');
  await page.goBack();
  await page.waitForSelector('.empty');
  await page.goBack();
  await until(page, 15);
  expect(await page.isChecked('.search label:has-text("odd") input'), 'the tag is not selected again');

  // A click beside a name opens its check.
  await page.click('.row[data-id] .plan');
  await page.waitForURL(/\/details\//);
  await page.goBack();
  await until(page, 15);
  await page.evaluate(() => { window.same = true; });

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
  await page.waitForSelector('#keys', { state: 'hidden' });

  // The menu of a row: it stays while its row changes, and closing it leads back.
  const row = await page.getAttribute('.row[data-id]', 'data-id');
  const more = `.row[data-id="${row}"] [data-more]`;
  await page.focus(more);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.matches('#row-menu a'));
  await look(page, 'row-menu');
  const name = await page.textContent(`.row[data-id="${row}"] .name bdi`);
  const { checks } = await server.api('GET', '/checks/');
  await server.api('POST', `/checks/${checks.find(check => check.name === name).ping_url.split('/').pop()}`, { name: `${name} renamed` });
  await page.waitForSelector(`.row[data-id="${row}"] .name:has-text("renamed")`);
  expect(await page.isVisible('#row-menu'), 'the menu has closed');
  await page.keyboard.press('Escape');
  expect(!(await page.isVisible('#row-menu')), 'the menu is still open');
  expect(await page.evaluate(more => document.activeElement.matches(more), more), 'the focus is elsewhere after the menu');
  await page.click(more);
  await page.click('#row-menu [data-to=pause]');
  await page.waitForSelector(`.row[data-id="${row}"][data-status=paused]`);
  await page.click(more);
  await page.waitForSelector('#row-menu [data-to=pause]:text-is("Resume")');
  expect(await page.evaluate(() => window.same), 'the page was loaded anew');
  await Promise.all([page.waitForURL(/\/edit\//), page.click('#row-menu [data-to=edit]')]);
  await Promise.all([page.waitForURL(/\/checks\/\?/), page.click('.trail a')]);
  expect(new URL(page.url()).searchParams.get('tag') === 'odd', `back at another list: ${page.url()}`);

  // The same without script.
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto('/');
  await plain.fill('[type=search]', 'job 1');
  await Promise.all([plain.waitForURL(/q=job/), plain.keyboard.press('Enter')]);
  expect((await names(plain)).length === 12, `without script: ${plain.url()}`);
  // What is done with a check leads back to the list as it was.
  await Promise.all([plain.waitForURL(/\/details\//), plain.click('.row .name a')]);
  await plain.click('.actions summary:has-text("Pause")');
  await Promise.all([plain.waitForURL(/m=paused/), plain.click('.actions button:has-text("until resumed")')]);
  await Promise.all([plain.waitForURL(/\/checks\/\?q=job/), plain.click('.trail a')]);
  expect((await names(plain)).length === 12, `back at another list: ${plain.url()}`);
};
