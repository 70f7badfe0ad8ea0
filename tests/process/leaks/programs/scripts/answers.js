// This program caches answers in a Map that has no bound. Another Map has 30 questions, and the oldest one leaves it.
const answers = new Map();
const questions = new Map();
let number = 0;

function answer() {
  answers.set(`user ${number}`, Buffer.from("answer ".repeat(1200))); // LEAK
}

function ask() {
  questions.set(number, Buffer.alloc(20000));
  questions.delete(number - 30);
}

setInterval(() => {
  answer();
  ask();
  if (++number % 50 === 0) gc();
  if (number === 800) console.log("ready"); // and continues, as a server does
}, 1);
