// Elements in short. Everything that came over the network becomes text, never markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

// columns: [heading, cell(item) -> text or element].
export function table(caption, columns, items) {
  const head = element("tr", {}, ...columns.map(([heading]) => element("th", { scope: "col" }, heading)));
  const rows = items.map((item) => element("tr", {}, ...columns.map(([, cell]) => element("td", {}, cell(item)))));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...rows));
}

export function link(text, ...parts) {
  return element("a", { href: `#/${parts.map(encodeURIComponent).join("/")}` }, text);
}

// Bars that share one scale: [{name, from, size, label, kind}]; 'total' is the whole width. Widths are attributes of SVG, since the
// page's policy allows no inline style.
export function bars(label, total, rows) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const draw = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    picture.append(made);
  };
  picture.setAttribute("viewBox", `0 0 1000 ${Math.max(1, rows.length) * 24}`);
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `${label}: ${rows.map((row) => `${row.name} ${row.label}`).join(", ")}`);
  rows.forEach((row, index) => {
    const scale = total > 0 ? 640 / total : 0;
    draw("text", { x: 0, y: index * 24 + 16 }, row.name);
    draw("rect", { x: 130 + row.from * scale, y: index * 24 + 4, width: Math.max(2, row.size * scale), height: 16, class: row.kind });
    draw("text", { x: 790, y: index * 24 + 16 }, row.label);
  });
  return picture;
}
