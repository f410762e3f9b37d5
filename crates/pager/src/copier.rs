//! Copies pages, by the routine that is measured to be fastest. An accelerator could do this part
//! of a migration.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::sys::{CopyRoutine, block_signals, evict, routines};

/// Copies pages that no other thread sees: the source is out of sight, and the destination is not
/// in sight yet.
pub trait Copier: Send + Sync {
    /// The name of the copier in reports.
    fn name(&self) -> &'static str;

    /// Copies `from` to `to`, which have equal lengths, are page-aligned and do not overlap. The
    /// whole copy must be visible to other CPUs when this returns.
    fn copy(&self, to: &mut [u8], from: &[u8]);
}

/// memcpy(3), as the compiler and the C library see fit.
#[derive(Clone, Copy, Debug)]
pub struct Memcpy;

impl Copier for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        to.copy_from_slice(from);
    }
}

impl Copier for CopyRoutine {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        self.copy(to, from);
    }
}

/// Returns all copiers that work on this CPU, the ones expected to be fastest first.
pub fn all() -> Vec<Arc<dyn Copier>> {
    let copier = |routine| Arc::new(routine) as Arc<dyn Copier>;
    routines().into_iter().map(copier).chain([Arc::new(Memcpy) as Arc<dyn Copier>]).collect()
}

/// The cache state of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyTarget {
    /// Pages that were not touched for a while.
    Cold,
    /// Pages that the kernel has just zeroed: non-temporal stores lose time by evicting the zeros
    /// from the caches.
    JustZeroed,
}

/// Returns the fastest copier of this machine: the one that is expected to be, until a thread has
/// measured them. The first call starts it; it takes about 30 ms.
pub(crate) fn fastest(target: CopyTarget) -> Arc<dyn Copier> {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    EXPECTED.get_or_init(first_of_all);
    if !IS_BEGUN.swap(true, Ordering::Relaxed) {
        let thread = Builder::new().name("nodeward-copier".to_owned()).spawn(measure_all);
        thread.map(drop).unwrap_or_else(|error| tracing::debug!(%error, "copiers stay unmeasured"));
    }
    Arc::new(Fastest(target))
}

static EXPECTED: OnceLock<Arc<dyn Copier>> = OnceLock::new();
/// The fastest for each target. Nobody waits for them: in a child of fork(2) they may never come.
static FASTEST: [OnceLock<Arc<dyn Copier>>; 2] = [const { OnceLock::new() }; 2];

/// The fastest copier for a target, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Fastest(CopyTarget);

impl Fastest {
    fn now(self) -> &'static dyn Copier {
        let measured = FASTEST[self.0 as usize].get();
        &**measured.unwrap_or_else(|| EXPECTED.get_or_init(first_of_all))
    }
}

impl Copier for Fastest {
    fn name(&self) -> &'static str {
        self.now().name()
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        self.now().copy(to, from);
    }
}

fn first_of_all() -> Arc<dyn Copier> {
    all().into_iter().next().unwrap_or_else(|| Arc::new(Memcpy))
}

fn measure_all() {
    // Signals are for threads of the program.
    block_signals().ok();
    for target in [CopyTarget::Cold, CopyTarget::JustZeroed] {
        FASTEST[target as usize].set(choose(all(), target)).ok();
    }
}

/// Bytes copied per measurement. The source is evicted from the caches before each, because a large
/// range is not cached when it migrates.
const SAMPLE_BYTES: usize = 256 << 10;
/// Rounds of measurement; the best time counts, which leaves out interference by other work.
const ROUNDS: usize = 4;
/// A copier expected to be faster is replaced only if another one is faster by a twentieth.
const TIE: (u128, u128) = (19, 20);

fn choose(copiers: Vec<Arc<dyn Copier>>, target: CopyTarget) -> Arc<dyn Copier> {
    let best = measure(&copiers, target);
    tracing::debug!(?target, copiers = ?names(&copiers).zip(&best).collect::<Vec<_>>(), "measured");
    copiers.into_iter().nth(winner(&best)).unwrap_or_else(|| Arc::new(Memcpy))
}

fn names(copiers: &[Arc<dyn Copier>]) -> impl Iterator<Item = &'static str> {
    copiers.iter().map(|copier| copier.name())
}

