// Every page that links lead to, in both sizes and both colour schemes, with text twice as large, in forced colours and without motion.
'use strict';
const path = require('node:path');

// What leads to a page of a kind that has been seen.
const kind = url => new URL(url).pathname.replace(/[0-9a-f]{8}-[0-9a-f-]{27}|(?<=\/)\d+(?=\/)|(?<=integrations\/add\/)\w+/g, '*');
// More kinds than there are.
const MOST = 60;

// It takes longest.
exports.waits = 100;
exports.flags = ['--auth', 'password'];

// A server as somebody has it after a while: long names, many tags, whatever a check may be, people, projects, integrations that work and
// such that do not.
async function lived(server) {
  const post = (address, body) => fetch(`${server.base}/api/overdue/v1/${address}`, { method: 'POST', headers: { 'X-Api-Key': server.key }, body: JSON.stringify(body) });
  for (const [kind, name, settings] of [
    ['webhook', 'hook of the house', { 'down-url': 'http://127.0.0.1:9/down', 'up-url': 'http://127.0.0.1:9/up' }],
    ['ntfy', 'An integration with a name that is longer than anybody would like to see it on a phone', { topic: 'alerts' }],
    ['email', '', { to: 'ops@example.org' }],
  ]) await post('channels', { kind, name, settings });
  const ups = number => Array(number).fill('');
  const all = { channels: '*' };
  await server.check({ ...all, name: 'Nightly backup', tags: 'nas prod', slug: 'nightly-backup', schedule: '30 3 * * *', tz: 'Europe/Riga', grace: 900, desc: 'Restic to the NAS in the cellar.\nHow to restore: https://wiki.example.org/restore' }, ...ups(20), '/fail', ...ups(9), '/start', '/3');
  await server.check({ ...all, name: 'photo sync', tags: 'nas eu', timeout: 300 }, '', '', '', '/fail', '', '/start');
  await server.check({ name: '<b>dns</b> & "zone" push', timeout: 3600, slug: 'dns' }, '', '');
  await server.check({ ...all, name: 'A very long name of a check that does not fit on one line of any table, whatever its width', tags: 'one two three four five six seven eight nine ten-that-is-long' }, ...ups(3));
  await server.check({ name: `a-name-without-a-blank-${'x'.repeat(70)}`, tags: `a-tag-without-a-blank-${'y'.repeat(60)}`, schedule: 'Mon..Fri *-*-* 06..18:00/15:00\nSat 10:00', tz: 'America/Argentina/ComodRivadavia' }, '');
  const paused = await server.check({ name: 'zfs scrub', schedule: 'Sun 02:00', tz: 'UTC' }, '');
  await server.api('POST', `/checks/${paused.uuid}/pause`);
  const late = await server.check({ ...all, name: 'certbot renew', schedule: '* * * * *', tz: 'UTC', tags: 'mail' }, '');
  for (let number = 1; number <= 22; number += 1) {
    await server.check({ ...all, name: `database dump ${number}`, tags: number % 2 ? 'prod' : 'staging', timeout: 3600 * number }, ...ups(number), ...(number % 9 ? [] : ['/fail']));
  }
  server.command('project', 'create', 'office with a name that is rather long for a switcher of projects');
  server.command('project', 'create', 'empty');
  server.command('user', 'create', 'bob', '--member', 'default');
  server.command('user', 'create', 'carol-who-has-a-name-that-is-long-and-has-no-blank-in-it', '--read-only', 'default');
  return late;
}

exports.go = async ({ server, open, look, sizes, out, expect }) => {
  const page = await open();
  for (const [size, viewport] of Object.entries(sizes)) {
    const outside = await open({ viewport });
    await outside.goto(await server.setup());
    await look(outside, `setup-${size}`);
  }
  await page.goto(await server.setup());
  await page.fill('#name', 'ann');
  await page.fill('#password', 'correct horse');
  await Promise.all([page.waitForURL(url => !/setup/.test(url)), page.click('button.primary')]);
  const late = await lived(server);
  const storageState = await page.context().storageState();
  for (const [size, viewport] of Object.entries(sizes)) {
    const outside = await open({ viewport });
    await outside.goto('/login/');
    await look(outside, `login-${size}`);
  }
  const [queue, seen] = [['/', '/nothing/', '/docs/', '/docs/limits/', '/users/', '/system/', '/account/', '/account/totp/', `/checks/${late.uuid}/details/`], new Map()];
  while (queue.length && seen.size < MOST) {
    const url = new URL(queue.shift(), server.base).href;
    if (seen.has(kind(url))) continue;
    await page.goto(url);
    seen.set(kind(url), url);
    if (kind(page.url()) !== kind(url)) queue.unshift(page.url());
    const links = await page.$$eval('a[href]', links => links.map(link => link.href.split('#')[0]));
    queue.push(...links.filter(link => link.startsWith(server.base) && !/\/docs\/./.test(link) && !/\/body\/|export/.test(link)));
  }
  expect(seen.size > 3, `only ${seen.size} pages were found`);
  for (const [size, viewport] of Object.entries(sizes)) {
    for (const colorScheme of ['light', 'dark']) {
      const view = await open({ viewport, colorScheme, storageState });
      for (const [name, url] of seen) {
        const answer = await view.goto(url).catch(() => null);
        if (answer === null || answer.status() >= 500) expect(false, `${name}: ${answer?.status()}`);
        await look(view, `${name.replace(/\W+/g, '_')}-${size}-${colorScheme}`);
      }
      // What opens.
      await view.goto([...seen.values()].find(url => /\/checks\/$/.test(url)));
      await view.click('.row[data-id] [data-more]');
      await view.waitForSelector('#row-menu:not([hidden])');
      await look(view, `row-menu-${size}-${colorScheme}`);
      await view.keyboard.press('Escape');
      for (const box of (await view.$$('.row [name=check]')).slice(0, 3)) await box.check();
      await look(view, `bulk-${size}-${colorScheme}`);
      await view.screenshot({ path: path.join(out, `bulk-seen-${size}-${colorScheme}.png`) });
      for (const menu of await view.$$('.bar details.menu')) {
        await menu.click();
        await view.screenshot({ path: path.join(out, `menu-${(await menu.getAttribute('class')).replace(/\W+/g, '-')}-${size}-${colorScheme}.png`) });
        await view.keyboard.press('Escape');
      }
      await view.context().close();
    }
  }
  // In colours that the system forces, shapes stay, and nothing moves.
  const forced = await open({ storageState, forcedColors: 'active', reducedMotion: 'reduce' });
  for (const [name, url] of seen) {
    await forced.goto(url);
    await look(forced, `${name.replace(/\W+/g, '_')}-forced`);
    const wrong = await forced.evaluate(() => {
      const shape = one => getComputedStyle(one, '::before');
      const bare = [...document.querySelectorAll('main .status')].filter(one => one.offsetParent && shape(one).backgroundColor === 'rgba(0, 0, 0, 0)' && shape(one).borderStyle === 'none');
      const moving = document.getAnimations().length;
      return bare.length || moving ? `${bare.length} shapes are gone, ${moving} things move` : null;
    });
    expect(wrong === null, `${name}: ${wrong}`);
  }
  // Text twice as large needs as much room as half the window.
  const large = await open({ storageState, viewport: { width: 320, height: 400 } });
  for (const [name, url] of seen) {
    await large.goto(url);
    const beyond = await large.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(beyond <= 0, `${name}: ${beyond} px wider than a window of 320 px`);
  }
};
