// The fleet page: every group at a glance, the rolls that run, and a table of the groups by what is worst.

import { watchForever } from "./api.js";
import { element, link } from "./dom.js";
import { HEAT, blocked, describeGroup, groupState, heatOf, number, version, word } from "./format.js";
import { HeatMap } from "./heat.js";

// Objects of a watch by name. A watch that starts anew replaces all at its bookmark, so that nothing flickers and what is gone goes.
export class Mirror {
  constructor(key) {
    Object.assign(this, { key, items: new Map(), fresh: null });
  }

  start(isAnew) {
    this.fresh = isAnew ? new Map() : null;
  }

  apply(message) {
    const type = word(message.type, "WATCH_EVENT_TYPE_");
    const items = this.fresh || this.items;
    const item = message[this.key];
    if (type === "BOOKMARK") {
      this.items = items;
      this.fresh = null;
    } else if (item && type === "DELETED") {
      items.delete(item.meta.name);
    } else if (item) {
      items.set(item.meta.name, item);
    }
  }
}

// By model and name: a group keeps its place in the map.
export function inOrder(groups) {
  const key = (group) => `${group.model}/${group.meta.name}`;
  return [...groups].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

// What to look at first: out, then most behind.
export function worstFirst(groups) {
  const rank = (group) => (heatOf(group) === 6 ? 1e9 : 0) + number(group.lagPublishes) * 10 + (heatOf(group) === 4 ? 5 : 0);
  return [...groups].sort((a, b) => rank(b) - rank(a) || (a.meta.name < b.meta.name ? -1 : 1));
}

export function matches(group, text) {
  return describeGroup(group).toLowerCase().includes(text.toLowerCase());
}

// Why groups wait: [[reason, count]], most frequent first.
export function waiting(groups) {
  const counts = new Map();
  for (const group of groups) {
    const reason = blocked(group);
    if (reason) counts.set(reason, (counts.get(reason) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

// Rows of a list of 'count' that a window of 'height' at 'top' shows, with some more on both sides.
export function visible(count, top, height, row) {
  const first = Math.max(0, Math.floor(top / row) - 5);
  return { first, last: Math.min(count, Math.ceil((top + height) / row) + 5) };
}

const ROW = 28;
const CELLS = [
  (group) => link(group.meta.name, "group", group.meta.name),
  (group) => link(group.model, "model", group.model),
  (group) => groupState(group),
  (group) => `${version(group.committedSeq)}${number(group.targetSeq) !== number(group.committedSeq) ? ` → ${version(group.targetSeq)}` : ""}`,
  (group) => String(number(group.lagPublishes)),
  (group) => (blocked(group) ? `${blocked(group)} ${group.blockedMessage || ""}` : group.stateMessage || ""),
];
const HEADINGS = ["Group", "Model", "State", "Version", "Behind", "Why it waits"];

// A table of any length of which only the rows in sight exist.
class LongTable {
  constructor() {
    this.items = [];
    this.body = element("div", { class: "rows", role: "rowgroup" });
    const head = element("div", { class: "row head", role: "row", "aria-rowindex": 1 }, ...HEADINGS.map((text) => element("span", { role: "columnheader" }, text)));
    this.window = element("div", { class: "window", tabindex: 0, "aria-label": "Rows of the groups" }, this.body);
    this.root = element("div", { role: "table", "aria-label": "Groups, the worst first", class: "long" }, head, this.window);
    this.window.addEventListener("scroll", () => this.paint());
  }

  set(items) {
    this.items = items;
    this.root.setAttribute("aria-rowcount", items.length + 1);
    this.paint();
  }

  paint() {
    const { first, last } = visible(this.items.length, this.window.scrollTop, this.window.clientHeight || 400, ROW);
    const rows = this.items.slice(first, last).map((group, at) =>
      element("div", { class: "row", role: "row", "aria-rowindex": first + at + 2 }, ...CELLS.map((cell) => element("span", { role: "cell" }, cell(group)))),
    );
    const space = (count) => {
      const made = element("div", { "aria-hidden": "true" });
      made.style.height = `${count * ROW}px`; // Of the object model: the policy forbids only attributes.
      return made;
    };
    this.body.replaceChildren(space(first), ...rows, space(this.items.length - last));
  }
}

function rollLine(roll) {
  const done = number(roll.groupsDone);
  const total = number(roll.groupsTotal);
  const text = `${done} of ${total} groups done, ${number(roll.groupsSwapping)} swapping`;
  const meter = element("progress", { max: Math.max(1, total), value: done, "aria-label": `${roll.meta.name}: ${text}` });
  const wait = roll.canaryMessage || roll.convergenceMessage || "";
  return element("li", {}, link(roll.meta.name, "model", roll.model), ` to v${roll.toSeq}: ${word(roll.state, "ROLL_STATE_")} `, meter, ` ${text}${wait ? `. ${wait}` : ""}`);
}

const RUNS = new Set(["ROLL_STATE_PROGRESSING", "ROLL_STATE_PAUSED"]);

export class FleetPage {
  constructor(main, tools) {
    Object.assign(this, { main, tools, groups: new Mirror("group"), rolls: new Mirror("roll"), isDue: false });
    this.said = element("p", { class: "said", "aria-live": "polite" });
    this.counts = element("p", { id: "counts" });
    this.rollList = element("ul", { class: "plain", "aria-label": "Rolls that run" });
    this.waits = element("p", { id: "waits" });
    this.filter = element("input", { type: "search", id: "filter", placeholder: "name, state, reason" });
    this.filter.addEventListener("input", () => this.schedule());
    this.long = new LongTable();
    const help = "Groups as squares, coloured by how far behind they are. Arrow keys move, Enter opens a group. The table below says the same.";
    const canvas = element("canvas", { tabindex: 0, role: "application", "aria-label": help, id: "heat" });
    const legend = element("ul", { class: "legend" }, ...HEAT.map((heat) => element("li", {}, element("span", { class: `swatch ${heat.key}` }, heat.letter || " "), heat.word)));
    main.replaceChildren(
      element("h1", {}, "Fleet"), this.counts, element("h2", {}, "Rolls"), this.rollList, this.waits, element("h2", {}, "Groups"), legend,
      element("div", { class: "heat" }, canvas), this.said, element("label", { for: "filter" }, "Only groups with "), this.filter, this.long.root,
    );
    const select = (group) => (location.hash = `#/group/${encodeURIComponent(group.meta.name)}`);
    this.heat = new HeatMap(canvas, { select, focus: (text) => (this.said.textContent = text), signal: tools.signal });
  }

  start() {
    const follow = (mirror) => ({
      signal: this.tools.signal,
      onState: this.tools.onState,
      onStart: (isAnew) => mirror.start(isAnew),
      onMessage: (message) => (mirror.apply(message), this.schedule()),
    });
    watchForever("Fleet/Watch", {}, follow(this.groups)); // They tell of their troubles by onState.
    watchForever("Rolls/Watch", {}, follow(this.rolls));
  }

  // However many changes come, at most once in a quarter of a second.
  schedule() {
    if (this.isDue) return;
    this.isDue = true;
    setTimeout(() => this.show(), 250);
  }

  show() {
    this.isDue = false;
    if (this.tools.signal.aborted) return;
    const groups = inOrder(this.groups.items.values());
    const shown = this.filter.value ? groups.filter((group) => matches(group, this.filter.value)) : groups;
    const counts = HEAT.map((heat, index) => [groups.filter((group) => heatOf(group) === index).length, heat.word]);
    this.counts.textContent = `${groups.length} groups: ${counts.filter(([count]) => count > 0).map(([count, text]) => `${count} ${text}`).join(", ") || "none"}.`;
    const reasons = waiting(groups).map(([reason, count]) => `${count} × ${reason}`);
    this.waits.textContent = reasons.length ? `Waiting: ${reasons.join(", ")}.` : "No group waits.";
    const rolls = [...this.rolls.items.values()].filter((roll) => RUNS.has(roll.state));
    this.rollList.replaceChildren(...(rolls.length ? rolls.map(rollLine) : [element("li", {}, "None runs.")]));
    this.heat.set(shown);
    this.long.set(worstFirst(shown));
  }
}
