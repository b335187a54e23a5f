// Without script everything works: signing in, adding, editing, pausing one and many, keys, signing out. And the same by plain HTTP under a
// name that browsers do not trust, with script.
'use strict';

exports.flags = ['--auth', 'password'];
const PASSWORD = 'correct horse';

exports.go = async ({ server, open, expect, findings }) => {
  const plain = await open({ javaScriptEnabled: false });
  const sent = (page, selector, to) => Promise.all([page.waitForURL(to), page.click(selector)]);
  await plain.goto(await server.setup());
  await plain.fill('#name', 'ann');
  await plain.fill('#password', PASSWORD);
  await sent(plain, 'button.primary', /\/checks\/$/);
  for (const name of ['one', 'two']) {
    await plain.click('a:has-text("Add check")');
    await plain.fill('#name', name);
    await sent(plain, '.save button.primary', /\/details\//);
    await plain.click('nav a:has-text("Checks")');
  }
  await plain.click('.row .name a:has-text("one")');
  await plain.click('.actions summary:has-text("Pause")');
  await plain.click('.actions button:has-text("until resumed")');
  await plain.waitForSelector('#standing:has-text("Paused.")');
  await sent(plain, 'nav a:has-text("Checks")', /\/checks\/$/);
  for (const box of await plain.$$('.row [name=check]')) await box.check();
  await sent(plain, 'button[value=resume]', /m=resume/);
  expect((await plain.$$('.row[data-status=new]')).length === 2, 'they are not resumed');
  await plain.check('[name=check] >> nth=0');
  await plain.click('button[value=delete]');
  await plain.waitForSelector('label:has-text("delete 1")');
  await plain.click('nav a:has-text("Settings")');
  await plain.fill('#label', 'terraform');
  await plain.click('button:has-text("Create key")');
  const key = await plain.inputValue('.made input');
  const listed = await fetch(`${server.base}/api/v3/checks/`, { headers: { 'X-Api-Key': key } });
  expect(listed.status === 200, `the key does not work: ${listed.status}`);
  await plain.reload();
  expect(!(await plain.content()).includes(key), 'the key is shown again');
  await plain.click('details.menu.end summary');
  await sent(plain, 'button:has-text("Sign out")', /\/login\//);

  // Plain HTTP, not on this machine as far as the browser knows: no clipboard, no locks, no word on where a form comes from.
  const nas = server.base.replace('127.0.0.1', 'nas.test');
  const page = await open({ baseURL: nas });
  await page.goto('/');
  expect(await page.evaluate(() => !isSecureContext && !navigator.clipboard), 'the browser trusts this name');
  await page.fill('#name', 'ann');
  await page.fill('#password', PASSWORD);
  await sent(page, 'button.primary', /\/checks\/$/);
  await page.waitForSelector('#live[data-state=on]');
  const check = await server.check({ name: 'three' }, '');
  await page.waitForSelector(`.row[data-status=up]:has-text("three")`);
  await page.click('.row .name a:has-text("three")');
  await page.click('.actions summary:has-text("Pause")');
  await page.click('.actions button:has-text("until resumed")');
  await page.waitForSelector('.notice:has-text("Paused.")');
  await page.waitForSelector('#standing:has-text("Paused.")');
  // What is said is said for a short while.
  await page.evaluate(() => {
    window.said = '';
    new MutationObserver(() => { window.said += document.getElementById('said').textContent; }).observe(document.getElementById('said'), { childList: true });
  });
  await page.click('[data-copy], [data-copy-of]');
  await page.waitForFunction(() => window.said.includes('Copied.'));
  expect(check.uuid && (await page.content()).includes(check.uuid), 'another check is shown');

  // Signing out elsewhere tells the page, which keeps what it shows. What it asks for at that very moment is answered 401, of which browsers
  // make a note.
  const before = findings.length;
  const own = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  await fetch(`${server.base}/logout/`, { method: 'POST', redirect: 'manual', headers: { Cookie: own, 'Sec-Fetch-Site': 'same-origin' } });
  await page.waitForSelector('.outdated a:has-text("Sign in again")');
  findings.push(...findings.splice(before).filter(finding => !finding.endsWith('401 (Unauthorized)')));
};
