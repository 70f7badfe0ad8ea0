/* Uses null pointers, overflows the stack, and uses native memory. The virtual machine handles SIGSEGV for the first two. With an argument it makes
 * a fault that ends the process. */
import java.lang.reflect.Field;
import java.util.zip.Deflater;

public class Faults {
    static int depth;

    static int nulls(int rounds) {
        int caught = 0;
        int[][] rows = {null, new int[4]};
        for (int i = 0; i < rounds; i++) {
            try {
                rows[i & 1][0]++;
            } catch (NullPointerException expected) {
                caught++;
            }
        }
        return caught;
    }

    static int deeper() { return 1 + deeper(); }

    static int overflows(int rounds) {
        int caught = 0;
        for (int i = 0; i < rounds; i++) {
            try {
                deeper();
            } catch (StackOverflowError expected) {
                caught++;
            }
        }
        return caught;
    }

    static void nativeMemory(int rounds) {
        byte[] in = new byte[20000], out = new byte[20000];
        for (int i = 0; i < rounds; i++) {
            Deflater deflater = new Deflater();
            deflater.setInput(in);
            deflater.finish();
            deflater.deflate(out);
            deflater.end();
        }
    }

    public static void main(String[] arguments) throws Exception {
        nativeMemory(2000);
        System.out.println(nulls(200000) + " " + overflows(20));
        nativeMemory(500);
        if (arguments.length == 0)
            return;
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        ((sun.misc.Unsafe) field.get(null)).putInt(64L, 1);
    }
}
