//! The place of a thread among all that go through the same memory: those of its process, or of all
//! processes that share a file. Those of a pool, of all processes, are neighbours.

use crate::args::{AccessPart, Args};

/// The place of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its number among all threads.
    pub number: usize,
    /// Number of all these threads.
    pub threads: usize,
    /// The pool that it is in, and how many there are.
    pub pool: (usize, usize),
}

impl ThreadPlace {
    /// The place of a thread of this process.
    pub fn of(args: &Args, thread: usize) -> Self {
        let (process, processes) = args.process;
        let (threads, pools) = (args.threads as usize, args.pools.len().max(1));
        let of_pool = threads / pools;
        let (pool, in_pool) = (thread / of_pool, thread % of_pool);
        let number = (pool * processes + process) * of_pool + in_pool;
        Self { number, threads: threads * processes, pool: (pool, pools) }
    }

    /// The places of all threads of this process.
    pub fn all(args: &Args) -> Vec<Self> {
        (0..args.threads as usize).map(|thread| Self::of(args, thread)).collect()
    }

    /// Returns the index of the node by hand to which the thread belongs: pools that share their
    /// part stay together.
    pub fn home(&self, part: AccessPart) -> usize {
        match part {
            AccessPart::Pool => self.pool.0,
            _ => self.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Goal: of two processes with two pools of two threads each, the threads of the first pool are
    /// 0 to 3; without another process, threads keep their order.
    #[test]
    fn pools_are_neighbours() {
        let numbers = |line: &str| -> Vec<_> {
            let args = Args::try_parse_from(line.split(' ')).unwrap();
            let places = ThreadPlace::all(&args);
            places.iter().map(|place| (place.number, place.pool.0)).collect()
        };
        let line = "s --threads 4 --pools a,b --file /dev/shm/x --process";
        assert_eq!(numbers(&format!("{line} 0/2")), [(0, 0), (1, 0), (4, 1), (5, 1)]);
        assert_eq!(numbers(&format!("{line} 1/2")), [(2, 0), (3, 0), (6, 1), (7, 1)]);
        assert_eq!(numbers("s --threads 4 --pools a,b"), [(0, 0), (1, 0), (2, 1), (3, 1)]);
        assert_eq!(numbers("s --threads 2"), [(0, 0), (1, 0)]);
    }
}
