// A passkey is added on the account page and signs in without the name and the password. Its authenticator is that of the browser's debugger.
'use strict';

exports.flags = ['--auth', 'password'];

exports.go = async ({ server, open, look, sizes, expect }) => {
  // Browsers allow passkeys at names only.
  const base = `http://localhost:${server.port}`;
  server.flags.push('--base-url', base);
  await server.halt();
  await server.begin();
  const page = await open({ baseURL: base });
  const debug = await page.context().newCDPSession(page);
  await debug.send('WebAuthn.enable');
  const { authenticatorId } = await debug.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  await page.goto(await server.setup());
  await page.fill('#name', 'ann');
  await page.fill('#password', 'correct horse');
  await Promise.all([page.waitForURL(url => !/setup/.test(url)), page.click('button.primary')]);

  // The debugger that looks at a page would take its authenticator away.
  const view = async (name, path) => {
    const other = await page.context().newPage();
    await other.goto(path);
    for (const [size, viewport] of Object.entries(sizes)) {
      await other.setViewportSize(viewport);
      await look(other, `${name}-${size}`);
    }
    await other.close();
  };

  await page.goto('/account/');
  await page.click('section:has(#passkeys-title) a');
  await page.waitForURL(/passkeys/);
  await view('passkeys-none', '/account/passkeys/');
  const add = async name => {
    await page.fill('#name', name);
    await page.click('button:has-text("Add passkey")');
  };
  await add('Phone');
  await page.waitForSelector('td:has-text("Phone")');
  // The authenticator has a passkey of this account already.
  await add('Phone again');
  await page.waitForSelector('[data-wrong]:has-text("already has a passkey")');
  await view('passkeys', '/account/passkeys/');

  const signOut = async () => {
    await page.context().clearCookies();
    await page.goto('/login/?next=%2Faccount%2F');
    await page.waitForSelector('button:has-text("Sign in with a passkey")');
  };
  await signOut();
  await view('login-passkey', '/login/');
  await page.click('button:has-text("Sign in with a passkey")');
  await page.waitForURL(/\/account\//);
  await page.waitForSelector('bdi:text-is("ann")');

  // Without the fingerprint or the PIN there is no signature.
  await signOut();
  await debug.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
  await page.click('button:has-text("Sign in with a passkey")');
  await page.waitForSelector('[data-wrong]:has-text("cancelled, or took too long")');
  await debug.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true });
  await page.click('button:has-text("Sign in with a passkey")');
  await page.waitForURL(/\/account\//);

  await page.goto('/account/passkeys/');
  await page.click('button:has-text("Remove")');
  await page.waitForURL(/m=passkey-removed/);
  await signOut();
  await page.click('button:has-text("Sign in with a passkey")');
  await page.waitForSelector('.notice:has-text("does not belong to an account")');
  expect(page.url().includes('/login/passkey/'), `the form is at ${page.url()}`);

  // At another address the browser refuses, and the page says why.
  const other = await open();
  await other.goto('/login/');
  await other.click('button:has-text("Sign in with a passkey")');
  await other.waitForSelector('[data-wrong]:has-text("another address")');

  const plain = await open({ baseURL: base, javaScriptEnabled: false });
  await plain.goto('/login/');
  expect(!await plain.isVisible('button:has-text("passkey")'), 'a button without a script does nothing');
};
