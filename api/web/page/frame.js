/** What every page has around it: the bar on top, and the question for a key. */

import { hasKey, setKey, whenKeyIsNeeded } from "./api.js";
import { h } from "./dom.js";

/** Puts the bar on top of the page. */
export function frame() {
  const forget = h("button", { type: "button", class: "plain", hidden: !hasKey(), onclick: forgetKey }, "Forget key");
  document.body.prepend(
    h("a", { class: "skip", href: "#content" }, "Skip to the content"),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "/" }, h("img", { src: "/assets/player/icon.svg", alt: "", width: 26 }), "recon4d"),
      h("nav", { "aria-label": "Main" }, h("a", { href: "/#/" }, "Scenes"), h("a", { href: "/#/new" }, "New scene"), forget),
    ),
  );
  whenKeyIsNeeded((wrong) => (asked ??= ask(wrong).finally(() => ((asked = null), (forget.hidden = !hasKey())))));
}

let asked = null;

function forgetKey() {
  setKey(null);
  location.reload();
}

/** Asks for the API key; the page goes on once there is one. */
function ask(wrong) {
  const input = h("input", { type: "password", autocomplete: "off", required: true, spellcheck: false, id: "key" });
  const dialog = h(
    "dialog",
    { "aria-labelledby": "key-title" },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "key-title" }, "API key"),
      h(
        "p",
        { class: wrong ? "warn" : "soft" },
        wrong ? "That key is not valid here, or no longer." : "This service asks for a key. It is kept in this tab only.",
      ),
      h("label", { for: "key" }, "Key"),
      input,
      h("button", { class: "primary" }, "Continue"),
      h("p", { class: "soft small" }, "Keys are made where the service runs: ", h("code", {}, "recon4d keys create"), "."),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      setKey(input.value.trim());
      dialog.remove();
      resolve();
    });
  });
}
