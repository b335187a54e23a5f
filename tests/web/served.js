// How long the server takes for the list of 1,000, 10,000 and 100,000 checks, its first page and a search. Made when asked for, with a
// release build: .ci/browser BINARY served
'use strict';
const http = require('node:http');

exports.whenNamed = true;
const ROUNDS = 30;

exports.go = async ({ server, expect }) => {
  server.command('project', 'set', 'default', '--check-limit', '1000000');
  const key = JSON.parse(server.command('key', 'create', '--json', '--project', 'default', '--access', 'ping')).key;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  const ask = (path, method = 'GET', headers = {}) => new Promise((done, fail) => {
    const begun = process.hrtime.bigint();
    http.request(`${server.base}${path}`, { agent, method, headers }, answer => {
      let bytes = 0;
      answer.on('data', piece => { bytes += piece.length; });
      answer.on('end', () => done({ status: answer.statusCode, location: answer.headers.location, bytes, millis: Number(process.hrtime.bigint() - begun) / 1e6 }));
    }).on('error', fail).end();
  });
  const ends = ['', '', '', '', '/fail', '/start'];
  let made = 0;
  for (const [checks, most] of [[1_000, 10], [10_000, 40], [100_000, 300]]) {
    const make = async () => {
      while (made < checks) {
        const number = made++;
        const { status } = await ask(`/ping/${key}/nightly-backup-${number}${ends[number % 6]}?create=1`, 'POST');
        if (status !== 201) throw new Error(`${status}`);
      }
    };
    await Promise.all(Array.from({ length: 64 }, make));
    const { location } = await ask('/');
    for (const [what, query] of [['first page', ''], ['search', '?q=backup-77'], ['by name', '?sort=name']]) {
      const times = [];
      let bytes = 0;
      for (let round = 0; round < ROUNDS; round += 1) {
        const answer = await ask(`${location}${query}`, 'GET', { 'Accept-Encoding': 'gzip' });
        expect(answer.status === 200, `${answer.status}`);
        times.push(answer.millis);
        bytes = answer.bytes;
      }
      times.sort((one, other) => one - other);
      const [median, late] = [times[ROUNDS >> 1], times[Math.floor(ROUNDS * 0.95)]].map(millis => millis.toFixed(1));
      console.log(`     ${checks} checks, ${what}: median ${median} ms, 95 of 100 within ${late} ms (wanted: ${most} ms), ${(bytes / 1000).toFixed(1)} kB`);
    }
  }
  agent.destroy();
};
