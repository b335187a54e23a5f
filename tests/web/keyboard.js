// From the link of the first start to a check that is deleted again, without a pointer. Where the focus is, is seen at each step.
'use strict';

exports.flags = ['--auth', 'password'];
const PASSWORD = 'correct horse';

exports.go = async ({ server, open, expect }) => {
  const page = await open();
  const seen = async where => {
    const focus = await page.evaluate(() => {
      const one = document.activeElement, style = getComputedStyle(one);
      return { name: one.outerHTML.slice(0, 120), is: one !== document.body && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 };
    });
    expect(focus.is, `${where}: nobody sees where the focus is: ${focus.name}`);
  };
  // Goes on to the element that this finds, as somebody would who has a keyboard alone.
  const tab = async (selector, most = 60) => {
    for (let steps = 0; steps < most; steps += 1) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(selector => document.activeElement.matches(selector), selector)) return seen(selector);
    }
    throw new Error(`${selector} cannot be reached on ${page.url()}`);
  };

  await page.goto(await server.setup());
  await page.keyboard.type('ann');
  await tab('#password');
  await page.keyboard.type(PASSWORD);
  await Promise.all([page.waitForURL(/\/checks\/$/), page.keyboard.press('Enter')]);
  await tab('a.skip', 3);
  await page.keyboard.press('n');
  await page.waitForURL(/\/checks\/add\/$/);
  await tab('#name');
  await page.keyboard.type('by hand');
  await tab('[name=expects]');
  await page.keyboard.press('ArrowDown');
  await tab('#cron');
  await page.keyboard.type('30 3 * * *');
  await page.waitForSelector('#preview:has-text("03:30")');
  await seen('after the preview was made anew');
  await tab('.save button.primary');
  await Promise.all([page.waitForURL(/\/details\//), page.keyboard.press('Enter')]);
  await page.keyboard.press('g');
  await page.keyboard.press('c');
  await page.waitForURL(/\/checks\/$/);
  await page.keyboard.press('j');
  await seen('a row');
  await page.keyboard.press('p');
  await page.waitForSelector('.row[data-status=paused]');
  await seen('a row that was paused');
  // A list that comes while a dialog is open does not take the place to which closing it leads back.
  let answer;
  const asked = new Promise(ask => { answer = ask; });
  await page.route(url => url.searchParams.has('sort'), async route => {
    await asked;
    await route.continue();
  });
  await tab('a[href*="sort=name"]');
  await page.keyboard.press('Enter');
  await page.keyboard.press('?');
  const came = page.waitForResponse(/sort=name/);
  answer();
  await (await came).finished();
  await page.keyboard.press('Escape');
  await page.waitForSelector('[aria-sort=ascending] a[href*="sort=-name"]');
  await seen('after the list of keys');
  expect(await page.evaluate(() => document.activeElement.matches('a[href*="sort=-name"]')), 'the focus is elsewhere');
  await page.keyboard.press('j');
  await Promise.all([page.waitForURL(/\/details\//), page.keyboard.press('Enter')]);
  await tab('.actions details.menu summary');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await seen('after a menu');
  await tab('a.danger', 120);
  await Promise.all([page.waitForURL(/\/remove\//), page.keyboard.press('Enter')]);
  await tab('button.danger');
  await Promise.all([page.waitForURL(/\/checks\/\?|\/checks\/$/), page.keyboard.press('Enter')]);
  expect((await page.textContent('main')).includes('No checks yet'), 'the check is still there');

  // Keys that are off do nothing: a key presses its link at once, or never.
  await page.goto('/account/');
  await page.uncheck('[name=shortcuts]');
  await page.click('form:has([name=shortcuts]) button:has-text("Save")');
  await page.waitForSelector('.notice:has-text("Saved.")');
  await page.goto('/');
  await page.evaluate(() => document.querySelector('[data-key=n]').addEventListener('click', () => { window.pressed = true; }));
  await page.keyboard.press('n');
  expect(!await page.evaluate(() => window.pressed), 'a key that is off does something');
};
