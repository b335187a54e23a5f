// A server with its API, and pages that are watched: whatever a browser complains of is a finding.
'use strict';
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { execFileSync, spawn } = require('node:child_process');

// What has not happened by then never will. A machine may be slow and have other things to do.
const PATIENCE = 120_000;

class Server {
  static async start(binary, flags) {
    const data = fs.mkdtempSync(path.join(os.tmpdir(), 'overdue-web-'));
    const server = Object.assign(new Server(), { binary, data, flags, log: '', port: 0 });
    await server.begin();
    const key = execFileSync(binary, ['key', 'create', '--json', '--project', 'default', '--access', 'read-write', '--data', data]);
    return Object.assign(server, { base: `http://127.0.0.1:${server.port}`, key: JSON.parse(key).key });
  }

  // Starts the process. After `halt` it listens on the same port again.
  async begin() {
    this.process = spawn(this.binary, ['serve', '--data', this.data, '--listen', `127.0.0.1:${this.port}`, '--api-rate', '0', ...this.flags]);
    const start = this.log.length;
    this.port = await new Promise((found, fail) => {
      this.process.stderr.on('data', bytes => {
        this.log += bytes;
        const address = /address=127\.0\.0\.1:(\d+)/.exec(this.log.slice(start));
        if (address) found(address[1]);
      });
      this.process.on('exit', () => fail(new Error(this.log)));
    });
  }

  said() {
    return this.log;
  }

  // Ends the process; the data stays.
  async halt() {
    this.process.removeAllListeners('exit');
    const ended = new Promise(end => this.process.on('exit', end));
    this.process.kill('SIGTERM');
    await ended;
  }

  // A command line of the program about this server.
  command(...words) {
    return execFileSync(this.binary, [...words, '--data', this.data]).toString();
  }

  // A link by which the first owner is made.
  setup() {
    return /http:\S+\/setup\/\S+/.exec(this.command('user', 'link'))[0];
  }

  async api(method, address, body) {
    const init = { method, headers: { 'X-Api-Key': this.key }, body: body && JSON.stringify(body) };
    const answer = await fetch(`${this.base}/api/v3${address}`, init);
    if (!answer.ok) throw new Error(`${method} ${address}: ${answer.status} ${await answer.text()}`);
    return answer.status === 204 ? null : answer.json();
  }

  // A check that has had these pings, as the API shows it.
  async check(settings, ...pings) {
    const check = await this.api('POST', '/checks/', settings);
    for (const ping of pings) await fetch(check.ping_url + ping, { method: 'POST', body: 'output of the job' });
    return { ...check, uuid: check.ping_url.split('/').pop() };
  }

  async stop() {
    await this.halt();
    fs.rmSync(this.data, { recursive: true });
  }
}

const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 360, height: 760 } };

class Watched {
  constructor(browser, server, { axe, out }) {
    Object.assign(this, { browser, server, axe, out, findings: [], contexts: [] });
  }

  tools() {
    return {
      findings: this.findings,
      open: this.open.bind(this),
      look: this.look.bind(this),
      expect: (is, what) => { if (!is) this.findings.push(what); },
      sizes: SIZES,
      out: this.out,
    };
  }

  // A new browser with one page. `losesAccess`: parts of its page may be refused.
  async open({ losesAccess, ...options } = {}) {
    const own = options.baseURL ?? this.server.base;
    const context = await this.browser.newContext({ viewport: SIZES.desktop, baseURL: own, ...options });
    this.contexts.push(context);
    const page = await context.newPage();
    context.setDefaultTimeout(PATIENCE);
    const complain = what => this.findings.push(`${page.url()}: ${what}`);
    page.on('console', message => {
      // What is not there is looked at, too.
      const isPage = (losesAccess || message.location().url === page.url()) && message.text().startsWith('Failed to load resource');
      if (['error', 'warning'].includes(message.type()) && !isPage) complain(message.text());
    });
    page.on('pageerror', error => complain(error));
    page.on('dialog', dialog => { complain(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on('request', request => { if (!request.url().startsWith(own)) complain(`asks for ${request.url()}`); });
    if (options.javaScriptEnabled !== false) {
      await context.exposeFunction('violated', what => complain(`against the policy: ${what}`));
      await context.addInitScript(() => document.addEventListener('securitypolicyviolation', event => {
        window.violated(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      }));
    }
    return page;
  }

  // Looks at the page that is open: nothing sticks out, and axe finds nothing. Keeps a picture of it.
  async look(page, name) {
    await page.screenshot({ path: path.join(this.out, `${name}.png`), fullPage: true });
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (beyond > 0) this.findings.push(`${name}: ${beyond} px wider than the window`);
    // By the debugger: the policy of the page lets no script in.
    const debug = await page.context().newCDPSession(page);
    await debug.send('Runtime.evaluate', { expression: this.axe });
    const found = await debug.send('Runtime.evaluate', {
      expression: 'axe.run().then(found => JSON.stringify(found.violations.map(v => `${v.id}: ${v.nodes.length} × ${v.nodes[0].html.slice(0, 200)}`)))',
      awaitPromise: true, returnByValue: true,
    });
    for (const finding of JSON.parse(found.result.value)) this.findings.push(`${name}: ${finding}`);
    await debug.detach();
  }

  async close() {
    for (const context of this.contexts) await context.close();
  }
}

module.exports = { Server, Watched };
