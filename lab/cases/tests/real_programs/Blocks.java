import java.util.Arrays;
import java.util.Random;

/**
 * Allocates, writes and checks arrays of 0.5 to 32 KiB, about 64 MiB in all, until its input ends.
 * What it drops is left to the garbage collector. Prints `ready` when it has them, and at its end
 * how much it checked and what was wrong.
 */
public final class Blocks {
    private static final byte[][] BLOCKS = new byte[4096][];
    private static final Random RANDOM = new Random(1);
    private static long checked;
    private static long wrong;

    private static void fill(int index) {
        byte[] block = new byte[512 + RANDOM.nextInt(32256)];
        Arrays.fill(block, (byte) RANDOM.nextInt());
        BLOCKS[index] = block;
    }

    private static void check(byte[] block) {
        for (byte value : block) {
            checked++;
            if (value != block[0]) {
                wrong++;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int index = 0; index < BLOCKS.length; index++) {
            fill(index);
        }
        Thread input = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                // It has ended, too.
            }
        });
        input.start();
        System.out.println("ready");
        for (int index = 0; input.isAlive(); index = (index + 7) % BLOCKS.length) {
            check(BLOCKS[index]);
            fill(index);
            Thread.sleep(1);
        }
        for (byte[] block : BLOCKS) {
            check(block);
        }
        System.out.println("checked " + checked + " wrong " + wrong);
        System.exit(wrong == 0 ? 0 : 1);
    }
}
