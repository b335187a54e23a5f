// Runs scenarios of this directory, each against a server of its own, in Debian's Chromium.
//
//   node tests/web/main.js BINARY MODULES OUT [all | SCENARIO…]
//
// MODULES is a node_modules with playwright-core and axe-core; pictures go to OUT. Two scenarios go on at the same time, since some wait
// for the clock. Those that measure go alone, and those with `whenNamed` run only if named. What fails is tried once more, alone: it has
// failed if it does so again.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { createRequire } = require('node:module');
const { Server, Watched } = require('./support');

const [binary, modules, out, ...wanted] = process.argv.slice(2);
const load = createRequire(path.resolve(modules, 'x'));
const { chromium } = load('playwright-core');
const axe = fs.readFileSync(load.resolve('axe-core/axe.min.js'), 'utf8');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
// Those that are tried with every change.
const USUAL = ['choices', 'glance', 'layouts', 'public', 'keyboard', 'plain', 'edit', 'list', 'hostile', 'live', 'outage', 'passkeys'];
// A scenario that has not come to its end by then never will.
const PATIENCE = wanted.length > 0 ? 900_000 : 300_000;

const scenario = name => require(`./${name}`);

async function run(name, browser) {
  let server, watched;
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error('took too long')), PATIENCE).unref());
  try {
    server = await Server.start(binary, scenario(name).flags ?? ['--auth', 'none']);
    watched = new Watched(browser, server, { axe, out });
    await Promise.race([scenario(name).go({ server, thorough: wanted.length > 0, ...watched.tools() }), late]);
    return watched.findings;
  } catch (error) {
    return [...watched?.findings ?? [], error.stack];
  } finally {
    await watched?.close();
    await server?.stop();
  }
}

(async () => {
  fs.mkdirSync(out, { recursive: true });
  const found = fs.readdirSync(__dirname).map(file => path.basename(file, '.js')).filter(name => !['main', 'support'].includes(name));
  const unknown = wanted.filter(name => name !== 'all' && !found.includes(name));
  if (unknown.length) throw new Error(`there is no scenario ${unknown.join(', ')}, only ${found.join(', ')}`);
  const isWanted = wanted.includes('all') ? name => !scenario(name).whenNamed : name => (wanted.length ? wanted : USUAL).includes(name);
  const names = found.filter(isWanted);
  // The name is one of ours, but not one that browsers trust.
  const args = ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP nas.test 127.0.0.1'];
  const launch = () => chromium.launch({ executablePath: CHROMIUM, args, timeout: 120_000 });
  let browser = await launch();
  async function go(queue) {
    const failed = [];
    for (let name = queue.shift(); name; name = queue.shift()) {
      const begun = Date.now();
      const findings = await run(name, browser);
      console.log(`${findings.length ? 'FAIL' : 'ok  '} ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
      for (const finding of findings) console.log(`     ${finding}`);
      if (findings.length) failed.push(name);
    }
    return failed;
  }
  const alone = names.filter(name => scenario(name).alone);
  // What waits begins first.
  const together = names.filter(name => !alone.includes(name));
  together.sort((one, other) => (scenario(other).waits ?? 0) - (scenario(one).waits ?? 0));
  const failed = [...(await Promise.all([go(together), go(together)])).flat(), ...await go(alone)];
  if (failed.length) {
    console.log(`once more, alone: ${failed.join(', ')}`);
    // The old browser may hang.
    await browser.close().catch(() => {});
    browser = await launch();
  }
  const twice = await go(failed);
  await browser.close();
  process.exit(twice.length ? 1 : 0);
})().catch(error => {
  console.error(error);
  process.exit(1);
});
