// The dashboard's modules under node: what is pure, and the pages against a controller that runs.
//   node dashboard_page.mjs MODULES logic
//   node dashboard_page.mjs MODULES live http://127.0.0.1:PORT MODEL GROUP      prints what the pages say, as JSON
//   node dashboard_page.mjs MODULES follow http://127.0.0.1:PORT                prints a line for each change of a group

import assert from "node:assert/strict";
import { install } from "./dashboard_dom.mjs";

const [modules, what, base, model, group] = process.argv.slice(2);
const load = (name) => import(`${modules}/${name}.js`);

async function testFormat() {
  const format = await load("format");
  assert.equal(format.nanoseconds("1500000"), "1.5 ms");
  assert.equal(format.nanoseconds(2.5e9), "2.50 s");
  assert.equal(format.nanoseconds(61e9), "1 min 1 s");
  assert.equal(format.bytes("1536"), "1.5 KiB");
  assert.equal(format.ago("2026-01-01T00:00:00Z", Date.parse("2026-01-01T01:00:00Z")), "60 min ago");
  const group = (more) => ({ meta: { name: "g" }, state: "GROUP_STATE_SERVING", committedSeq: "3", targetSeq: "3", ...more });
  const heat = (more) => format.HEAT[format.heatOf(group(more))].key;
  assert.equal(heat({}), "current");
  assert.equal(heat({ lagPublishes: "1" }), "lag1");
  assert.equal(heat({ lagPublishes: "3" }), "lag2");
  assert.equal(heat({ lagPublishes: "4" }), "lag4");
  assert.equal(heat({ ticket: {} }), "swapping");
  assert.equal(heat({ state: "GROUP_STATE_OUT", ticket: {} }), "out");
  assert.equal(heat({ lineageRelation: "LINEAGE_RELATION_UNRELATED" }), "out");
  assert.equal(heat({ retired: true }), "asleep");
  const text = format.describeGroup(group({ targetSeq: "4", lagPublishes: "1", blockedReason: "BLOCKED_REASON_BUDGET_FULL", blockedMessage: "wait" }));
  assert.equal(text, "g: SERVING, serves v3, goes to v4, 1 behind, waits: BUDGET_FULL: wait");
  const { bars, total } = format.swapBars({ stageNs: "5", pauseNs: "10", applyNs: "20" });
  assert.deepEqual(bars.map((bar) => [bar.name, bar.from, bar.isShut]), [["stage", 0, false], ["pause", 5, true], ["apply", 15, true]]);
  assert.equal(total, 35);
  const swap = (ns, outcome = "SWAP_OUTCOME_COMMITTED") => ({ swap: { outcome, phases: { pauseNs: ns } } });
  const pause = format.medianPhases([swap(3), swap(1), swap(2), swap(99, "SWAP_OUTCOME_OUT")]).find((phase) => phase.name === "pause");
  assert.deepEqual(pause, { name: "pause", ns: 2, swaps: 3 });
}

async function testEvents() {
  const { EventParser } = await load("api");
  const text = ': alive\n\nid: 7\ndata: {"a":1}\n\nevent: end\ndata: {}\n\n';
  const whole = new EventParser().push(text);
  assert.deepEqual(whole, [{ id: "7", event: "message", data: '{"a":1}' }, { id: "", event: "end", data: "{}" }]);
  const parser = new EventParser();
  const pieces = [...text].flatMap((letter) => parser.push(letter)); // Wherever it is cut.
  assert.deepEqual(pieces, whole);
}

async function testMirror() {
  const { Mirror, visible, waiting, worstFirst } = await load("fleet");
  const mirror = new Mirror("group");
  const say = (type, name, more) => mirror.apply({ type: `WATCH_EVENT_TYPE_${type}`, group: name && { meta: { name }, model: "m", ...more } });
  mirror.start(true);
  say("ADDED", "a");
  assert.equal(mirror.items.size, 0, "a start is shown when it is whole");
  say("ADDED", "b");
  say("BOOKMARK");
  assert.deepEqual([...mirror.items.keys()], ["a", "b"]);
  say("DELETED", "a");
  mirror.start(false); // It goes on from where it was.
  say("MODIFIED", "b", { lagPublishes: "2" });
  assert.equal(mirror.items.get("b").lagPublishes, "2");
  mirror.start(true); // The server knew no more: what is gone goes.
  say("ADDED", "c");
  assert.deepEqual([...mirror.items.keys()], ["b"]);
  say("BOOKMARK");
  assert.deepEqual([...mirror.items.keys()], ["c"]);
  const serving = (name, lag) => ({ meta: { name }, state: "GROUP_STATE_SERVING", lagPublishes: lag, blockedReason: "BLOCKED_REASON_STAGING" });
  const groups = [serving("x", "1"), serving("y", "5"), { meta: { name: "z" }, state: "GROUP_STATE_OUT" }];
  assert.deepEqual(worstFirst(groups).map((one) => one.meta.name), ["z", "y", "x"]);
  assert.deepEqual(waiting(groups), [["STAGING", 2]]);
  assert.deepEqual(visible(10000, 2800, 280, 28), { first: 95, last: 115 });
  assert.deepEqual(visible(3, 0, 280, 28), { first: 0, last: 3 });
}

