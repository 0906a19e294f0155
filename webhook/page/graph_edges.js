/** The lines of the graph: curves from a node to those that belong to it, drawn behind the lists. */

import { isNews } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

/** Draws into a board whenever its size changes, or when told. */
export class Edges {
  /** `pairs()` returns `[[from, to, tone], …]` as elements on the board; `column`: the list beside the others. */
  constructor(board, column, pairs) {
    Object.assign(this, { board, column, pairs });
    this.element = document.createElementNS(SVG, "svg");
    this.element.setAttribute("class", "graph-edges");
    this.element.setAttribute("aria-hidden", "true");
    this.element.setAttribute("focusable", "false");
    board.prepend(this.element);
    const sizes = new ResizeObserver(() => this.draw());
    for (const element of [board, column]) sizes.observe(element);
  }

  draw() {
    const frame = this.board.getBoundingClientRect();
    this.board.style.setProperty("--objects", `${this.column.offsetHeight}px`); // it is out of the flow
    if (!frame.width || getComputedStyle(this.element).display === "none") return;
    const lines = this.pairs().map(([from, to, tone]) => [curve(from.getBoundingClientRect(), to.getBoundingClientRect(), frame), tone]);
    if (!isNews(this.element, lines)) return;
    this.element.replaceChildren(...lines.map(([d, tone]) => {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", d);
      path.setAttribute("class", tone);
      return path;
    }));
  }
}

/** From the right edge of a box to the left edge of another; within a column, down along its left edge. */
function curve(from, to, frame) {
  const [toX, toY] = [to.left - frame.left, (to.top + to.bottom) / 2 - frame.top];
  if (to.left < from.right) {
    const [x, y] = [from.left - frame.left + 7, from.bottom - frame.top];
    return `M${round(x)} ${round(y)}V${round(toY)}H${round(toX)}`;
  }
  const [x, y] = [from.right - frame.left, Math.min(from.top + 18, (from.top + from.bottom) / 2) - frame.top];
  const middle = round((x + toX) / 2);
  return `M${round(x)} ${round(y)}C${middle} ${round(y)} ${middle} ${round(toY)} ${round(toX)} ${round(toY)}`;
}

const round = (value) => value.toFixed(1);
