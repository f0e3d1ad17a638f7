// Words and numbers for people. Pure: no page, no network.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

// 64-bit integers come as text; what is absent is 0.
export function number(value) {
  return value === undefined || value === null ? 0 : Number(value);
}

export function bytes(value) {
  let left = number(value);
  let unit = 0;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? left : left.toFixed(1)} ${UNITS[unit]}`;
}

// Nanoseconds as the largest unit that keeps three digits.
export function nanoseconds(value) {
  const ns = number(value);
  if (ns >= 60e9) return `${Math.floor(ns / 60e9)} min ${Math.round((ns % 60e9) / 1e9)} s`;
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e3).toFixed(0)} µs`;
}

// How long ago an RFC 3339 time was.
export function ago(time, now = Date.now()) {
  if (!time) return "never";
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

// "ROLL_STATE_PROGRESSING" without its prefix; "" for what is absent.
export function word(value, prefix) {
  const text = value || "";
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

export function version(seq) {
  return number(seq) === 0 ? "–" : `v${seq}`;
}

export function groupState(group) {
  return group.retired ? "RETIRED" : word(group.state, "GROUP_STATE_");
}

export function blocked(group) {
  return word(group.blockedReason, "BLOCKED_REASON_");
}

// Classes of the heat map, from fine to worst; each has a colour, a letter and a word, so that none hangs on colour alone.
export const HEAT = [
  { key: "current", letter: "", word: "on the newest version" },
  { key: "lag1", letter: "1", word: "1 publish behind" },
  { key: "lag2", letter: "2", word: "2 or 3 publishes behind" },
  { key: "lag4", letter: "4", word: "4 or more publishes behind" },
  { key: "swapping", letter: "~", word: "being swapped, or its gate is shut" },
  { key: "asleep", letter: "z", word: "asleep or retired" },
  { key: "out", letter: "!", word: "out of service, unknown, or on another branch" },
];

const SHUT = new Set(["PAUSING", "APPLYING", "RESUMING", "RESTORING", "JOINING"]);
const BAD = new Set(["OUT", "UNKNOWN", ""]);

// Index into HEAT.
export function heatOf(group) {
  const state = groupState(group);
  if (state === "ASLEEP" || state === "RETIRED") return 5;
  if (BAD.has(state) || group.lineageRelation === "LINEAGE_RELATION_UNRELATED") return 6;
  if (SHUT.has(state) || group.ticket !== undefined) return 4;
  const lag = number(group.lagPublishes);
  return lag === 0 ? 0 : lag === 1 ? 1 : lag < 4 ? 2 : 3;
}

// One sentence for a group: what a screen reader says, and the tooltip.
export function describeGroup(group) {
  const parts = [`${group.meta.name}: ${groupState(group)}, serves ${version(group.committedSeq)}`];
  if (number(group.targetSeq) !== number(group.committedSeq)) parts.push(`goes to ${version(group.targetSeq)}`);
  if (number(group.lagPublishes) > 0) parts.push(`${group.lagPublishes} behind`);
  if (blocked(group)) parts.push(`waits: ${blocked(group)}${group.blockedMessage ? `: ${group.blockedMessage}` : ""}`);
  if (group.stateMessage) parts.push(group.stateMessage);
  return parts.join(", ");
}

// Phases of a swap in their order; the first two are before the gate closes.
export const PHASES = ["stage", "queue", "barrier", "pause", "apply", "finalize", "verify", "invalidate", "commit", "label", "probe", "open"];
const BEFORE = new Set(["stage", "queue"]);

// What a request could notice: the phases between the gate's closing and its opening, as bars one after the other.
export function swapBars(phases) {
  let at = 0;
  const bars = [];
  for (const name of PHASES) {
    const ns = number((phases || {})[`${name}Ns`]);
    if (ns > 0) {
      bars.push({ name, from: at, ns, isShut: !BEFORE.has(name) });
      at += ns;
    }
  }
  return { bars, total: at };
}

// Median time of each shut phase over swaps that committed.
export function medianPhases(entries) {
  const done = entries.filter((e) => e.swap && e.swap.outcome === "SWAP_OUTCOME_COMMITTED" && e.swap.phases);
  return PHASES.filter((name) => !BEFORE.has(name)).map((name) => {
    const times = done.map((e) => number(e.swap.phases[`${name}Ns`])).sort((a, b) => a - b);
    return { name, ns: times.length ? times[Math.floor((times.length - 1) / 2)] : 0, swaps: times.length };
  });
}
