// A real OpenID Connect provider (npm oidc-provider) on loopback. Arguments: its port and the base
// URL of the server. Any password is accepted; the login is the name of the user, and `admin` is in
// the group `admins`. SIGUSR2 replaces the signing key.
import Provider from "oidc-provider";
import { generateKeyPairSync } from "node:crypto";

const [port, server] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const key = (id) => ({ ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: id });
const account = (id) => ({
  accountId: id,
  claims: () => ({ sub: id, preferred_username: id, groups: id === "admin" ? ["admins"] : ["staff"] }),
});
const start = (id) => {
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "overdue", client_secret: "a secret", redirect_uris: [`${server}/login/callback/`],
      post_logout_redirect_uris: [`${server}/login/`],
      backchannel_logout_uri: `${server}/login/provider/0/logout`,
    }],
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
    scopes: ["openid", "profile", "groups"],
    findAccount: (_, id) => account(id),
    jwks: { keys: [key(id)] },
    cookies: { keys: ["cookies"] },
    pkce: { required: () => true },
    features: { backchannelLogout: { enabled: true } },
  });
  return provider.listen(port, "127.0.0.1");
};
let running = start("first");
process.on("SIGUSR2", () => {
  running.closeAllConnections();
  running.close(() => { running = start("second"); });
});
