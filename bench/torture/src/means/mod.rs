//! The means by which programs use memory, each with one thread or several.

mod advise;
mod broken;
mod calls;
mod direct;
mod discard;
mod fork;
mod futex;
mod hold;
mod lives;
mod lock;
mod merge;
mod moves;
mod pageout;
mod plain;
mod pressure;
mod protect;
mod signals;
mod sizes;
mod start;

use std::path::PathBuf;
use std::sync::Arc;

use crate::ground::Ground;
use crate::hand::{Fault, Hand};
use crate::lot::Lot;
use crate::post::Post;

/// One of the threads of a means.
pub trait Means: Send {
    /// Does something for a few milliseconds.
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault>;

    /// Undoes, on the same thread, changes that must not stay.
    fn end(&mut self, _hand: &mut Hand) -> Result<(), Fault> {
        Ok(())
    }

    /// Returns its memory.
    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut []
    }

    /// Checks all its memory when no other thread is left.
    fn last_look(&mut self) -> Result<(), Fault> {
        self.lots().iter().try_for_each(|lot| lot.check(0..lot.pages()))?;
        Ok(())
    }
}

/// The reason why a means is not available here.
#[derive(Debug)]
pub struct Skipped(pub String);

/// The environment in which a means is made.
pub struct Site<'a> {
    pub ground: &'a mut Ground,
    /// Directory for files.
    pub dir: PathBuf,
    /// Settings of the whole machine may be changed for a while.
    pub whole_machine: bool,
    /// Number of threads that move pages.
    pub movers: usize,
    /// The posts of all threads, once all are there.
    pub posts: Arc<std::sync::OnceLock<Vec<Arc<Post>>>>,
}

impl Site<'_> {
    /// Fails unless settings of the whole machine may be changed.
    fn needs_the_machine(&self) -> Result<(), Skipped> {
        let why = "it changes settings of the whole machine, which --whole-machine allows";
        if self.whole_machine { Ok(()) } else { Err(Skipped(why.to_owned())) }
    }
}

/// The threads of a means, or why there are none.
pub type Made = Result<Vec<Box<dyn Means>>, Skipped>;

/// A means, and its description.
pub struct Kind {
    pub name: &'static str,
    pub what: &'static str,
    pub make: fn(&mut Site<'_>) -> Made,
}

/// All means.
pub const ALL: &[Kind] = &[
    Kind { name: "moves", what: moves::WHAT, make: moves::make },
    Kind { name: "plain", what: plain::WHAT, make: plain::make },
    Kind { name: "calls", what: calls::WHAT, make: calls::make },
    Kind { name: "direct", what: direct::WHAT, make: direct::make },
    Kind { name: "hold", what: hold::WHAT, make: hold::make },
    Kind { name: "futex", what: futex::WHAT, make: futex::make },
    Kind { name: "protect", what: protect::WHAT, make: protect::make },
    Kind { name: "advise", what: advise::WHAT, make: advise::make },
    Kind { name: "discard", what: discard::WHAT, make: discard::make },
    Kind { name: "lock", what: lock::WHAT, make: lock::make },
    Kind { name: "fork", what: fork::WHAT, make: fork::make },
    Kind { name: "start", what: start::WHAT, make: start::make },
    Kind { name: "signals", what: signals::WHAT, make: signals::make },
    Kind { name: "lives", what: lives::WHAT, make: lives::make },
    Kind { name: "merge", what: merge::WHAT, make: merge::make },
    Kind { name: "sizes", what: sizes::WHAT, make: sizes::make },
    Kind { name: "pageout", what: pageout::WHAT, make: pageout::make },
    Kind { name: "pressure", what: pressure::WHAT, make: pressure::make },
];

/// Means that run only when they are named.
pub const BROKEN: &[Kind] = &[
    Kind { name: "stands", what: broken::WHAT_STANDS, make: broken::make_stands },
    Kind { name: "spoils", what: broken::WHAT_SPOILS, make: broken::make_spoils },
];

/// Returns one thread, boxed.
fn one(means: impl Means + 'static) -> Made {
    Ok(vec![Box::new(means)])
}
