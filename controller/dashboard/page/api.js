// The JSON bridge: calls, and watches that come back. deploy/docs/dashboard.md says what it speaks.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message || `HTTP ${status}`);
    this.status = status;
    this.code = error.code || "UNKNOWN";
    this.reason = error.reason || "";
    this.hint = error.hint || "";
  }
}

let token = "";

// Kept as long as this tab lives; never in an address or a cookie.
export function setToken(value) {
  token = value.trim();
}

export function hasToken() {
  return token !== "";
}

function post(method, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(`/api/v1/${method}`, { method: "POST", headers, body: JSON.stringify(body || {}), signal, cache: "no-store" });
}

async function failure(answer) {
  const text = await answer.text();
  try {
    return new ApiError(answer.status, JSON.parse(text).error || {});
  } catch {
    return new ApiError(answer.status, { message: text.slice(0, 200) });
  }
}

export async function call(method, body, signal) {
  const answer = await post(method, body, signal);
  if (!answer.ok) throw await failure(answer);
  return answer.json();
}

// All pages of a list, up to 'most' items.
export async function list(method, body, key, most, signal) {
  const items = [];
  let pageToken = "";
  do {
    const page = await call(method, { ...body, ...(pageToken ? { pageToken } : {}) }, signal);
    items.push(...(page[key] || []));
    pageToken = page.nextPageToken || "";
  } while (pageToken && items.length < most);
  return items;
}

// Server-sent events out of pieces of text, wherever they were cut.
export class EventParser {
  constructor() {
    this.rest = "";
  }

  push(text) {
    const blocks = (this.rest + text).split("\n\n");
    this.rest = blocks.pop();
    return blocks.map(EventParser.parse).filter((event) => event.data !== null);
  }

  static parse(block) {
    const event = { id: "", event: "message", data: null };
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
      else if (name === "id" || name === "event") event[name] = value;
    }
    return event;
  }
}

async function* eventsOf(answer) {
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield* parser.push(decoder.decode(value, { stream: true }));
  }
}

const RETRY_MS = [500, 1000, 2000, 5000];
const FOREVER = new Set(["PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND"]);

function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}

// One life of a watch: from 'revision' until it ends; gives the revision to resume from.
async function follow(method, body, watch, revision) {
  const answer = await post(method, { ...body, ...(revision !== "0" ? { fromRevision: revision } : {}) }, watch.signal);
  if (!answer.ok) throw await failure(answer);
  watch.onState("open", null);
  watch.onStart(revision === "0");
  for await (const event of eventsOf(answer)) {
    if (event.event === "error") throw new ApiError(200, JSON.parse(event.data).error);
    if (event.event === "end") break;
    watch.onMessage(JSON.parse(event.data));
    // Objects at the start carry none: what follows them would be missed.
    watch.revision = event.id || watch.revision;
  }
  throw new ApiError(200, { code: "UNAVAILABLE", message: "the stream ended" });
}

// Follows a watch for as long as its signal lasts: after an error, a restart or a failover from where it was, or from the start
// where the server no longer knows. watch: {signal, onStart(isAnew), onMessage(message), onState("open"|"retrying"|"refused", error)}.
export async function watchForever(method, body, watch, waits = RETRY_MS) {
  watch.revision = "0";
  for (let tries = 0; !watch.signal.aborted; ) {
    const before = watch.revision;
    try {
      await follow(method, body, watch, before);
    } catch (error) {
      if (watch.signal.aborted) return;
      if (error.reason === "COMPACTED") watch.revision = "0";
      const isFinal = FOREVER.has(error.code);
      watch.onState(isFinal ? "refused" : "retrying", error);
      if (isFinal) return;
      tries = watch.revision !== before ? 0 : tries + 1;
    }
    await pause(waits[Math.min(tries, waits.length - 1)], watch.signal);
  }
}
