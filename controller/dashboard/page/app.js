// The frame: which page is shown, whether the controller answers, and the token.

import { setToken } from "./api.js";
import { showAudit } from "./audit.js";
import { element } from "./dom.js";
import { FleetPage } from "./fleet.js";
import { showGroup } from "./group.js";
import { showModel } from "./model.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
let shown = new AbortController();

function say(text) {
  banner.textContent = text;
  banner.hidden = text === "";
}

function explain(error) {
  return `${error.message}${error.hint ? ` — ${error.hint}` : ""}`;
}

function onState(state, error) {
  if (state === "open") say("");
  else say(`${state === "retrying" ? "Not live, trying again: " : ""}${explain(error)}`);
}

const PAGES = {
  "": (rest, signal) => new FleetPage(main, { signal, onState }).start(),
  model: ([name], signal) => showModel(main, name, signal),
  group: ([name], signal) => showGroup(main, name, signal),
  audit: (rest, signal) => showAudit(main, signal),
};

async function route() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const [page, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  say("");
  try {
    await (PAGES[page] || PAGES[""])(rest.map(decodeURIComponent), signal);
  } catch (error) {
    if (signal.aborted) return;
    main.replaceChildren(element("h1", {}, "That did not work"), element("p", {}, explain(error)));
  }
}

document.getElementById("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  setToken(field.value);
  field.value = "";
  route();
});
document.getElementById("refresh").addEventListener("click", route);
addEventListener("hashchange", () => route().then(() => main.focus()));
route();
