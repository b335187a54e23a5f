// Runs every journey in this directory against a server of its own, in Debian's Chromium.
//
//   node tests/web/main.js BINARY MODULES OUT [JOURNEY…]
//
// MODULES is a node_modules with playwright-core and axe-core; pictures go to OUT. Two journeys go on at the same time, since some wait for
// the clock. Those that measure go alone, and those that are only for whoever asks have to be named.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { createRequire } = require('node:module');
const { Server, Watched } = require('./support');

const [binary, modules, out, ...only] = process.argv.slice(2);
const load = createRequire(path.resolve(modules, 'x'));
const { chromium } = load('playwright-core');
const axe = fs.readFileSync(load.resolve('axe-core/axe.min.js'), 'utf8');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
// A journey that has not come to its end by then never will.
const PATIENCE = 240_000;

async function run(name, browser) {
  const journey = require(`./${name}`);
  const server = await Server.start(binary, journey.flags ?? ['--auth', 'none']);
  const watched = new Watched(browser, server, { axe, out });
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error('took too long')), PATIENCE).unref());
  try {
    await Promise.race([journey.go({ server, ...watched.tools() }), late]);
    return watched.findings;
  } catch (error) {
    return [...watched.findings, error.stack];
  } finally {
    await watched.close();
    await server.stop();
  }
}

(async () => {
  fs.mkdirSync(out, { recursive: true });
  const found = fs.readdirSync(__dirname).map(file => path.basename(file, '.js')).filter(name => !['main', 'support'].includes(name));
  const names = found.filter(name => only.length ? only.includes(name) : !require(`./${name}`).whenNamed);
  // The name is one of ours, but not one that browsers trust.
  const args = ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP nas.test 127.0.0.1'];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  let failed = 0;
  async function go(queue) {
    for (let name = queue.shift(); name; name = queue.shift()) {
      const begun = Date.now();
      const findings = await run(name, browser);
      console.log(`${findings.length ? 'FAIL' : 'ok  '} ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
      for (const finding of findings) console.log(`     ${finding}`);
      failed += findings.length > 0;
    }
  }
  const alone = names.filter(name => require(`./${name}`).alone);
  // What waits begins first.
  const together = names.filter(name => !alone.includes(name)).sort((one, other) => (require(`./${other}`).waits ?? 0) - (require(`./${one}`).waits ?? 0));
  await Promise.all([go(together), go(together)]);
  await go(alone);
  await browser.close();
  process.exit(failed ? 1 : 0);
})();
