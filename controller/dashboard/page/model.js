// The model page: its versions, its rolls, how stale its groups are, and what its swaps spend their time on.

import { call, list } from "./api.js";
import { bars, element, table } from "./dom.js";
import { ago, bytes, medianPhases, nanoseconds, number, version, word } from "./format.js";

const VERSIONS = [
  ["Version", (v) => version(v.seq)],
  ["State", (v) => `${word(v.state, "VERSION_STATE_")}${v.quarantined ? `, quarantined: ${v.quarantineReason || ""}` : ""}${v.pinned ? ", pinned" : ""}`],
  ["Optimizer step", (v) => (v.optimizerStep ? String(v.optimizerStep) : "")],
  ["From", (v) => version(v.parentSeq)],
  ["Size", (v) => bytes(v.bytes)],
  ["Groups on it", (v) => String(number(v.groupsServing))],
  ["Published", (v) => ago(v.publishedAt)],
];

const ROLLS = [
  ["Roll", (r) => String(r.number)],
  ["To", (r) => version(r.toSeq)],
  ["State", (r) => word(r.state, "ROLL_STATE_")],
  ["Groups", (r) => `${number(r.groupsDone)} of ${number(r.groupsTotal)}`],
  ["Cause", (r) => r.cause || ""],
  ["Asked for by", (r) => r.requestedBy || ""],
  ["Why", (r) => r.reason || ""],
  ["Began", (r) => ago(r.startedAt)],
];

export function histogramRows(histogram) {
  const rows = (histogram.buckets || []).map((bucket) => {
    const from = number(bucket.from);
    const below = number(bucket.below);
    const name = below === 0 ? `${from} or more` : below === from + 1 ? String(from) : `${from} to ${below - 1}`;
    return { name, from: 0, size: number(bucket.groups), label: `${number(bucket.groups)} groups`, kind: "bar" };
  });
  return rows.filter((row, index) => row.size > 0 || index < 2);
}

function conditions(model) {
  const status = model.status || {};
  const said = [status.holdReason && `Held: ${status.holdReason}`, status.suspended && "Suspended", status.convergenceMessage];
  for (const one of status.conditions || []) if (one.message) said.push(`${one.type}: ${one.message}`);
  return element("ul", {}, ...said.filter(Boolean).map((text) => element("li", {}, text)));
}

export async function showModel(main, name, signal) {
  const [model, versions, history, histogram, swaps] = await Promise.all([
    call("Models/Get", { name }, signal), list("Versions/List", { model: name }, "versions", 500, signal), call("Rolls/History", { model: name }, signal),
    call("Staleness/Histogram", { model: name }, signal), list("Fleet/ListSwaps", { model: name }, "swaps", 2000, signal),
  ]);
  const status = model.status || {};
  const lags = histogramRows(histogram);
  const phases = medianPhases(swaps).filter((phase) => phase.ns > 0);
  const facts = `Newest ${version(status.newestSeq)}, promoted ${version(status.promotedSeq)}; ${number(status.groupsConverged)} of ${number(status.groups)} groups serve their target, ` +
    `${number(status.groupsUnavailable)} unavailable; the most stale is ${number(status.maxLagPublishes)} behind.`;
  main.replaceChildren(
    element("h1", {}, `Model ${name}`), element("p", { id: "facts" }, facts), conditions(model),
    element("h2", {}, "Groups by how far behind, in publishes"), bars("Groups by lag", Math.max(1, ...lags.map((row) => row.size)), lags),
    element("h2", {}, `Where a swap's pause goes: medians over ${phases.length ? phases[0].swaps : 0} swaps`),
    phases.length
      ? bars("Median of each phase", Math.max(...phases.map((p) => p.ns)), phases.map((p) => ({ name: p.name, from: 0, size: p.ns, label: nanoseconds(p.ns), kind: "shut" })))
      : element("p", {}, "No swap was recorded yet."),
    table("Versions, newest first", VERSIONS, versions.slice(0, 50)),
    table("Rolls, newest first", ROLLS, (history.rolls || []).slice(0, 50)),
  );
}
