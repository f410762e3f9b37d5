//! Sets of CPUs by index.

/// A set of CPUs by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuIndexSet(Vec<u64>);

impl CpuIndexSet {
    /// Creates a set of these CPUs.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: usize) {
        if self.0.len() <= cpu / 64 {
            self.0.resize(cpu / 64 + 1, 0);
        }
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Returns whether a CPU is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    /// Adds or removes a CPU.
    pub fn set(&mut self, cpu: usize, is_in: bool) {
        if is_in { self.insert(cpu) } else { self.remove(cpu) }
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Returns all CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(index, &word): (usize, &u64)| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|&left| left != 0);
            let lefts = std::iter::successors(Some(word).filter(|&word| word != 0), next);
            lefts.map(move |left| index * 64 + left.trailing_zeros() as usize)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}
