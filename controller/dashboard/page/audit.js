// The audit page: who changed what, and what was refused.

import { call } from "./api.js";
import { element, table } from "./dom.js";

const ENTRIES = [
  ["When", (e) => (e.at || "").replace("T", " ").replace(/\.\d+Z$/, "Z")],
  ["Who", (e) => (e.requestedBy ? `${e.principal} (says ${e.requestedBy})` : e.principal || "")],
  ["From", (e) => e.address || ""],
  ["Call", (e) => (e.method || "").replace("baton.v1.", "")],
  ["About", (e) => e.object || ""],
  ["Why", (e) => e.reason || ""],
  ["Outcome", (e) => (e.outcome === "OK" ? "OK" : `${e.outcome}: ${e.message || ""}`)],
];

export async function showAudit(main, signal) {
  const found = await call("Audit/List", { pageSize: 200 }, signal);
  const entries = found.entries || [];
  main.replaceChildren(element("h1", {}, "Audit"), entries.length ? table("Newest first", ENTRIES, entries) : element("p", {}, "Nothing was changed yet."));
}
