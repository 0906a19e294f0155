/** A day of one property as a small line: drawn as steps between the least and the greatest value, with gaps where none was reported. */

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, EDGE] = [160, 24, 2];

function make(name, properties) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  return element;
}

/** The line of values (null: none); `words` is what a screen reader says. */
export function sparkline(values, words) {
  const box = make("svg", { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": words });
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const x = (place) => ((place / values.length) * WIDTH).toFixed(1);
  const y = (value) => (high === low ? HEIGHT / 2 : HEIGHT - EDGE - ((value - low) / (high - low)) * (HEIGHT - 2 * EDGE)).toFixed(1);
  let path = "";
  let pen = false;
  values.forEach((value, place) => {
    if (value === null) {
      pen = false;
      return;
    }
    path += `${pen ? "V" : `M${x(place)} `}${y(value)}H${x(place + 1)}`;
    pen = true;
  });
  box.append(make("path", { d: path }));
  return box;
}
