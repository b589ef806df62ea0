import java.io.IOException;
import java.util.concurrent.locks.LockSupport;

/**
 * A tick beside threads that allocate, to see what garbage collection does to it:
 *
 * <pre>java Ticks.java PERIOD_US TICKS LIVE_MB [COLLECTIONS]</pre>
 *
 * It prints READY, waits for a line, runs, prints how late the ticks began, and waits for another
 * line. The load fills LIVE_MB of live data anew all the time; with COLLECTIONS there is no load, and
 * so many collections are requested instead.
 */
public class Ticks {
    static volatile Object live;

    public static void main(String[] words) throws Exception {
        long period = Long.parseLong(words[0]) * 1000;
        int ticks = Integer.parseInt(words[1]);
        int megabytes = Integer.parseInt(words[2]);
        int collections = words.length > 3 ? Integer.parseInt(words[3]) : -1;
        System.out.println("READY " + ProcessHandle.current().pid() + " 0");
        line();
        Thread ticker = new Thread(() -> tick(period, ticks), "ticker");
        Thread load = new Thread(() -> allocate(megabytes, collections), "load");
        load.setDaemon(true);
        load.start();
        ticker.start();
        ticker.join();
        if (collections >= 0)
            load.join();
        System.out.println("DONE");
        line();
    }

    static void line() throws IOException {
        while (System.in.read() > '\n')
            ;
    }

    static void allocate(int megabytes, int collections) {
        byte[][] blocks = new byte[megabytes * 16][];
        for (int n = 0; n < blocks.length; n++)
            blocks[n] = new byte[65536];
        live = blocks;
        for (int n = 0; n < collections; n++) {
            System.gc();
            LockSupport.parkNanos(7_000_000);
        }
        for (int n = 0; collections < 0; n = (n + 1) % blocks.length)
            blocks[n] = new byte[65536];
    }

    static void tick(long period, int ticks) {
        long due = System.nanoTime() + period, sum = 0, worst = 0, late = 0;
        for (int n = 0; n < ticks; n++) {
            while (System.nanoTime() < due)
                LockSupport.parkNanos(due - System.nanoTime());
            long by = System.nanoTime() - due;
            worst = Math.max(worst, by);
            if (by > 1_000_000) {
                late++;
                sum += by;
            }
            while (due <= System.nanoTime())
                due += period;
        }
        System.out.println("late " + late);
        System.out.println("late_ns " + sum);
        System.out.println("worst_ns " + worst);
    }
}
