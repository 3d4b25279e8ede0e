// The page "Explore": what an index or a window reads, as torch_dml_ops has it, without Python.
// tests/viz/test_explore.py compares `torch_dml_ops_explore.read` and `.walk` with the package, sentences included.
"use strict";

const torch_dml_ops_explore = (() => {
  const MOST_ELEMENTS = 256;

  const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
  const list = (numbers) => `[${numbers.join(", ")}]`;

  // The sizes and, in order, the flat places in the input of what `slice1` copies.
  function walk(sizes, offsets, windows, strides) {
    for (const [name, values] of [["window_offsets", offsets], ["window_sizes", windows], ["window_strides", strides]])
      if (values.length !== sizes.length)
        throw new Error(`slice1: ${name} must have length ${sizes.length}, an entry for each dimension of input, got ${values.length}`);
    const most = sizes.map((size, d) => {
      const least = Math.min(size, 1);
      if (strides[d] === 0) throw new Error(`slice1: window_strides[${d}] must not be 0`);
      if (offsets[d] < 0) throw new Error(`slice1: window_offsets[${d}] must be at least 0, got ${offsets[d]}`);
      if (windows[d] < least) throw new Error(`slice1: window_sizes[${d}] must be at least ${least}, got ${windows[d]}`);
      if (offsets[d] + windows[d] > size)
        throw new Error(`slice1: window_offsets[${d}] + window_sizes[${d}] must be at most ${size}, the size of input in dimension ${d}, got ${offsets[d]} + ${windows[d]}`);
      return 1 + Math.floor((windows[d] - 1) / Math.abs(strides[d]));
    });
    const starts = offsets.map((offset, d) => (strides[d] > 0 ? offset : offset + windows[d] - 1));
    return {sizes: most, places: places(sizes, starts, strides, most)};
  }

  function places(sizes, starts, strides, counts) {
    let found = [0];
    sizes.forEach((size, d) => {
      found = found.flatMap((place) => Array.from({length: counts[d]}, (_, k) => place * size + starts[d] + k * strides[d]));
    });
    return found;
  }

  // What stands between commas, but for those within brackets, and for one at the end.
  function entriesOf(text) {
    const parts = text.trim().replace(/,$/, "").split(/,(?![^[(]*[\])])/);
    return text.trim() === "" ? [] : parts.map((part) => part.trim());
  }

  // What is between the brackets of "x[::-2, 1:]" and "dml.index(x)[::-2, 1:]", and all of "::-2, 1:".
  const indexIn = (text) => /^\s*[\w.]+(?:\([\w.]*\))?\[(.*)\]\s*$/.exec(text)?.[1] ?? text;

  // An index as objects: a number, {start, stop, step}, "...", or "None".
  function parse(text) {
    return entriesOf(indexIn(text)).map((part, k) => {
      const numbers = /^\[(.*)\]$/.exec(part);
      if (numbers)
        throw new Error(`index: index[${k}] must be a slice, a whole number, None or an Ellipsis, got ${list(entriesOf(numbers[1]))}`);
      if (part === "..." || part === "None") return part;
      if (/^[+-]?\d+$/.test(part)) return Number(part);
      const called = /^slice\((.*)\)$/.exec(part)?.[1].split(",").map((bound) => bound.trim().replace(/^None$/, ""));
      const bounds = called ? (called.length === 1 ? ["", ...called] : called) : part.split(":").map((bound) => bound.trim());
      if (bounds.length < 2 || bounds.length > 3 || !bounds.every((bound) => /^([+-]?\d+)?$/.test(bound)))
        throw new Error(`index: index[${k}] must be a slice, a whole number, None or an Ellipsis, got ${part || "nothing"}`);
      const [start, stop, step] = bounds.map((bound) => (bound === "" ? null : Number(bound)));
      return {start, stop, step: step === undefined ? null : step};
    });
  }

  function walkOf(slice, size, d) {
    const largest = Number.MAX_SAFE_INTEGER;  // which is written in full, and beyond every size
    const step = slice.step === null ? 1 : Math.max(-largest, Math.min(slice.step, largest));
    if (step === 0) throw new Error(`index: the slice of dimension ${d} must not have a step of 0`);
    const [least, most] = step > 0 ? [0, size] : [-1, size - 1];
    const bound = (index, otherwise) =>
      index === null ? otherwise : index < 0 ? Math.max(index + size, least) : Math.min(index, most);
    const start = bound(slice.start, step > 0 ? least : most);
    const stop = bound(slice.stop, step > 0 ? most : least);
    return {start, step, length: Math.max(Math.ceil((stop - start) / step), 0)};
  }

  // What index(x)[text] gives; with the window of slice1 where that gives the same.
  function read(sizes, text) {
    const entries = parse(text);
    const ellipses = entries.filter((entry) => entry === "...").length;
    if (ellipses > 1) throw new Error(`index: index must have at most one Ellipsis, got ${ellipses}`);
    const used = entries.filter((entry) => entry !== "..." && entry !== "None").length;
    if (used > sizes.length)
      throw new Error(`index: index must have no more slices and whole numbers than input has dimensions, ${sizes.length}, got ${used}`);
    const whole = Array(sizes.length - used).fill({start: null, stop: null, step: null});
    const at = ellipses ? entries.indexOf("...") : entries.length;
    const numbered = entries.map((entry, k) => [entry, k]);
    const all = [...numbered.slice(0, at), ...whole.map((entry) => [entry, at]), ...numbered.slice(at + 1)];
    const walks = [], result = [];
    for (const [entry, k] of all) {
      const d = walks.length, size = sizes[d];
      if (entry === "None") {
        result.push(1);
      } else if (typeof entry === "number") {
        if (size === 0) throw new Error(`index: index[${k}] must be a slice, as dimension ${d} has size 0, got ${entry}`);
        if (entry < -size || entry >= size)
          throw new Error(`index: index[${k}] must be from ${-size} to ${size - 1}, as dimension ${d} has size ${size}, got ${entry}`);
        walks.push({start: entry < 0 ? entry + size : entry, step: 1, length: 1});
      } else {
        walks.push(walkOf(entry, size, d));
        result.push(walks[d].length);
      }
    }
    const counts = walks.map((w) => w.length);
    const found = product(counts) === 0 ? [] : places(sizes, walks.map((w) => w.start), walks.map((w) => w.step), counts);
    const sliced = found.length > 0 && all.every(([entry]) => typeof entry === "object");
    const extents = walks.map((w) => (w.length - 1) * Math.abs(w.step) + 1);
    const offsets = walks.map((w, d) => (w.step > 0 ? w.start : w.start - extents[d] + 1));
    return {sizes: result, places: found, window: sliced ? [offsets, extents, walks.map((w) => w.step)] : null};
  }

  const element = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // A table for the last two dimensions, and as many of them as the others have places.
  function grids(sizes, cell) {
    const [rows, columns] = [sizes.length > 1 ? sizes[sizes.length - 2] : 1, sizes.length ? sizes[sizes.length - 1] : 1];
    return Array.from({length: product(sizes.slice(0, -2))}, (_, grid) =>
      element("table", {}, Array.from({length: rows}, (_, row) =>
        element("tr", {}, Array.from({length: columns}, (_, column) => cell((grid * rows + row) * columns + column)))))
    );
  }

  const shade = (k, count) => {
    const part = count > 1 ? k / (count - 1) : 0;
    return `rgb(${[[232, 86], [242, 160], [250, 211]].map(([first, last]) => Math.round(first + (last - first) * part))})`;
  };

  function draw(page, sizes, found, window) {
    const order = new Map(found.places.map((place, k) => [place, k]));
    // The sides of an element on which the window ends; none, if it is not inside.
    const sides = (place) => {
      const indices = sizes.map((size, d) => Math.floor(place / product(sizes.slice(d + 1))) % size);
      if (!window || !indices.every((index, d) => window[0][d] <= index && index < window[0][d] + window[1][d])) return [];
      const ends = (d) => (d < 0 ? [true, true] : [indices[d] === window[0][d], indices[d] === window[0][d] + window[1][d] - 1]);
      const [[top, bottom], [left, right]] = [ends(sizes.length - 2), ends(sizes.length - 1)];
      return ["window", ...Object.entries({top, bottom, left, right}).filter(([, is]) => is).map(([side]) => side)];
    };
    const read = (place, k) => {
      const cell = element("td", {className: "read"}, [String(place), element("small", {textContent: k})]);
      cell.style.background = shade(k, found.places.length);
      return cell;
    };
    page.input.replaceChildren(...grids(sizes, (place) => {
      const cell = order.has(place) ? read(place, order.get(place)) : element("td", {textContent: place});
      cell.classList.add(...sides(place));
      cell.classList.toggle("start", order.get(place) === 0);
      return cell;
    }));
    page.output.replaceChildren(...(found.places.length
      ? grids(found.sizes, (k) => read(found.places[k], k))
      : ["nothing is selected"]));
    page.shape.textContent = list(found.sizes);
  }

  // "4, 6", or "(4, 6)", "[4, 6]", "torch.Size([4, 6])".
  function numbersIn(text, name) {
    const within = /^\s*(?:torch\.Size\()?[([]?([^()[\]]*)[)\]]{0,2}\s*$/.exec(text);
    return entriesOf(within ? within[1] : text).map((part, k) => {
      if (!/^[+-]?\d+$/.test(part)) throw new Error(`${name}[${k}] must be a whole number, got ${part || "nothing"}`);
      return Number(part);
    });
  }

  const NAMES = {offsets: "window_offsets", windows: "window_sizes", strides: "window_strides"};

  function start(root) {
    const page = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    const fields = Object.keys(NAMES).map((part) => page[part]);

    // The address has what the page shows, so that it can be sent.
    function keep(parts) {
      const text = parts.map((part) => `${part}=${encodeURIComponent(page[part].value.replace(/\s/g, ""))}`).join("&");
      history.replaceState(null, "", `#${text.replace(/%2C/g, ",").replace(/%3A/g, ":")}`);
    }

    function show(byWindow) {
      let field = page.sizes;  // which is read, and at fault if that fails
      try {
        const sizes = numbersIn(field.value, "sizes");
        if (sizes.length < 1 || sizes.length > 4 || sizes.some((size) => size < 1) || product(sizes) > MOST_ELEMENTS)
          throw new Error(`sizes must be 1 to 4 numbers from 1 on, of at most ${MOST_ELEMENTS} elements, got ${list(sizes)}`);
        let found, window;
        field = page.index;
        if (byWindow) {
          window = Object.entries(NAMES).map(([part, name]) => numbersIn((field = page[part]).value, `slice1: ${name}`));
          field = null;
          found = walk(sizes, ...window);
          page.index.value = "";
          page.code.textContent = `dml.slice1(x, ${window.map(list).join(", ")})`;
        } else {
          found = read(sizes, page.index.value);
          window = found.window;
          page.code.textContent = `dml.index(x)[${indexIn(page.index.value).trim() || "..."}]` +
            (window ? `\ndml.slice1(x, ${window.map(list).join(", ")})` : "");
          fields.forEach((field, k) => { field.value = window ? window[k].join(", ") : ""; });
        }
        draw(page, sizes, found, window);
        field = null;
        page.error.textContent = "";
        keep(byWindow ? ["sizes", ...Object.keys(NAMES)] : ["sizes", "index"]);
      } catch (error) {
        page.error.textContent = error.message;
        field ??= fields.find((_, k) => error.message.startsWith(`slice1: ${Object.values(NAMES)[k]}`));
      }
      // What is shown is of the last numbers that were right.
      page.copy.disabled = field !== null;
      root.classList.toggle("stale", field !== null);
      [page.sizes, page.index, ...fields].forEach((each) => each.setAttribute("aria-invalid", each === field));
    }

    function open() {
      const given = new URLSearchParams(location.hash.slice(1).replace(/\+/g, "%2B"));
      for (const [part, text] of given) if (page[part] instanceof HTMLInputElement) page[part].value = text.replace(/,/g, ", ");
      show(given.has("offsets"));
    }

    fields.forEach((field) => field.addEventListener("input", () => show(true)));
    page.index.addEventListener("input", () => show(false));
    page.sizes.addEventListener("input", () => show(false));
    page.copy.addEventListener("click", () => navigator.clipboard.writeText(page.code.textContent));
    window.addEventListener("hashchange", open);
    open();
  }

  return {walk, read, start};
})();
