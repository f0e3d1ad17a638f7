// As much of a browser's document as the dashboard's modules use, for node: a tree of elements, text, attributes, listeners.

class Style {
  getPropertyValue(name) {
    return name;
  }
}

export class Node {
  constructor(tag) {
    Object.assign(this, { tag, attributes: new Map(), children: [], listeners: new Map(), style: new Style(), own: "", value: "" });
    Object.assign(this, { clientWidth: 800, clientHeight: 400, scrollTop: 0, parentElement: null, hidden: false });
  }

  setAttribute(name, value) {
    this.attributes.set(name, String(value));
  }

  getAttribute(name) {
    return this.attributes.get(name) ?? null;
  }

  removeAttribute(name) {
    this.attributes.delete(name);
  }

  append(...children) {
    for (const child of children) {
      const node = child instanceof Node ? child : Object.assign(new Node("#text"), { own: String(child) });
      node.parentElement = this;
      this.children.push(node);
    }
  }

  replaceChildren(...children) {
    this.children = [];
    this.own = "";
    this.append(...children);
  }

  get textContent() {
    return this.own + this.children.map((child) => child.textContent).join("");
  }

  set textContent(text) {
    this.children = [];
    this.own = String(text);
  }

  addEventListener(name, run) {
    this.listeners.set(name, run);
  }

  fire(name, event = {}) {
    this.listeners.get(name)({ preventDefault() {}, ...event });
  }

  focus() {
    document.activeElement = this;
  }

  getBoundingClientRect() {
    return { left: 0, top: 0 };
  }

  // Keeps what was painted last.
  getContext() {
    const painted = (this.painted = []);
    const keep = (name) => (...words) => painted.push([name, this.fill, ...words]);
    const pen = { scale() {}, fillRect: keep("fill"), fillText: keep("text"), strokeRect: keep("stroke") };
    return new Proxy(pen, { set: (of, name, value) => ((this.fill = name === "fillStyle" ? value : this.fill), true) });
  }

  *all(tag) {
    if (this.tag === tag) yield this;
    for (const child of this.children) yield* child.all(tag);
  }

  find(id) {
    return this.getAttribute("id") === id ? this : this.children.map((child) => child.find(id)).find(Boolean);
  }
}

export function install() {
  const make = (tag) => new Node(tag);
  globalThis.document = { createElement: make, createElementNS: (space, tag) => make(tag), activeElement: null };
  globalThis.requestAnimationFrame = (run) => setTimeout(run, 0);
  globalThis.getComputedStyle = (node) => node.style;
  globalThis.matchMedia = () => ({ addEventListener() {} });
  globalThis.devicePixelRatio = 1;
  globalThis.location = { hash: "" };
  globalThis.ResizeObserver = class {
    observe() {}
  };
}
