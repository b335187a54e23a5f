// Forms with a passkey: asks the authenticator for a signature or a new key, and submits it.

const form = document.querySelector("form[data-passkey]");
const button = form.querySelector("button");
const wrong = form.querySelector("[data-wrong]");
const reasons = {
  InvalidStateError: "This authenticator already has a passkey for this account.",
  NotAllowedError: "This was cancelled, or took too long.",
  SecurityError: "This page is open at another address than the server's own.",
};

const show = (text) => {
  wrong.textContent = text;
  wrong.hidden = !text;
};

const ask = async () => {
  const answer = await fetch(form.dataset.passkey);
  if (!answer.ok) throw new Error("The server did not answer. Reload the page.");
  const options = await answer.json();
  const key = PublicKeyCredential;
  return "creates" in form.dataset
    ? navigator.credentials.create({ publicKey: key.parseCreationOptionsFromJSON(options) })
    : navigator.credentials.get({ publicKey: key.parseRequestOptionsFromJSON(options) });
};

if (window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
  form.hidden = button.hidden = false;
  show("");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    show("");
    button.disabled = true;
    try {
      form.elements.response.value = JSON.stringify(await ask());
      form.submit();
    } catch (error) {
      show(reasons[error.name] ?? error.message);
    }
    button.disabled = false;
  });
}
