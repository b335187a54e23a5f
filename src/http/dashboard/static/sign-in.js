// Sign-in pages: show a password, warn about Caps Lock, and submit the time zone of the browser.

for (const button of document.querySelectorAll("[data-shows]")) {
  const input = document.getElementById(button.dataset.shows);
  button.hidden = false;
  button.addEventListener("click", () => {
    const shown = input.type === "text";
    input.type = shown ? "password" : "text";
    button.textContent = shown ? "Show" : "Hide";
    button.setAttribute("aria-pressed", String(!shown));
    input.focus();
  });
}

const caps = document.querySelector("[data-caps]");
for (const kind of ["keydown", "keyup"]) {
  document.addEventListener(kind, (event) => {
    if (caps && event.getModifierState) caps.hidden = !event.getModifierState("CapsLock");
  });
}

const zone = document.querySelector('input[name="zone"]');
if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
