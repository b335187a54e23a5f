// What strangers send is text, wherever it is shown: names, tags, descriptions, bodies, subjects, senders, what browsers call themselves,
// and what stands in addresses.
'use strict';
const net = require('node:net');

// Seconds, more or less: what takes long begins first.
exports.waits = 90;
exports.flags = ['--auth', 'none', '--ping-email-domain', 'mail.test', '--smtp-listen', '127.0.0.1:0'];

const script = 'window.ran=1';
const payloads = [
  // Elements and handlers.
  `<script>${script}</script>`, `</script><script>${script}</script>`, `<ScRiPt>${script}</sCrIpT>`, `<script src=//evil.test/x.js></script>`,
  `<img src=x onerror=${script}>`, `<img src="x" onerror="${script}">`, `<svg onload=${script}>`, `<svg><script>${script}</script></svg>`,
  `<svg><animate onbegin=${script} attributeName=x dur=1s>`, `<body onload=${script}>`, `<iframe srcdoc="<script>parent.ran=1</script>">`,
  `<iframe src="javascript:parent.ran=1">`, `<object data="javascript:${script}">`, `<embed src="javascript:${script}">`,
  `<details open ontoggle=${script}>`, `<video><source onerror=${script}></video>`, `<audio src=x onerror=${script}>`,
  `<input autofocus onfocus=${script}>`, `<select autofocus onfocus=${script}>`, `<textarea autofocus onfocus=${script}>`,
  `<marquee onstart=${script}>`, `<math><mtext><script>${script}</script></mtext></math>`, `<style>*{background:url(//evil.test/)}</style>`,
  `<link rel=stylesheet href=//evil.test/x.css>`, `<meta http-equiv=refresh content="0;url=//evil.test/">`, `<base href=//evil.test/>`,
  `<form action=//evil.test/><button>Save</button></form>`, `<a href="javascript:${script}">Open</a>`, `<a href=//evil.test/ping>Open</a>`,
  `<button formaction="javascript:${script}">Save</button>`, `<template><script>${script}</script></template>`,
  `<noscript><p title="</noscript><img src=x onerror=${script}>">`, `<xmp><script>${script}</script></xmp>`, `<!--><script>${script}</script>-->`,
  `<![CDATA[<script>${script}</script>]]>`, `<?xml version="1.0"?><script>${script}</script>`,
  // Out of an attribute, or of a text.
  `"><script>${script}</script>`, `'><script>${script}</script>`, `" onmouseover="${script}`, `' onmouseover='${script}`, '" autofocus onfocus="window.ran=1" x="',
  '</title><script>window.ran=1</script>', '</textarea><script>window.ran=1</script>', '</bdi></a></span><h1>down</h1>', '--></style></script>',
  `javascript:${script}`, `JaVaScRiPt:${script}`, 'java\tscript:window.ran=1', 'data:text/html,<script>parent.ran=1</script>', 'vbscript:msgbox(1)',
  // Templates and entities.
  '{{ 7*7 }}', '{% include "layout.html" %}', '${7*7}', '#{7*7}', '<%= 7*7 %>', '[[7*7]]', '{{constructor.constructor("window.ran=1")()}}',
  '&lt;script&gt;', '&#60;script&#62;', '&amp;lt;b&amp;gt;', '&nbsp;&copy;', '%3Cscript%3E', '\\u003cscript\\u003e', '\\x3cscript\\x3e',
  // Characters that are not what they seem.
  '\u202Eevil\u202C', '\u2066\u2067mixed\u2069', 'zero\u200Bwidth\u200D\uFEFF', '\u200F\u200Eמימין', 'a\u0300\u0301\u0302\u0303\u0304\u0305\u0306',
  '\u001b[31mred\u001b[0m', '\u001b]0;title\u0007', '\u0000null', '\u0008\u0008\u0008back', '\u007f\u0085\u2028\u2029', '𝕏👩‍👩‍👧‍👦🏴‍☠️', 'İıſKßẞ',
  // Lines and lengths.
  'one\r\nSet-Cookie: x=1\r\n\r\n<script>window.ran=1</script>', 'lone\rreturn', `${'x'.repeat(90)}`, `${'<b>'.repeat(30)}`,
  '../../../../etc/passwd', 'a?m=deleted#ping', '=cmd|"/c calc"!A0', "Robert'); DROP TABLE checks;--",
];

// A mail with this subject and sender, as lines of the protocol.
function mail(port, to, subject, body) {
  const coded = `=?utf-8?B?${Buffer.from(subject).toString('base64')}?=`;
  const lines = ['EHLO test', 'MAIL FROM:<a@b.test>', `RCPT TO:<${to}>`, 'DATA',
    `Subject: ${coded}\r\nFrom: ${coded} <a@b.test>\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n`
      + `${Buffer.from(body).toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n.`, 'QUIT'];
  return new Promise((done, fail) => {
    const socket = net.connect(port, '127.0.0.1');
    let said = '';
    socket.on('data', bytes => {
      said += bytes;
      // The last line of an answer has a blank after its number.
      if (/^\d{3} [^\n]*\n$/m.test(said)) {
        said = '';
        const line = lines.shift();
        if (line) socket.write(`${line}\r\n`);
      }
    });
    socket.on('close', done);
    socket.on('error', fail);
  });
}

