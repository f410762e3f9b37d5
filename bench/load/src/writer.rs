//! The threads that write and check.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nodeward_proof::Dice;

use crate::pattern::Written;
use crate::report::Tally;

const BURST: usize = 256;

/// Writes to random pages until told to stop, at least one burst. Checks one whole page after each
/// burst, and every page at the end.
pub fn keep_writing(
    pages: &mut [Written],
    seed: u64,
    pause: Option<Duration>,
    stop: &AtomicBool,
) -> Tally {
    let mut tally = Tally::default();
    let mut dice = Dice::new(seed);
    loop {
        for _ in 0..BURST {
            let page = &mut pages[dice.below(pages.len())];
            let intact = page.step();
            tally.wrote(page, intact);
        }
        tally.checked(&pages[dice.below(pages.len())]);
        pause.inspect(|&pause| std::thread::sleep(pause));
        if stop.load(Relaxed) {
            break;
        }
    }
    check_all(pages, &mut tally);
    tally
}

/// Checks every page once.
pub fn check_all(pages: &[Written], tally: &mut Tally) {
    pages.iter().for_each(|page| tally.checked(page));
}
