// This program keeps each frame of a film in an array. It draws pictures, which V8 frees later.
const frames = [];
let number = 0;

function readFrame() {
  frames.push(Buffer.alloc(9000, number)); // LEAK
}

function drawPicture() {
  return Buffer.alloc(40000, number).length;
}

setInterval(() => {
  readFrame();
  drawPicture();
  if (++number % 50 === 0) gc();
  if (number === 800) console.log("ready"); // and continues, as a server does
}, 1);
