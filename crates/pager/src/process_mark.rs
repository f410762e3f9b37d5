//! A mark in memory that children do not have: a load tells a process from its children, also from
//! those made by clone(2) without the C library, where getpid(2) would be a system call each time.

use std::sync::atomic::Ordering;

use rustix::process::getpid;

use crate::sys::{Advice, AnonMapping};

/// The mark of this process.
#[derive(Debug)]
pub struct ProcessMark {
    pid: i32,
    /// A page that reads as zero in children; `None` before Linux 4.14.
    mark: Option<AnonMapping>,
}

impl ProcessMark {
    /// Marks this process.
    pub fn new() -> Self {
        Self { pid: getpid().as_raw_pid(), mark: wiped_page() }
    }

    /// Returns whether this is the process that was marked, and not a child of it.
    pub fn is_here(&self) -> bool {
        match &self.mark {
            Some(mark) => mark.words()[0].load(Ordering::Relaxed) != 0,
            None => getpid().as_raw_pid() == self.pid,
        }
    }
}

fn wiped_page() -> Option<AnonMapping> {
    let page = rustix::param::page_size();
    let mark = AnonMapping::reserve(page, page).ok()?;
    mark.advise(0..page, Advice::WipeOnFork).ok()?;
    mark.words()[0].store(1, Ordering::Relaxed);
    Some(mark)
}

#[cfg(test)]
mod tests {
    use nodeward_linux::interference::{ChildExit, run_in_child};

    use super::*;

    /// Goal: a child knows that it is one, with and without the page; the parent still is itself.
    #[test]
    fn children_are_told() {
        let mark = ProcessMark::new();
        let by_pid = ProcessMark { mark: None, ..ProcessMark::new() };
        let child = run_in_child(|| u8::from(mark.is_here()) + 2 * u8::from(by_pid.is_here()));
        assert_eq!(child.unwrap(), ChildExit::Code(0));
        assert!(mark.is_here() && by_pid.is_here());
    }
}
