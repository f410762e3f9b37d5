//! A number that stands for everything that happened: equal runs have equal ones.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Takes in what happens.
#[derive(Clone, Debug, Default)]
pub struct TraceHash(SipHasher13);

impl TraceHash {
    /// Takes in a few numbers.
    pub fn note(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&number| self.0.write_u64(number));
    }

    /// The number so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}
