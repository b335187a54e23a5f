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
  await page.waitForSelector('#preview:has-text("every day at 03:30")');
  await look(page, 'add-typed');
  await Promise.all([page.waitForURL(/\/details\//), page.click('button.primary:has-text("Save")')]);
  expect((await page.textContent('h1')).includes('Nightly Backup'), 'the check is not shown');
  expect(!new URL(page.url()).searchParams.has('m'), 'the notice stays in the address');
  await look(page, 'added');

  // What words would make of the last pings, as they are typed.
  const check = await server.check({ name: 'words' }, '', '');
  await page.goto(`/checks/${check.uuid}/edit/`);
  await page.click('details.panel summary');
  await page.fill('#success_kw', 'output');
  await page.waitForSelector('#matches:has-text("These keywords have no effect")');
  await page.check('[name=filter_http_body]');
  await page.waitForSelector('#matches:has-text("Result for the last 2 pings that are searched: 2 success.")');
  await look(page, 'edit-words');
  await Promise.all([page.waitForURL(/\/details\//), page.click('.save button.primary')]);

  const plain = await open({ javaScriptEnabled: false });
  await plain.goto('/');
  await plain.click('.row .name a:has-text("Nightly")');
  await plain.click('a:has-text("Edit")');
  await plain.fill('#name', '<b>Nightly</b>');
  await Promise.all([plain.waitForURL(/\/details\//), plain.click('button.primary:has-text("Save")')]);
  expect((await plain.textContent('h1')).includes('<b>Nightly</b>'), 'a name is not shown as it is');
};
