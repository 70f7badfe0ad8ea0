import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

/** Native memory from many threads: direct buffers, deflaters and CRCs, each result printed as name=hash. */
public class Threads {
  static final int TASKS = 96;

  static byte[] bytes(int seed, int length) {
    byte[] made = new byte[length];
    long state = seed * 2654435761L + 1;
    for (int i = 0; i < length; i++) {
      state = state * 6364136223846793005L + 1442695040888963407L;
      made[i] = (byte) ("etaoin shrdlu".charAt((int) ((state >>> 33) % 13)));
    }
    return made;
  }

  static long task(int seed) throws DataFormatException {
    byte[] plain = bytes(seed, 20000 + seed * 331);
    Deflater deflater = new Deflater(1 + seed % 9);
    deflater.setInput(plain);
    deflater.finish();
    ByteBuffer packed = ByteBuffer.allocateDirect(plain.length + 1000);
    while (!deflater.finished()) deflater.deflate(packed);
    deflater.end();
    packed.flip();
    CRC32 crc = new CRC32();
    crc.update(packed.duplicate());
    Inflater inflater = new Inflater();
    inflater.setInput(packed);
    byte[] again = new byte[plain.length];
    int length = inflater.inflate(again);
    inflater.end();
    if (length != plain.length || !Arrays.equals(plain, again)) throw new IllegalStateException("task " + seed);
    Map<String, Integer> words = new TreeMap<>();
    for (String word : new String(plain).split(" ")) words.merge(word, 1, Integer::sum);
    return crc.getValue() * 31 + words.hashCode();
  }

  public static void main(String[] arguments) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    List<Future<Long>> results = new ArrayList<>();
    for (int i = 0; i < TASKS; i++) {
      final int seed = i;
      results.add(pool.submit(() -> task(seed)));
    }
    for (int i = 0; i < TASKS; i++) System.out.println("task" + i + "=" + Long.toHexString(results.get(i).get()));
    pool.shutdown();
    long total = 0;
    for (int round = 0; round < 200; round++) {
      final long[] sum = new long[1];
      Thread brief = new Thread(() -> sum[0] = ByteBuffer.allocateDirect(4096).capacity());
      brief.start();
      brief.join();
      total += sum[0];
    }
    System.out.println("threads=" + total);
  }
}
