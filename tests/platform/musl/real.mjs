// Usage: real.mjs [FOLDER]
// Uses functions of node itself, also in threads. With FOLDER, it uses modules for musl in this folder. Prints only what does not depend on time or
// place.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { brotliCompressSync, brotliDecompressSync, deflateSync, inflateSync } from 'node:zlib';

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

function work(seed) {
  const rows = [];
  for (let i = 0; i < 4000; i++) rows.push({ key: `${seed}/${i}`, text: 'x'.repeat((i * 7919) % 400), more: Array(i % 20).fill(i) });
  const text = JSON.stringify(rows);
  if (inflateSync(deflateSync(text)).toString() !== text || brotliDecompressSync(brotliCompressSync(text.slice(0, 200000))).length !== 200000)
    throw new Error('what was packed differs');
  const buffers = JSON.parse(text).map((row) => Buffer.alloc(1 + row.text.length * 40, row.key));
  return hash(Buffer.concat(buffers.sort(Buffer.compare))) + hash(text);
}

async function modules(folder) {
  const require = createRequire(folder + '/');
  const sharp = require('sharp');
  const pixels = Buffer.from(Array.from({ length: 600 * 400 * 3 }, (_, i) => (i * 31) ^ (i >> 8)));
  const images = await Promise.all(Array.from({ length: 8 }, (_, i) => sharp(pixels, { raw: { width: 600, height: 400, channels: 3 } })
    .resize(300 + i * 10).rotate(i * 15).blur(1 + i / 2).png().toBuffer()));
  const sizes = await Promise.all(images.map((image) => sharp(image).jpeg().toBuffer().then((made) => sharp(made).metadata())));
  console.log('sharp', images.map(hash).join(' '), sizes.map((size) => `${size.width}x${size.height}`).join(' '));

  let script = '', style = '';
  for (let i = 0; i < 1500; i++) {
    script += `export const f${i} = async (a: number, { b, ...c }: Record<string, number>) => { for await (const d of [a ?? ${i}]) await g${i}?.(d, c); };\n`;
    style += `.a${i} { color: rgb(${i % 256} 0 0 / 50%); &:hover > .b { margin: calc(1px + ${i}px); user-select: none } }\n`;
  }
  const options = { jsc: { parser: { syntax: 'typescript' }, target: 'es5', minify: { mangle: true, compress: true } }, minify: true };
  const outputs = await Promise.all([1, 2, 3].map(() => require('@swc/core').transform(script, options)));
  console.log('swc', outputs.map((output) => hash(output.code)).join(' '));
  const { code } = require('lightningcss').transform({ filename: 'a.css', code: Buffer.from(style), minify: true, targets: { chrome: 80 << 16 } });
  console.log('lightningcss', hash(code));
}

if (!isMainThread) {
  parentPort.postMessage(work(workerData));
} else if (process.argv[2]) {
  await modules(process.argv[2]);
} else {
  const threads = [1, 2, 3, 4].map((seed) => new Promise((done, failed) => new Worker(new URL(import.meta.url), { workerData: seed })
    .on('message', done).on('error', failed)));
  console.log((await Promise.all(threads)).join(' '), work(1));
}
