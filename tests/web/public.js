// Pages beyond the checks: a public status page as its readers see it, backups, and a test of a channel before it is saved.
'use strict';

exports.go = async ({ server, open, look, expect, sizes }) => {
  const nas = await server.check({ name: 'backup of the NAS', tags: 'nas' }, '');
  await server.check({ name: 'web certificates', tags: 'web' }, '');
  const page = await open();
  await page.goto('/');
  const project = page.url().match(/projects\/[0-9a-f-]+/)[0];

  // Badges lead to the status pages. Errors stand at their fields.
  await page.click('nav a:has-text("Badges")');
  await page.click('a:has-text("Status pages")');
  await page.waitForSelector('.empty');
  await look(page, 'no status pages');
  await page.fill('#title', 'Jobs at home');
  await page.fill('#tags', 'nas');
  await page.fill('#address', 'home');
  await page.fill('#domain', 'localhost');
  await page.click('button:has-text("Create status page")');
  await page.waitForSelector('#domain-wrong');
  await look(page, 'status page with an error');
  await page.fill('#domain', '');
  await page.click('button:has-text("Create status page")');
  await page.waitForSelector('.notice:has-text("Status page created")');
  const url = await page.getAttribute('.integrations a[href*="/status/"]', 'href');
  await look(page, 'status pages');

  // Readers see the status, and changes without loading the page again.
  const reader = await open({ viewport: sizes.phone });
  await reader.goto(url);
  await reader.waitForSelector('.overall.up:has-text("The check is up.")');
  expect(await reader.locator('.public-checks li').count() === 1, 'other checks are listed');
  await look(reader, 'status page on a phone');
  expect(await reader.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page scrolls sideways');
  await reader.evaluate(() => { window.same = true; });
  await fetch(`${nas.ping_url}/fail`);
  await reader.waitForFunction(() => {
    document.dispatchEvent(new Event('visibilitychange'));
    return document.querySelector('.overall.down');
  }, null, { polling: 500, timeout: 15_000 });
  expect(await reader.evaluate(() => window.same), 'the page was loaded anew');
  await reader.waitForSelector('.incidents li:has-text("has been down")');
  await look(reader, 'status page with an incident');

  // Editing and deleting.
  await page.click('.integrations a:has-text("Edit")');
  await page.fill('#title', 'Jobs');
  await look(page, 'one status page');
  await page.click('button:has-text("Save")');
  await page.waitForSelector('.integrations strong:has-text("Jobs")');

  // Backups.
  await page.goto('/system/backups/');
  await page.waitForSelector('h1:has-text("Backups")');
  await look(page, 'backups');

  // A test before saving keeps the input, secrets included.
  await page.goto(`/${project}/integrations/add/ntfy/`);
  await page.waitForSelector('.guide li');
  await page.fill('#f-url', 'http://127.0.0.1:1');
  await page.fill('#f-topic', 'backups');
  await page.fill('#f-token', 'tk_secret');
  await page.click('button:has-text("Send a test")');
  await page.waitForSelector('#test-result .notice:has-text("Not delivered")');
  expect(await page.inputValue('#f-token') === 'tk_secret', 'the secret is lost');
  await look(page, 'a test before saving');
  await page.fill('#f-topic', 'a/b');
  await page.click('button:has-text("Send a test")');
  await page.waitForSelector('.wrong');
  await page.goto(`/${project}/integrations/`);
  expect(await page.locator('.integrations li').count() === 0, 'the channel was saved');
};
