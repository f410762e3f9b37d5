//! The threads that write and check.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nodeward_proof::Xorshift64;

use crate::pattern::WrittenPage;
use crate::report::WriteTally;

const BURST: usize = 256;

/// Writes to random pages until told to stop, at least one burst. Checks one whole page after each
/// burst, and every page at the end.
pub fn keep_writing(
    pages: &mut [WrittenPage],
    seed: u64,
    pause: Option<Duration>,
    stop: &AtomicBool,
) -> WriteTally {
    let mut tally = WriteTally::default();
    let mut dice = Xorshift64::new(seed);
    loop {
        for _ in 0..BURST {
            let page = &mut pages[dice.below(pages.len())];
            let intact = page.write_next();
            tally.count_write(page, intact);
        }
        tally.check(&pages[dice.below(pages.len())]);
        pause.inspect(|&pause| std::thread::sleep(pause));
        if stop.load(Relaxed) {
            break;
        }
    }
    check_all(pages, &mut tally);
    tally
}

/// Checks every page once.
pub fn check_all(pages: &[WrittenPage], tally: &mut WriteTally) {
    pages.iter().for_each(|page| tally.check(page));
}