exports.go = async ({ server, open, expect, thorough }) => {
  expect(payloads.length >= 80, `only ${payloads.length} payloads`);
  const page = await open();
  const clean = async where => {
    const ran = await page.evaluate(() => window.ran || document.querySelector('main :is(script, iframe, object, embed, base, meta, style, [onerror], [onload], [onfocus])')?.outerHTML);
    expect(!ran, `${where}: ${ran}`);
  };
  const visit = async path => {
    const answer = await page.goto(path);
    expect(answer.status() < 500, `${path}: ${answer.status()}`);
    await clean(path);
  };
  await page.goto('/');
  const list = page.url();
  const port = /address=127\.0\.0\.1:(\d+)/.exec(server.said().split('\n').find(line => line.includes('for mail')))?.[1];
  const checks = [];
  for (const [at, payload] of payloads.entries()) {
    const tags = payload.replace(/\s+/g, '_').slice(0, 100);
    const check = await server.check({ name: payload, tags, desc: `${payload}\nhttps://example.org/${payload}`, timeout: 3600 });
    checks.push(check);
    // A header takes no more than this.
    const agent = payload.replace(/[^\x20-\x7e]/g, '?');
    await fetch(check.ping_url, { method: 'POST', body: payload, headers: { 'User-Agent': agent } });
    if (port && at % 2) await mail(port, `${check.uuid}@mail.test`, payload, `<p>${payload}</p>`);
  }
  await fetch(checks[0].ping_url, { method: 'POST', body: Buffer.from([0xff, 0xfe, 0xc0, 0x80, 0x3c, 0x62, 0x3e]) });
  await fetch(checks[1].ping_url, { method: 'POST', body: '<b>'.repeat(33_000) });
  // Live, too: the frames come while the list is open.
  await page.waitForSelector('#live[data-state=on]');
  await visit(`${list}?rows=1000`);
  const names = await page.$$eval('.row[data-id] .name a bdi', names => names.map(name => name.textContent));
  for (const payload of payloads.filter(payload => /^[\x20-\x7e]+$/.test(payload))) {
    expect(names.includes(payload.trim()), `shown as something else: ${payload}`);
  }
  // All stand in the list. Beyond that each is looked at in one place of four, or in all.
  const isAt = (at, place) => thorough || at % 4 === place;
  for (const payload of payloads.filter((_, at) => isAt(at, 0))) {
    await visit(`${list}?q=${encodeURIComponent(payload)}&tag=${encodeURIComponent(payload)}&sort=${encodeURIComponent(payload)}&m=${encodeURIComponent(payload)}`);
  }
  for (const [at, check] of checks.entries()) {
    const payload = payloads[at];
    if (isAt(at, 1)) await visit(`/checks/${check.uuid}/details/`);
    if (isAt(at, 1) && /^[\x20-\x7e]+$/.test(payload)) {
      expect((await page.textContent('h1')).trim() === payload.trim(), `the heading is ${await page.textContent('h1')}`);
      expect((await page.textContent('main')).includes(payload), `not shown: ${payload}`);
    }
    if (isAt(at, 2)) await visit(`/checks/${check.uuid}/pings/1/`);
    if (isAt(at, 3) && port && at % 2) await visit(`/checks/${check.uuid}/pings/2/`);
    if (at % 8 === 0) await visit(`/checks/${check.uuid}/edit/`);
  }
  for (const n of [2, 3]) await visit(`/checks/${checks[n - 2].uuid}/pings/${n === 3 ? 3 : 2}/`);

  // Names that people of the server choose.
  for (const payload of payloads.slice(0, 6)) {
    await page.goto(list.replace('checks/', 'settings/'));
    await page.fill('#label', payload);
    await page.click('button:has-text("Create key")');
    await page.waitForSelector('.made input');
    await clean('a label');
    await page.fill('#name', payload.slice(0, 100));
    await page.click('button:has-text("Rename")');
    await page.waitForSelector('.notice:has-text("Saved.")');
    await clean('the name of a project');
    await page.goto(list.replace('checks/', 'windows/'));
    await page.fill('#recurring-name', payload.slice(0, 100));
    await page.fill('#recurring-schedule', '* * * * *');
    await page.click('button:has-text("Create recurring window")');
    await page.waitForSelector('.notice:has-text("Maintenance window created.")');
    await clean('the name of a window');
    for (const part of ['', 'integrations/', 'badges/', 'deliveries/', 'windows/']) await visit(list.replace('checks/', part || 'checks/'));
  }
  expect(port, 'no mail was sent');
};
