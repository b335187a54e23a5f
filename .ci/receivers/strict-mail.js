// Nodemailer's smtp-server, one for each kind of connection. The first line of output has the ports; each further line is an accepted mail.
const fs = require('fs');
const { SMTPServer } = require('smtp-server');

const [key, cert] = [fs.readFileSync('key.pem'), fs.readFileSync('chain.pem')];
const kinds = {
  tls: { secure: true, authMethods: ['PLAIN'] },
  starttls: { secure: false, authMethods: ['LOGIN'] },
  bare: { secure: false, hideSTARTTLS: true, authMethods: ['PLAIN'] },
};
const reject = (code, text) => Object.assign(new Error(text), { responseCode: code });
const print = (line) => fs.writeSync(1, `${JSON.stringify(line)}\n`);
const deferred = new Set();

const listen = (kind) => new Promise((resolve) => {
  const server = new SMTPServer({
    ...kinds[kind], key, cert, logger: false, authOptional: false, disableReverseLookup: true,
    onAuth(auth, session, done) {
      const isCorrect = auth.username === 'overdue' && auth.password === 'correct horse';
      session.method = auth.method;
      done(isCorrect ? null : reject(535, 'Wrong user or password'), { user: auth.username });
    },
    onRcptTo({ address }, session, done) {
      if (address.startsWith('nobody@')) return done(reject(550, 'No such user'));
      if (address.startsWith('later@') && !deferred.has(address)) {
        deferred.add(address);
        return done(reject(451, 'Try again later'));
      }
      return done();
    },
    onData(stream, session, done) {
      const parts = [];
      stream.on('data', (part) => parts.push(part));
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map(({ address }) => address);
        if (to.some((address) => address.startsWith('full@'))) return done(reject(552, 'Mailbox full'));
        const raw = Buffer.concat(parts).toString('base64');
        print({ way: kind, secure: session.secure, user: session.user, method: session.method, to, raw });
        return done();
      });
    },
  });
  server.on('error', () => {});
  server.listen(0, '127.0.0.1', () => resolve([kind, server.server.address().port]));
});

Promise.all(Object.keys(kinds).map(listen)).then((ports) => print({ ports: Object.fromEntries(ports) }));
