//! A hash of everything that happened: equal runs have equal hashes.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Hashes the events of a run.
#[derive(Clone, Debug, Default)]
pub struct TraceHash(SipHasher13);

impl TraceHash {
    /// Adds some numbers to the hash.
    pub fn update(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&number| self.0.write_u64(number));
    }

    /// Returns the hash so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}
