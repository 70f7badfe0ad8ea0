// Native memory from worker threads: zlib, crypto, buffers that move between threads. Prints name=hash lines.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

const WORKERS = 6;
const ROUNDS = 40;

function text(seed, length) {
  let state = (seed * 2654435761) >>> 0;
  const out = Buffer.alloc(length);
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out[i] = 97 + (state >>> 24) % 17;
  }
  return out;
}

function hash(data) {
  return crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);
}

async function work(seed) {
  const sum = crypto.createHash('sha256');
  for (let round = 0; round < ROUNDS; round++) {
    const plain = text(seed * 1000 + round, 3000 + round * 997);
    const packed = round % 3 === 0 ? zlib.brotliCompressSync(plain, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } })
      : zlib.deflateSync(plain, { level: 1 + round % 9 });
    const again = round % 3 === 0 ? zlib.brotliDecompressSync(packed) : zlib.inflateSync(packed);
    if (!again.equals(plain)) throw new Error(`round ${round}`);
    sum.update(packed).update(JSON.stringify(JSON.parse(JSON.stringify({ round, text: plain.toString('base64') }))));
    sum.update(crypto.pbkdf2Sync(plain.subarray(0, 32), 'salt', 50, 64, 'sha512'));
  }
  const waiting = [];
  for (let i = 0; i < 12; i++) {
    waiting.push(new Promise((resolve, reject) => zlib.gzip(text(seed + i, 50000), (error, out) => (error ? reject(error) : resolve(out)))));
  }
  for (const packed of await Promise.all(waiting)) sum.update(zlib.gunzipSync(packed));
  return sum.digest('hex').slice(0, 16);
}

async function main() {
  const results = [];
  for (let i = 0; i < WORKERS; i++) {
    results.push(new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: i });
      worker.on('message', (m) => resolve([i, m.hash, hash(Buffer.from(m.moved))]));
      worker.on('error', reject);
    }));
  }
  for (const [i, own, moved] of await Promise.all(results)) console.log(`worker${i}=${own}\nmoved${i}=${moved}`);
  for (let generation = 0; generation < 10; generation++) {
    await new Promise((resolve) => new Worker('require("zlib").gzipSync(Buffer.alloc(100000))', { eval: true }).on('exit', resolve));
  }
  console.log(`main=${await work(99)}`);
}

if (isMainThread) {
  main().catch((error) => { console.error(error); process.exit(1); });
} else {
  work(workerData).then((own) => {
    const moved = new Uint8Array(text(workerData, 200000)).buffer;
    parentPort.postMessage({ hash: own, moved }, [moved]);
  });
}
