// Nodemailer's smtp-server, one for each way in. The first line that it prints has their ports; each of the others is a mail that it took.
const fs = require('fs');
const { SMTPServer } = require('smtp-server');

const [key, cert] = [fs.readFileSync('key.pem'), fs.readFileSync('chain.pem')];
const ways = {
  tls: { secure: true, authMethods: ['PLAIN'] },
  starttls: { secure: false, authMethods: ['LOGIN'] },
  bare: { secure: false, hideSTARTTLS: true, authMethods: ['PLAIN'] },
};
const refused = (code, text) => Object.assign(new Error(text), { responseCode: code });
const print = (line) => fs.writeSync(1, `${JSON.stringify(line)}\n`);
const seen = new Set();

const listen = (way) => new Promise((resolve) => {
  const server = new SMTPServer({
    ...ways[way], key, cert, logger: false, authOptional: false, disableReverseLookup: true,
    onAuth(auth, session, done) {
      const isRight = auth.username === 'overdue' && auth.password === 'correct horse';
      session.method = auth.method;
      done(isRight ? null : refused(535, 'Wrong user or password'), { user: auth.username });
    },
    onRcptTo({ address }, session, done) {
      if (address.startsWith('nobody@')) return done(refused(550, 'No such user'));
      if (address.startsWith('later@') && !seen.has(address)) {
        seen.add(address);
        return done(refused(451, 'Try again later'));
      }
      return done();
    },
    onData(stream, session, done) {
      const parts = [];
      stream.on('data', (part) => parts.push(part));
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map(({ address }) => address);
        if (to.some((address) => address.startsWith('full@'))) return done(refused(552, 'Mailbox full'));
        const raw = Buffer.concat(parts).toString('base64');
        print({ way, secure: session.secure, user: session.user, method: session.method, to, raw });
        return done();
      });
    },
  });
  server.on('error', () => {});
  server.listen(0, '127.0.0.1', () => resolve([way, server.server.address().port]));
});

Promise.all(Object.keys(ways).map(listen)).then((ports) => print({ ports: Object.fromEntries(ports) }));
