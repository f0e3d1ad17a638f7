// The heat map: thousands of groups on one canvas, painted at most once a frame. Geometry is pure.

import { HEAT, describeGroup, heatOf } from "./format.js";

const CELL_MAX = 26;
const CELL_MIN = 6;
const ROWS_HIGH = 520;

// The largest cell with which 'count' of them fit 'width' and about ROWS_HIGH.
export function layout(count, width) {
  for (let cell = CELL_MAX; cell > CELL_MIN; cell -= 1) {
    const columns = Math.max(1, Math.floor(width / cell));
    if (Math.ceil(count / columns) * cell <= ROWS_HIGH) return { cell, columns, rows: Math.ceil(count / columns) };
  }
  const columns = Math.max(1, Math.floor(width / CELL_MIN));
  return { cell: CELL_MIN, columns, rows: Math.ceil(count / columns) };
}

// The group under a point; -1: none.
export function hit(shape, count, x, y) {
  const column = Math.floor(x / shape.cell);
  const index = Math.floor(y / shape.cell) * shape.columns + column;
  return x >= 0 && y >= 0 && column < shape.columns && index < count ? index : -1;
}

// Where a key moves the cursor.
export function move(index, key, columns, count) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -count, End: count };
  if (!(key in steps)) return index;
  const next = index + steps[key];
  if (key === "Home" || key === "End") return key === "Home" ? 0 : count - 1;
  return next < 0 || next >= count ? index : next;
}

export class HeatMap {
  // 'on': {select(group), focus(text), signal}; when the signal ends nothing outside the page's elements knows of the map.
  constructor(canvas, on) {
    Object.assign(this, { canvas, on, groups: [], cursor: 0, isDue: false });
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.show());
    canvas.addEventListener("blur", () => this.schedule());
    new ResizeObserver(() => this.schedule()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.schedule(), { signal: on.signal });
  }

  set(groups) {
    this.groups = groups;
    this.cursor = Math.min(this.cursor, Math.max(0, groups.length - 1));
    this.schedule();
  }

  schedule() {
    if (!this.isDue) {
      this.isDue = true;
      requestAnimationFrame(() => this.paint());
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return hit(this.shape, this.groups.length, event.clientX - box.left, event.clientY - box.top);
  }

  click(event) {
    const index = this.at(event);
    if (index >= 0) this.on.select(this.groups[index]);
  }

  point(event) {
    const index = this.at(event);
    this.canvas.title = index >= 0 ? describeGroup(this.groups[index]) : "";
  }

  key(event) {
    if (this.groups.length === 0) return;
    if (event.key === "Enter" || event.key === " ") {
      this.on.select(this.groups[this.cursor]);
      event.preventDefault();
      return;
    }
    const next = move(this.cursor, event.key, this.shape.columns, this.groups.length);
    if (next !== this.cursor || event.key.startsWith("Arrow")) {
      event.preventDefault();
      this.cursor = next;
      this.show();
    }
  }

  show() {
    this.schedule();
    if (this.groups.length > 0) this.on.focus(describeGroup(this.groups[this.cursor]));
  }

  paint() {
    this.isDue = false;
    const width = this.canvas.parentElement.clientWidth;
    this.shape = layout(this.groups.length, width);
    const { cell, columns, rows } = this.shape;
    const scale = devicePixelRatio || 1;
    const height = Math.max(1, rows) * cell;
    this.canvas.width = columns * cell * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    this.canvas.style.width = `${columns * cell}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    this.paintCells(pen);
    this.paintCursor(pen);
  }

  paintCells(pen) {
    const style = getComputedStyle(this.canvas);
    const colours = HEAT.map((heat) => style.getPropertyValue(`--${heat.key}`));
    const { cell, columns } = this.shape;
    const gap = cell > 10 ? 2 : 1;
    pen.font = `${Math.floor(cell * 0.55)}px system-ui`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    this.groups.forEach((group, index) => {
      const heat = heatOf(group);
      const x = (index % columns) * cell;
      const y = Math.floor(index / columns) * cell;
      pen.fillStyle = colours[heat];
      pen.fillRect(x, y, cell - gap, cell - gap);
      if (cell >= 16 && HEAT[heat].letter) {
        pen.fillStyle = style.getPropertyValue("--on-heat");
        pen.fillText(HEAT[heat].letter, x + (cell - gap) / 2, y + (cell - gap) / 2);
      }
    });
  }

  paintCursor(pen) {
    if (document.activeElement !== this.canvas || this.groups.length === 0) return;
    const { cell, columns } = this.shape;
    pen.strokeStyle = getComputedStyle(this.canvas).getPropertyValue("--focus");
    pen.lineWidth = 2;
    pen.strokeRect((this.cursor % columns) * cell + 1, Math.floor(this.cursor / columns) * cell + 1, cell - 3, cell - 3);
  }
}
