// Every page that links lead to, in both sizes and both colour schemes, with text twice as large, in forced colours and without motion.
'use strict';

// What leads to a page of a kind that has been seen.
const kind = url => new URL(url).pathname.replace(/[0-9a-f]{8}-[0-9a-f-]{27}|(?<=\/)\d+(?=\/)/g, '*');
// More kinds than there are.
const MOST = 60;

// It takes longest.
exports.waits = 100;

exports.go = async ({ server, open, look, sizes, expect }) => {
  await server.check({ name: 'Nightly backup', tags: 'nas prod', schedule: '30 3 * * *', tz: 'Europe/Riga', desc: 'Restic to the NAS' }, '', '', '/3');
  await server.check({ name: 'photo sync', tags: 'nas eu', timeout: 300 }, '', '', '', '/fail', '', '/start');
  await server.check({ name: '<b>dns</b> & "zone" push', timeout: 3600, slug: 'dns' }, '', '');
  await server.check({ name: 'A very long name of a check that does not fit on one line of any table', tags: 'one two three four five six' });
  const paused = await server.check({ name: 'zfs scrub', schedule: 'Sun 02:00', tz: 'UTC' }, '');
  await server.api('POST', `/checks/${paused.uuid}/pause`);

  const page = await open();
  const [queue, seen] = [['/', '/nothing/', '/docs/', '/docs/limits/', '/login/'], new Map()];
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
      const view = await open({ viewport, colorScheme });
      for (const [name, url] of seen) {
        const answer = await view.goto(url).catch(() => null);
        if (answer === null || answer.status() >= 500) expect(false, `${name}: ${answer?.status()}`);
        await look(view, `${name.replace(/\W+/g, '_')}-${size}-${colorScheme}`);
      }
    }
  }
  // In colours that the system forces, shapes stay, and nothing moves.
  const forced = await open({ forcedColors: 'active', reducedMotion: 'reduce' });
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
  const large = await open({ viewport: { width: 320, height: 400 } });
  for (const [name, url] of seen) {
    await large.goto(url);
    const beyond = await large.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(beyond <= 0, `${name}: ${beyond} px wider than a window of 320 px`);
  }
};