/// Returns the best time of each copier. Every round starts with another copier, because the first
/// one after a change of routine meets the caches and clock rates that the previous one left.
fn measure(copiers: &[Arc<dyn Copier>], target: CopyTarget) -> Vec<Duration> {
    // Nonzero bytes, so that real pages are mapped.
    let (mut to, from) = (vec![1; SAMPLE_BYTES], vec![2; SAMPLE_BYTES]);
    let mut best = vec![Duration::MAX; copiers.len()];
    for round in 0..ROUNDS {
        for turn in 0..copiers.len() {
            let index = (round + turn) % copiers.len();
            evict(&from);
            match target {
                CopyTarget::Cold => evict(&to),
                CopyTarget::JustZeroed => to.fill(0),
            }
            let began = Instant::now();
            copiers[index].copy(&mut to, &from);
            best[index] = best[index].min(began.elapsed());
        }
    }
    best
}

/// Returns the index of the chosen copier: the first, unless a later one is clearly faster.
fn winner(best: &[Duration]) -> usize {
    let beats = |later: usize, first: usize| {
        best[later].as_nanos() * TIE.1 < best[first].as_nanos() * TIE.0
    };
    let better = |chosen, index| if beats(index, chosen) { index } else { chosen };
    (1..best.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: usize = 4096;

    /// Copies `content` to offset `at` within a larger guarded buffer, checks the guard bytes, and
    /// returns the copy.
    fn copied(copier: &dyn Copier, content: &[u8], at: usize, guard: u8) -> Vec<u8> {
        // Whole pages around it, so that `at` alone decides the alignment of the destination.
        let mut buffer = vec![guard; content.len() + 4 * PAGE];
        let start = buffer.as_ptr().align_offset(PAGE) + PAGE + at;
        copier.copy(&mut buffer[start..start + content.len()], content);
        let (before, rest) = buffer.split_at(start);
        let (copy, after) = rest.split_at(content.len());
        assert!(before.iter().chain(after).all(|&byte| byte == guard), "{}", copier.name());
        copy.to_vec()
    }

    proptest! {
        /// Goal: every copier copies exactly what it is given: whole pages, few and many, with and
        /// without a remainder of the groups that routines copy at a time.
        #[test]
        fn copies_are_exact(pages in 0usize..=21, seed: [u8; 32], guard: u8) {
            let mut random = proptest::test_runner::TestRng::from_seed(
                proptest::test_runner::RngAlgorithm::ChaCha, &seed,
            );
            let mut content = vec![0; pages * PAGE];
            random.fill_bytes(&mut content);
            for copier in all() {
                let copy = copied(&*copier, &content, 0, guard);
                prop_assert!(copy == content, "{} copies {pages} pages wrong", copier.name());
            }
        }

        /// Goal: a slice shorter than a page, or unaligned, is copied correctly, though maybe
        /// slowly.
        #[test]
        fn odd_slices_are_copied_too(content in prop::collection::vec(any::<u8>(), 0..700),
                                     at in 0usize..PAGE) {
            for copier in all() {
                let copy = copied(&*copier, &content, at, 0xa5);
                prop_assert!(copy == content, "{} copies wrong", copier.name());
            }
        }
    }

    /// Goal: a routine refuses slices of different lengths, which is what makes it safe.
    #[test]
    fn lengths_must_agree() {
        for routine in routines() {
            let copy = || routine.copy(&mut [0; 64], &[0; 65]);
            let refused = std::panic::catch_unwind(copy);
            assert!(refused.is_err(), "{}", routine.name());
        }
    }

    /// Goal: a tie goes to the first copier, a clear lead to the fastest, whatever its position.
    #[test]
    fn ties_go_to_the_first() {
        let best = |micros: &[u64]| {
            winner(&micros.iter().map(|&us| Duration::from_micros(us)).collect::<Vec<_>>())
        };
        // A twentieth of 100 is 5: 96 is a tie, 94 is not.
        assert_eq!([best(&[100, 96]), best(&[100, 94]), best(&[94, 100])], [0, 1, 0]);
        assert_eq!(best(&[100, 80, 60, 90]), 2);
    }

    /// Goal: before it is measured, the copier is the one that is expected to be fastest; later it
    /// is one of all copiers, and the same at each call.
    #[test]
    fn the_choice_stays() {
        let expected = names(&all()).next();
        assert_eq!(EXPECTED.get_or_init(first_of_all).name(), expected.unwrap());
        measure_all();
        let first = fastest(CopyTarget::Cold).name();
        assert!(names(&all()).any(|name| name == first), "{first}");
        assert_eq!(fastest(CopyTarget::Cold).name(), first);
    }
}
