// The group page: where it stands, and its swaps as a trace: what came after what, and how long it took.

import { call, list } from "./api.js";
import { bars, element, link, table } from "./dom.js";
import { ago, bytes, describeGroup, nanoseconds, number, swapBars, version, word } from "./format.js";

const ENGINES = [
  ["Engine", (e) => e.name],
  ["Agent", (e) => e.agent || ""],
  ["Kind", (e) => e.kind || ""],
  ["Label", (e) => e.label || ""],
  ["Gate", (e) => e.gate || ""],
];

export function swapTitle(entry) {
  const swap = entry.swap || {};
  const took = swap.phases ? `, shut for ${nanoseconds(swap.phases.shutNs)}` : "";
  return `${version(swap.fromSeq)} → ${version(swap.toSeq)}: ${word(swap.outcome, "SWAP_OUTCOME_")}${took}, ${ago(swap.endedAt)}`;
}

function swapView(entry, isOpen) {
  const swap = entry.swap || {};
  const { bars: steps, total } = swapBars(swap.phases);
  const rows = steps.map((step) => ({ name: step.name, from: step.from, size: step.ns, label: nanoseconds(step.ns), kind: step.isShut ? "shut" : "before" }));
  const requests = `${number(swap.requestsInside)} requests inside, ${number(swap.requestsKept)} went on, ${number(swap.requestsAborted)} ended, ${number(swap.requestsHeld)} waited at the gate`;
  return element(
    "details", isOpen ? { open: "" } : {}, element("summary", {}, swapTitle(entry)), swap.message ? element("p", {}, swap.message) : undefined,
    rows.length ? bars("Phases of the swap", total, rows) : element("p", {}, "No phases were reached."),
    element("p", {}, `${bytes(swap.bytes)} landed; verified: ${word(swap.verifyLevel, "VERIFY_LEVEL_") || "not"}; ${requests}.`),
  );
}

export async function showGroup(main, name, signal) {
  const [group, swaps] = await Promise.all([call("Fleet/GetGroup", { name }, signal), list("Fleet/ListSwaps", { group: name }, "swaps", 1000, signal)]);
  const newest = swaps.reverse().slice(0, 20);
  main.replaceChildren(
    element("h1", {}, `Group ${name}`), element("p", { id: "facts" }, describeGroup(group)),
    element("p", {}, "Model ", link(group.model, "model", group.model), `, agent ${group.agent}; verified: ${word(group.verifyLevel, "VERIFY_LEVEL_") || "not"}.`),
    table("Engines", ENGINES, group.engines || []),
    element("h2", {}, "Swaps, newest first"), ...(newest.length ? newest.map((entry, index) => swapView(entry, index === 0)) : [element("p", {}, "None yet.")]),
  );
}
