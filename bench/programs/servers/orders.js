// orders.js PORT: an HTTP server that reads orders as JSON, keeps the last answers, and packs every fourth one.
const http = require("http");
const zlib = require("zlib");

const KEPT = 400;
const kept = [];
let answered = 0;

function report(orders, rows) {
  const totals = {};
  for (const order of orders)
    for (const line of order.lines) totals[line.item] = (totals[line.item] || 0) + line.count * line.price;
  const listed = [];
  for (let n = 0; n < 8 * rows; n++) {
    const of = Array.from({ length: n % 9 }, (_, k) => (n * k) % 101);
    listed.push({ row: n, name: `row ${(n * 7919) % 977}`, of });
  }
  listed.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { kept: kept.length, totals, notes: orders.map((order) => order.note.toUpperCase()), rows: listed };
}

function answer(request, response, body) {
  const rows = Number(request.url.slice(request.url.lastIndexOf("/") + 1));
  const said = Buffer.from(JSON.stringify(report(JSON.parse(body), rows)));
  const packed = answered++ % 4 === 0 ? zlib.gzipSync(said, { level: 1 }) : said;
  kept.push(said);
  if (kept.length > KEPT) kept.shift();
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": packed.length });
  response.end(packed);
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => answer(request, response, Buffer.concat(parts)));
});
process.on("SIGTERM", () => process.exit(0));
server.listen(Number(process.argv[2]), "127.0.0.1");
