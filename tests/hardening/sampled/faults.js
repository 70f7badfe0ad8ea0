// Makes accesses outside of WebAssembly's memory, which the engine turns from SIGSEGV into exceptions, and uses native memory.
const zlib = require("zlib");
const code = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 6, 1, 96, 1, 127, 1, 127, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 8, 1, 4, 114, 101, 97,
    100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 40, 2, 0, 11]);
const read = new WebAssembly.Instance(new WebAssembly.Module(code)).exports.read;
let caught = 0;
for (let i = 0; i < 3000; i++) {
    zlib.deflateSync(Buffer.alloc(5000, i));
    try {
        read(i % 2 ? 0 : 0x7fffff00);
    } catch (expected) {
        caught += expected instanceof WebAssembly.RuntimeError;
    }
}
console.log(caught);