async function testHeat() {
  const { HeatMap, hit, layout, move } = await load("heat");
  for (const count of [0, 1, 7, 500, 10000]) {
    const shape = layout(count, 1000);
    assert.ok(shape.columns * shape.rows >= count && shape.columns * shape.cell <= 1000, `${count} groups fit`);
    for (const index of [0, count - 1].filter((one) => one >= 0 && count > 0)) {
      const x = (index % shape.columns) * shape.cell + 1;
      assert.equal(hit(shape, count, x, Math.floor(index / shape.columns) * shape.cell + 1), index);
    }
    assert.equal(hit(shape, count, 1e6, 0), -1);
  }
  assert.deepEqual([move(0, "ArrowLeft", 10, 25), move(3, "ArrowDown", 10, 25), move(20, "ArrowDown", 10, 25), move(5, "End", 10, 25), move(5, "Home", 10, 25)], [0, 13, 20, 24, 0]);
  const parent = document.createElement("div");
  const canvas = document.createElement("canvas");
  parent.append(canvas);
  const said = [];
  const [media, shown] = [new EventTarget(), new AbortController()];
  globalThis.matchMedia = () => media;
  const map = new HeatMap(canvas, { select: (one) => said.push(one.meta.name), focus: (text) => said.push(text), signal: shown.signal });
  const many = Array.from({ length: 10000 }, (_, at) => ({ meta: { name: `g${at}` }, state: "GROUP_STATE_SERVING", lagPublishes: String(at % 5) }));
  for (let change = 0; change < 100; change += 1) map.set(many); // A hundred changes, one frame.
  await new Promise((done) => setTimeout(done, 20));
  const cells = canvas.painted.filter(([kind]) => kind === "fill");
  assert.equal(cells.length, 10000);
  assert.deepEqual([cells[0][1], cells[1][1], cells[4][1]], ["--current", "--lag1", "--lag4"]);
  canvas.fire("keydown", { key: "ArrowRight" });
  canvas.fire("keydown", { key: "Enter" });
  assert.deepEqual(said, ["g1: SERVING, serves –, 1 behind", "g1"]);
  await new Promise((done) => setTimeout(done, 20));
  const isAsked = () => (media.dispatchEvent(new Event("change")), map.isDue);
  assert.ok(isAsked());
  await new Promise((done) => setTimeout(done, 20));
  shown.abort(); // Another page is shown: nothing keeps this map.
  assert.ok(!isAsked());
}

async function testRows() {
  const { histogramRows } = await load("model");
  const rows = histogramRows({ buckets: [{ below: "1", groups: 3 }, { from: "1", below: "2" }, { from: "2", below: "4", groups: 1 }, { from: "4", below: "8" }, { from: "8" }] });
  assert.deepEqual(rows.map((row) => [row.name, row.size]), [["0", 3], ["1", 0], ["2 to 3", 1]]);
  const { table } = await load("dom");
  const made = table("T", [["Name", (item) => item.name]], [{ name: "<img src=x>" }]);
  assert.equal(made.textContent, "TName<img src=x>"); // Text, never markup.
  assert.equal([...made.all("th")][0].getAttribute("scope"), "col");
}

// The bridge is asked by absolute addresses here.
function ask(server) {
  const plain = globalThis.fetch;
  globalThis.fetch = (path, options) => plain(server + path, options);
}

async function live() {
  ask(base);
  const shown = {};
  const signal = new AbortController();
  const main = document.createElement("main");
  const [{ showModel }, { showGroup }, { showAudit }, { FleetPage }] = await Promise.all(["model", "group", "audit", "fleet"].map(load));
  await showModel(main, model, signal.signal);
  shown.model = main.textContent;
  shown.pictures = [...main.all("svg")].map((picture) => picture.getAttribute("aria-label"));
  await showGroup(main, group, signal.signal);
  shown.group = main.textContent;
  shown.trace = [...main.all("svg")].map((picture) => picture.getAttribute("aria-label"));
  await showAudit(main, signal.signal);
  shown.audit = main.textContent;
  const page = new FleetPage(main, { signal: signal.signal, onState: (state) => (shown.state = state) });
  page.start();
  while (!main.find("counts").textContent.startsWith("1 ") && page.groups.items.size === 0) await new Promise((done) => setTimeout(done, 50));
  page.show();
  shown.fleet = main.textContent;
  signal.abort();
  process.stdout.write(JSON.stringify(shown));
  process.exit(0);
}

async function follow() {
  ask(base);
  const { watchForever } = await load("api");
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  await watchForever("Fleet/Watch", {}, {
    signal: new AbortController().signal,
    onState: (state, error) => say({ state, code: error ? error.code || "NETWORK" : undefined }),
    onStart: (isAnew) => say({ isAnew }),
    onMessage: (message) => say({ type: message.type, name: message.group && message.group.meta.name, cordoned: Boolean(message.group && message.group.cordoned) }),
  }, [200]);
}

install();
if (what === "live") await live();
else if (what === "follow") await follow();
else {
  for (const test of [testFormat, testEvents, testMirror, testHeat, testRows]) {
    await test();
    process.stdout.write(`${test.name}\n`);
  }
}
