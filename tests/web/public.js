// Pages beyond the checks: a public status page as its readers see it, backups, a test of a channel before it is saved, an import,
// and the audit log.
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

  // An import shows its report first.
  await page.goto('/system/import/');
  await look(page, 'import');
  const uuid = end => `6f3a0f6e-0c9b-4f0e-9b1b-00000000000${end}`;
  const dump = [
    { model: 'auth.user', pk: 1, fields: { email: 'ann@example.org', username: 'a' } },
    { model: 'accounts.project', pk: 1, fields: { code: uuid(9), name: 'Homelab', owner: 1, badge_key: 'bk' } },
    {
      model: 'api.check', pk: 1, fields: {
        code: uuid(1), project: 1, name: 'imported job', slug: '', created: '2026-01-01T00:00:00Z', kind: 'simple',
        timeout: '01:00:00', grace: '01:00:00', tz: 'UTC', status: 'new', n_pings: 0,
      },
    },
  ];
  await page.setInputFiles('#file', { name: 'hc.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(dump)) });
  await page.click('button:has-text("Upload and check")');
  await page.waitForSelector('h2:has-text("What would be imported")');
  await look(page, 'report of an import');
  await page.setViewportSize(sizes.phone);
  await look(page, 'report of an import on a phone');
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the report scrolls sideways');
  await page.setViewportSize(sizes.desktop);
  await page.click('button:has-text("Import on trial")');
  await page.waitForSelector('.notice.up:has-text("1 project imported")');

  // The list of all projects changes checks of each.
  await page.goto('/checks/');
  for (const box of await page.$$('.row[data-id] [name=check]')) await box.check();
  await page.click('#bulk button:has-text("Pause")');
  await page.waitForSelector('.notice:has-text("Paused 3 checks")');
  await look(page, 'all projects after an action');
  await page.click('.notice button:has-text("Undo")');
  await page.waitForSelector('.notice:has-text("Undone for 3 checks")');

  // The audit log has it all.
  await page.goto('/system/audit/');
  await page.waitForSelector('.deliveries li:has-text("imported project Homelab")');
  await look(page, 'audit log of the server');
  await page.goto(`/${project}/audit/`);
  await page.waitForSelector('.deliveries li:has-text("paused 2 checks")');
  await look(page, 'audit log of a project');
};
