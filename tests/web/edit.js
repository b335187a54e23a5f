// A check is added and changed by keyboard and form: with a preview while it is typed, and without script.
'use strict';

exports.go = async ({ server, open, look, expect }) => {
  const page = await open();
  await page.goto('/');
  await page.keyboard.press('n');
  await page.waitForURL(/\/checks\/add\/$/);
  await page.fill('#name', 'Nightly Backup');
  expect(await page.inputValue('#slug') === 'nightly-backup', await page.inputValue('#slug'));
  await page.check('[name=expects][value=cron]');
  await page.fill('#cron', '30 3 * * *');
  await page.fill('#tz', 'Europe/Riga');
  await page.waitForSelector('#preview:has-text("every day at 03:30")', { timeout: 5000 });
  await look(page, 'add-typed');
  await Promise.all([page.waitForURL(/\/details\//), page.click('button.primary:has-text("Save")')]);
  expect((await page.textContent('h1')).includes('Nightly Backup'), 'the check is not shown');
  expect(!new URL(page.url()).searchParams.has('m'), 'the notice stays in the address');
  await look(page, 'added');

  const plain = await open({ javaScriptEnabled: false });
  await plain.goto('/');
  await plain.click('.row .name a');
  await plain.click('a:has-text("Edit")');
  await plain.fill('#name', '<b>Nightly</b>');
  await Promise.all([plain.waitForURL(/\/details\//), plain.click('button.primary:has-text("Save")')]);
  expect((await plain.textContent('h1')).includes('<b>Nightly</b>'), 'a name is not shown as it is');
};
