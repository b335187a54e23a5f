// 200 pages that are open, ten of which read nothing, beside pings: the pings go on, memory stays as it is, and changes come soon. What is
// measured is measured with Node beside it, so only its order of magnitude counts.
'use strict';
const fs = require('node:fs');
const http = require('node:http');

exports.alone = true;
const TABS = 200, SLOW = 10, SECONDS = 4;

const memory = server => {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${server.process.pid}/status`, 'utf8'))[1]) / 1000;
  } catch {
    return NaN;
  }
};

async function pings(checks) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const until = Date.now() + SECONDS * 1000;
  let count = 0;
  const one = url => new Promise((done, fail) => http.request(url, { agent, method: 'POST' }, answer => {
    answer.resume().on('end', () => (answer.statusCode === 200 ? done() : fail(new Error(`${answer.statusCode}`))));
  }).on('error', fail).end());
  const go = async from => {
    for (let at = from; Date.now() < until; at += 8) {
      await one(checks[at % checks.length].ping_url);
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, from) => go(from)));
  agent.destroy();
  return count / SECONDS;
}

exports.go = async ({ server, expect }) => {
  const checks = [];
  for (let number = 0; number < 100; number += 1) checks.push(await server.check({ name: `job ${number}` }, ''));
  const home = await fetch(server.base, { redirect: 'manual' });
  const path = `${home.headers.get('location')}events/`;
  await pings(checks);
  const without = await pings(checks), before = memory(server);

  let heard = 0, last = 0;
  const open = slow => new Promise((done, fail) => {
    const request = http.get(`${server.base}${path}`, { headers: { Accept: 'text/event-stream' }, agent: false }, answer => {
      if (answer.statusCode !== 200) return fail(new Error(`${answer.statusCode}`));
      if (slow) answer.pause(); else answer.on('data', () => { heard += 1; last = Date.now(); });
      answer.on('error', () => {});
      done(request);
    }).on('error', fail);
  });
  const tabs = [];
  for (let number = 0; number < TABS; number += 1) tabs.push(await open(number < SLOW));
  await new Promise(done => setTimeout(done, 1000));
  const beside = await pings(checks), after = memory(server);
  // How soon a single change comes.
  await new Promise(done => setTimeout(done, 2500));
  const told = heard, begun = Date.now();
  await fetch(`${checks[0].ping_url}/fail`, { method: 'POST' });
  while (heard < told + TABS - SLOW && Date.now() < begun + 60_000) await new Promise(done => setTimeout(done, 10));
  const late = last - begun;
  console.log(`     ${TABS} pages: ${beside.toFixed(0)} of ${without.toFixed(0)} pings/s, ${(after - before).toFixed(1)} MB more, all told after ${late} ms`);
  expect(heard >= told + TABS - SLOW, `only ${heard - told} of ${TABS - SLOW} pages were told`);
  expect(beside >= without / 10, `${beside} pings/s beside ${TABS} pages, ${without} without`);
  expect(!(after - before > 60), `${after - before} MB more`);
  for (const tab of tabs) tab.destroy();
};
