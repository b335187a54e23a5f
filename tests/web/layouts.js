// What fits where: many widths, long names, text at 200 %, fingers, paper, the first screen, and a viewer who loses access.
'use strict';

exports.flags = [];

const LONG = 'Infrastructure of the northern and the southern warehouse with all their machines';
const PASSWORD = 'correct horse battery';

// Boxes of the elements that are visible.
const boxes = (page, selector) => page.$$eval(selector, all => all.filter(one => one.checkVisibility()).map(one => {
  const { x, y, width, height, right, bottom } = one.getBoundingClientRect();
  return { x, y, width, height, right, bottom, what: one.outerHTML.slice(0, 90) };
}));

exports.go = async ({ server, open, look, expect, sizes }) => {
  const page = await open();
  await page.goto(server.setup());
  await page.fill('#name', 'ann');
  for (const field of await page.$$('[type=password]')) await field.fill(PASSWORD);
  await page.click('button:has-text("Create owner")');
  await page.waitForSelector('.empty');

  // The first screen: everything in the empty panel has the same middle.
  const [panel] = await boxes(page, '.panel.empty');
  for (const box of await boxes(page, '.panel.empty > *')) {
    const middle = (box.x + box.right) / 2;
    expect(Math.abs(middle - (panel.x + panel.right) / 2) <= 2, `${Math.round(middle)} px is not the middle of the first screen: ${box.what}`);
  }
  await look(page, 'first screen');

  server.command('project', 'create', LONG);
  const key = JSON.parse(server.command('key', 'create', '--json', '--project', LONG, '--access', 'read-write')).key;
  const make = async (settings, ping) => {
    const answer = await fetch(`${server.base}/api/v3/checks/`, { method: 'POST', headers: { 'X-Api-Key': key }, body: JSON.stringify(settings) });
    const check = await answer.json();
    if (ping) await fetch(`${check.ping_url}${ping}`, { method: 'POST' });
    return check;
  };
  for (const name of ['backup of the database', 'certificates of all web servers', 'synchronisation']) await make({ name, tags: 'prod nightly' }, '/fail');
  await make({ name: 'mail', tags: 'prod' }, '/start');

  // Rows of projects stay low although checks are down, and the menu of the user stays in the window.
  for (const width of [360, 720, 768, 848, 1024, 1280, 1920]) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto('/');
    for (const box of await boxes(page, '.projects > li')) expect(box.height < 240, `${width} px: a project is ${box.height} px high`);
    await page.click(`main a:has-text("${LONG}")`);
    const [menu] = await boxes(page, '.bar > .menu.end');
    expect(menu?.right <= width && menu.width > 40, `${width} px: the menu of the user ends at ${menu?.right}`);
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(beyond <= 0, `${width} px: the page scrolls sideways by ${beyond} px`);
    if ([768, 1920].includes(width)) await look(page, `list at ${width} px`);
  }

  // Text at 200 %: nothing lies over anything else.
  await page.setViewportSize(sizes.desktop);
  const debug = await page.context().newCDPSession(page);
  await debug.send('Page.setFontSizes', { fontSizes: { standard: 32, fixed: 26 } });
  const names = await boxes(page, '.row .name');
  for (const status of await boxes(page, '.row .status')) {
    const over = names.find(name => status.x < name.right - 1 && name.x < status.right - 1 && status.y < name.bottom - 1 && name.y < status.bottom - 1);
    expect(!over, `at 200 % ${status.what} lies over ${over?.what}`);
  }
  await look(page, 'list at 200 %');
  await debug.send('Page.setFontSizes', { fontSizes: { standard: 16, fixed: 13 } });
  await debug.detach();

  // Fingers: 44 px, apart from links within sentences.
  await page.setViewportSize(sizes.phone);
  await page.goto(page.url());
  for (const address of [page.url(), '/', '/users/', '/system/', '/account/']) {
    await page.goto(address);
    const pressed = 'main button, main a.button, main select, main input:not([type=checkbox], [type=radio], [type=hidden]), main summary, .bar a, .bar summary';
    for (const box of await boxes(page, pressed)) expect(box.height >= 43.5, `${address}: ${box.height} px high: ${box.what}`);
  }

  // Paper: a light ground, whatever the theme, and nothing to press.
  const dark = await open({ colorScheme: 'dark', storageState: await page.context().storageState() });
  await dark.goto('/');
  await dark.emulateMedia({ media: 'print' });
  const ground = await dark.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(ground.match(/\d+/g).every(part => part > 240), `the ground of a print is ${ground}`);
  expect((await boxes(dark, '.bar, button, .button')).length === 0, 'a print has buttons');

  // Who loses access learns it on the open page.
  const link = /http:\S+\/invite\/\S+/.exec(server.command('user', 'create', 'bob', '--member', LONG))[0];
  const bob = await open({ losesAccess: true });
  await bob.goto(link);
  for (const field of await bob.$$('[type=password]')) await field.fill(PASSWORD);
  await bob.click('button:has-text("Save and sign in")');
  await bob.waitForSelector('.row');
  server.command('user', 'set', 'bob', '--member', 'default');
  await bob.waitForSelector('.outdated:has-text("no longer")', { timeout: 30_000 });
};
