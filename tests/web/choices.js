// Choices of the viewer: the snippet that was opened last, filters that act at once, and the order of the list on a phone.
'use strict';

exports.go = async ({ server, open, look, expect, sizes }) => {
  const [first, second] = [await server.check({ name: 'job 10' }, '/fail'), await server.check({ name: 'job 9' }, '')];
  const page = await open();
  await page.goto(`/checks/${first.uuid}/details/`);
  await page.click('.tabs summary:has-text("Python")');
  await page.waitForFunction(() => localStorage.getItem('snippet') === 'snippet-python');
  await page.goto(`/checks/${second.uuid}/details/`);
  await page.waitForSelector('.tabs details[open] #snippet-python');
  expect(await page.locator('.tabs details[open]').count() === 1, 'more than one snippet is open');

  await page.goto('/');
  await page.click('nav a:has-text("Deliveries")');
  await page.waitForSelector('.deliveries li:has-text("job 10")');
  expect(!await page.isVisible('form[data-auto] > button'), 'the filter has a button');
  await look(page, 'deliveries');
  await page.selectOption('[name=result]', 'delivered');
  await page.waitForURL(/result=delivered/);
  await page.waitForSelector('text=No matching alerts.');
  expect(await page.evaluate(() => document.activeElement.name) === 'result', 'the filter has lost the focus');

  const phone = await open({ viewport: sizes.phone });
  await phone.goto('/');
  const names = () => phone.locator('.row .name bdi:first-child').allTextContents();
  await phone.click('.row.top a:has-text("Name")');
  await phone.waitForSelector('[aria-sort=ascending] a:has-text("Name")');
  expect(`${await names()}` === 'job 9,job 10', `${await names()}`);
  await phone.check('[data-page]');
  await phone.waitForSelector('[data-chosen]:has-text("2 selected")');
};
