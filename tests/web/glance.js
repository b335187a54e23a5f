// From the list to the reason: searching everything, groups, undoing, the timeline, and two runs side by side.
'use strict';

exports.go = async ({ server, open, look, expect, sizes }) => {
  const nas = await server.check({ name: 'backup of the NAS', tags: 'nas nightly' }, '');
  await server.check({ name: 'web certificates', tags: 'web' }, '');
  const page = await open();
  await page.goto('/');

  // Ctrl+K works in a field, too. The arrow keys select and Enter opens.
  await page.focus('main [type=search]');
  await page.keyboard.press('Control+k');
  await page.waitForSelector('#palette[open] #found a:has-text("Deliveries")');
  await page.keyboard.type('back');
  await page.waitForSelector('#found a[aria-selected]:has-text("backup of the NAS")');
  await look(page, 'palette');
  await Promise.all([page.waitForURL(/\/details\//), page.keyboard.press('Enter')]);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('certificates');
  await page.waitForSelector('#found a[aria-selected]:has-text("web certificates")');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#palette', { state: 'hidden' });

  // Groups.
  await page.goto('/');
  await page.selectOption('[name=group]', 'tag');
  await page.waitForSelector('.row.group >> nth=1');
  expect(new URL(page.url()).searchParams.get('group') === 'tag', page.url());
  expect(`${await page.locator('.row.group').allTextContents()}` === 'nas,web', 'other groups');
  await page.goto('/checks/?group=project');
  await page.waitForSelector('.row.group');
  await look(page, 'all projects');

  // A pause from the list, undone from its message.
  await page.goto('/');
  await page.keyboard.press('j');
  await page.keyboard.press('p');
  await page.waitForSelector('.row[data-status=paused]');
  await page.click('#said button:has-text("Undo")');
  await page.waitForSelector('.notice:has-text("Undone for 1 check.")');
  await page.waitForSelector('.row[data-status=paused]', { state: 'detached' });
  expect(!page.url().includes('undo'), page.url());

  // A pause for a time, on the page of the check.
  await page.goto(`/checks/${nas.uuid}/details/`);
  await page.click('.actions summary:has-text("Pause")');
  await page.click('.actions button:has-text("for 2 hours")');
  await page.waitForSelector('#standing:has-text("Monitoring continues")');
  await page.click('.notice button:has-text("Undo")');
  await page.waitForSelector('.notice:has-text("Undone.")');
  await page.waitForSelector('#standing:has-text("Up.")');

  // The timeline: another period without loading the page, and marks by the keyboard.
  await page.evaluate(() => { window.same = true; });
  await page.click('a[data-period]:has-text("Week")');
  await page.waitForSelector('a[data-period][aria-current]:has-text("Week")');
  expect(await page.evaluate(() => window.same) && page.url().includes('period=week'), 'the page was loaded anew');
  await page.focus('.timeline');
  await page.keyboard.press('ArrowLeft');
  await page.waitForSelector('#history [data-caption]:has-text("success")');
  await look(page, 'timeline');

  // A failure beside the last success.
  await fetch(`${nas.ping_url}/3`, { method: 'POST', body: 'ready\ndisk is full\n' });
  await page.goto(`/checks/${nas.uuid}/pings/2/`);
  await Promise.all([page.waitForURL(/compare/), page.click('a:has-text("Compare")')]);
  await page.waitForSelector('.diff ins:has-text("disk is full")');
  await look(page, 'two runs');
  const phone = await open({ viewport: sizes.phone });
  await phone.goto(page.url());
  await look(phone, 'two runs on a phone');
  expect(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page scrolls sideways');
  await phone.goto('/');
  await phone.click('.find');
  await phone.waitForSelector('#palette[open] #found a');
};
