// Threads with collections, strings, unmanaged blocks, exceptions and finalizers; every line depends on the numbers alone.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

class Kept {
  IntPtr block;
  public readonly int Size;
  public Kept(int size) { Size = size; block = Marshal.AllocHGlobal(size); for (int i = 0; i < size; i += 64) Marshal.WriteByte(block, i, (byte) (size + i)); }
  public int Sum() { int sum = 0; for (int i = 0; i < Size; i += 64) sum += Marshal.ReadByte(block, i); return sum; }
  ~Kept() { Marshal.FreeHGlobal(block); }
}

static class Program {
  static string Digest(string text) {
    using (var sha = SHA256.Create()) return BitConverter.ToString(sha.ComputeHash(Encoding.UTF8.GetBytes(text))).Replace("-", "").Substring(0, 16);
  }

  static string Work(int thread, int round) {
    var table = new Dictionary<string, List<int>>();
    for (int n = 1; n <= 2000; n++) {
      var key = ((n * 7919L * thread + round) % 4093).ToString("x");
      List<int> list;
      if (!table.TryGetValue(key, out list)) table[key] = list = new List<int>();
      list.Add(n);
    }
    var text = string.Join(",", table.OrderBy(p => p.Key, StringComparer.Ordinal).Select(p => p.Key + p.Value.Sum()));
    int sum = Enumerable.Range(1, 100).Select(n => new Kept(n * round)).Sum(k => k.Sum());
    int thrown = 0;
    for (int n = 0; n < 20; n++) {
      try { if (n % 3 == 0) throw new InvalidOperationException(text.Substring(n, 10)); }
      catch (InvalidOperationException e) { thrown += e.Message.Length; }
    }
    var utf8 = Marshal.StringToHGlobalAnsi(text);
    var back = Marshal.PtrToStringAnsi(utf8);
    Marshal.FreeHGlobal(utf8);
    return string.Format("{0}_{1}_{2}_{3}", Digest(text), sum, thrown, back == text ? "same" : "wrong");
  }

  static void Main() {
    var lines = new string[4 * 60];
    var threads = Enumerable.Range(0, 4).Select(t => new Thread(() => {
      for (int round = 1; round <= 60; round++) lines[t * 60 + round - 1] = string.Format("thread{0}_round{1}={2}", t + 1, round, Work(t + 1, round));
    })).ToList();
    threads.ForEach(t => t.Start());
    threads.ForEach(t => t.Join());
    foreach (var line in lines) Console.WriteLine(line);
    var found = new string[60];
    Parallel.For(0, 60, n => found[n] = Work(n % 7 + 5, n + 1));
    for (int n = 0; n < 60; n++) Console.WriteLine("task{0}={1}", n, found[n]);
    GC.Collect();
    GC.WaitForPendingFinalizers();
    Console.WriteLine("finalizers=waited_for");
  }
}
